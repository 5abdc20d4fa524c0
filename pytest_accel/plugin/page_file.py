"""The HTML page of a run (--accel-report): refused before it, or written after it without effect on the verdict."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from pytest_accel.core.run import Run
from pytest_accel.run import record
from pytest_accel.run.statement import PAGE
from pytest_accel.views.html import page
from pytest_accel.views.terminal import Line


def refusal(target: str | bool) -> str | None:
    """Return the reason why a page cannot be written at the end of the run, None if nothing is known against it.

    `target` names the file; True stands for that beside the record.
    """
    try:
        page.demand_extra()
    except page.MissingExtra as error:
        return str(error)
    if not isinstance(target, str):
        return None
    path = Path(target).absolute()
    try:
        if not path.parent.is_dir():
            return f"{path.parent} is not a folder"
        if path.is_dir():
            return f"{path} is a folder; name a file in it"
        with tempfile.TemporaryFile(dir=path.parent):  # the page will be written by one too; it leaves nothing
            return None
    except OSError as error:
        return f"cannot write to {path}: {error.strerror}"


def write(run: Run, folder: Path, target: str | bool) -> Line:
    """Write the page of a record that lies in `folder`; return a line for the terminal.

    Where the disk refuses the page, the line names the command that makes it later.
    """
    path = Path(target) if isinstance(target, str) else folder / PAGE
    try:
        record.replace_file(path, page.report(run, folder))
    except OSError as error:
        later = f"pytest-accel report {shlex.quote(str(folder))} --output FILE"
        return f"report: cannot write to {path}: {error.strerror}; make it later: {later}", "yellow"
    except Exception as error:  # noqa: BLE001  the verdict does not depend on a view of it
        return f"report: {path} could not be written: {type(error).__name__}: {error}", "yellow"
    return f"report: {path}", ""
