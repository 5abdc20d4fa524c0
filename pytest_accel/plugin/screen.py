"""pytest's terminal, as the plugin uses it: lines, the section of the run, and how wide both may be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_accel.core.printable import printable
from pytest_accel.plugin.stash import SESSION
from pytest_accel.views import fabric, terminal


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


def write(config: pytest.Config, lines: Sequence[terminal.Line], *, bold: bool = False) -> None:
    """Write lines, those with a colour in it and, with `bold`, in bold."""
    if terminal_reporter := reporter(config):
        writer = config.get_terminal_writer()
        if writer.width_of_current_line:  # "[100%]", where pytest writes no summary
            writer.line()
        for text, colour in lines:
            terminal_reporter.write_line(printable(text), **({colour: True, "bold": bold} if colour else {}))


def write_section(config: pytest.Config, lines: Sequence[terminal.Line]) -> None:
    """Write lines and the notes of the run, if there are any, below a title that names SKU and level."""
    session, terminal_reporter = config.stash[SESSION], reporter(config)
    setup = session.setup
    lines = [*lines, *((f"note: {note}", "yellow") for note in session.ledger.record.notes)]
    if between := session.fabric.fabric:  # which the node of rank 0 alone knows
        lines += fabric.lines(between)
    if lines and terminal_reporter:
        simulated = "SIMULATED " if setup.node else ""
        title = f"accel: {simulated}{setup.terms.sku.name if setup.terms.sku else 'no SKU'}, {setup.terms.level}"
        terminal_reporter.section(title, sep="=", bold=True)
        write(config, terminal.folded(lines, folding_width(config)))
