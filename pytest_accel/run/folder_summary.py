"""The summary of the run that a folder holds: summary.json, or that of the record where it is damaged, absent or older.

Whoever can write into the folder can change both files: only regular files are read, up to a size, and no links.
"""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import node_results, record, summaries
from pytest_accel.run.summaries import Summary

SUMMARY_BYTES = 1 << 20
"""Size of the largest summary that is read. That of eight devices with forty figures each has about 20 kB."""
RECORD_BYTES = 8 << 20
"""Size of the largest record that is read in place of its summary."""
FILES = (summaries.SUMMARY, record.FILE)
"""The files that tell of a run, in the order in which they are tried."""
TAIL_BYTES = 128 << 10
"""How much of the end of a record is searched for its state."""
RUNS = b'\n"state": "running"'
"""The state of a record as long as its run has not ended."""


def of_folder(folder: Path) -> Summary | None:
    """Return the summary of the run that a folder holds, None if it has neither file.

    Raises BadFile, which names the first file that cannot be read, if no other one can.
    """
    bad = ""
    for name in FILES:
        path = folder / name
        try:
            path.lstat()
            found = of_file(path)
            return _ended(folder / record.FILE, found) or found if name == summaries.SUMMARY else found
        except FileNotFoundError:
            continue
        except OSError as error:
            bad = bad or f"{folder.name}/{name} cannot be read: {error.strerror}"
        except BadFile:
            bad = bad or f"{folder.name}/{name} is damaged"
    if bad:
        raise BadFile(bad)
    return None


def of_file(path: Path) -> Summary:
    """Return the summary that a file holds, or that of the record that it holds, by its name. Raises BadFile."""
    is_summary = path.name == summaries.SUMMARY
    raw = untrusted.read_json(path, most=SUMMARY_BYTES if is_summary else RECORD_BYTES, follow=False)
    try:
        return summaries.checked(raw if is_summary else summaries.summary(raw))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise BadFile(f"{path}: is not a record of pytest-accel, or a damaged one") from None


def _ended(path: Path, found: Summary) -> Summary | None:
    """Return the summary of a record whose run has ended though its summary says that it has not; else None.

    Whoever is killed between writing the two leaves them so. The record is written first.
    """
    if found["state"] != node_results.RUNNING:
        return None
    try:
        if RUNS in untrusted.read_end(path, TAIL_BYTES):
            return None
        newer = of_file(path)
    except BadFile:
        return None
    same = (newer["started"], newer["host"]) == (found["started"], found["host"])
    return newer if same and newer["state"] != node_results.RUNNING else None
