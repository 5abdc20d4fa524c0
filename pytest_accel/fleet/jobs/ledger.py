"""The ledger of a fleet: one file in the folder of its runs that says what was done to which node, by whom and why.

`fleet drain` appends a line to ledger.csv for each node that it drains or resumes. People append theirs, such as
the number of a return (RMA) and the serial number of the board that came back. Nothing is ever rewritten.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import getpass
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from pytest_accel.core import untrusted
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile

FILE: Final = "ledger.csv"
LOCK: Final = ".draining"
COLUMNS: Final = ("at", "by", "did", "node", "reason", "run", "rma", "serial")
"""When (ISO 8601, in UTC), who, what ("drained", "resumed", or a word of one's own), the node, why, the folder of the
record that it follows from, the number of the return, and the serial number of the board that came back."""


def append(folder: Path, entries: Iterable[Mapping[str, str]]) -> None:
    """Append a line for each entry, as one write under a lock. Raises BadFile."""
    text = io.StringIO()
    rows = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    common = {"at": datetime.now(timezone.utc).isoformat(timespec="seconds"), "by": _user()}
    rows.writerows({name: printable(value) for name, value in {**common, **entry}.items()} for entry in entries)
    path = folder / FILE
    try:
        # Appended to and never rewritten, since people enter lines of their own.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o664)
        with open(handle, "a", encoding="utf-8") as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            file.write(text.getvalue() if os.fstat(handle).st_size else f"{','.join(COLUMNS)}\n{text.getvalue()}")
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process of the fleet at a time drain nodes. Raises OSError for a folder that cannot be written."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _user() -> str:
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def last(folder: Path) -> dict[str, dict[str, str]]:
    """Return the last entry of each node that drained or resumed it, by the name of the node. Raises BadFile."""
    path = folder / FILE
    if not untrusted.exists(path):
        return {}
    columns, rows = untrusted.table(path)
    if not {"did", "node", "at"} <= set(columns):
        raise BadFile(f"{path}:1: needs the columns {', '.join(COLUMNS)}")
    return {row["node"]: row for row in rows if row.get("node") and row.get("did") in ("drained", "resumed")}
