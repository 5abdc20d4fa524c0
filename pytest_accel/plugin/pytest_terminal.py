"""pytest's terminal, as the plugin uses it: it writes lines, and asks for their width."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_accel.core.printable import printable
from pytest_accel.views.terminal import Line


def reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    """Return pytest's terminal reporter; None before pytest has made it, and with -p no:terminal."""
    plugin: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    return plugin


def width(config: pytest.Config) -> int:
    """Return the columns of the terminal, or those that pytest assumes where there is none."""
    return int(config.get_terminal_writer().fullwidth)


def folding_width(config: pytest.Config) -> int | None:
    """Return the columns at which lines are folded if a person reads them.

    It is None for a file, in which whatever belongs together stays in one line.
    """
    terminal_reporter = reporter(config)
    return width(config) if terminal_reporter and terminal_reporter.isatty else None


def write(config: pytest.Config, lines: Sequence[Line], *, bold: bool = False) -> None:
    """Write lines, those with a colour in it and, with `bold`, in bold."""
    if terminal_reporter := reporter(config):
        writer = config.get_terminal_writer()
        if writer.width_of_current_line:  # "[100%]", where pytest writes no summary
            writer.line()
        for text, colour in lines:
            terminal_reporter.write_line(printable(text), **({colour: True, "bold": bold} if colour else {}))
