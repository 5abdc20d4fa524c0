"""Makes a series of runs of a pytest that is given --accel-hours: it collects nothing itself."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from pytest_accel.core.printable import printable
from pytest_accel.run.options import is_series


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Return the exit status of the series; None for any other run. Raises pytest.UsageError."""
    if not is_series(config.option):
        return None
    from pytest_accel.core import closing_file
    from pytest_accel.plugin.hooks import options_from
    from pytest_accel.plugin.stash import OWN_PATHS
    from pytest_accel.run.options import Refused
    from pytest_accel.run.series import folder_of, go_on, locked, start_run

    def tell(line: str) -> None:
        sys.stdout.write(f"accel: {printable(line)}\n")
        sys.stdout.flush()
        closing_file.write(line)

    options = options_from(config, config.stash.get(OWN_PATHS, True))
    arguments = [str(argument) for argument in config.invocation_params.args]
    try:
        with locked(folder_of(options)):
            return go_on(options, partial(start_run, arguments, options.level), tell)
    except Refused as error:
        raise pytest.UsageError(str(error)) from None
