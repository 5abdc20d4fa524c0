"""The summary of the run that a folder holds: summary.json, or that of the record where it is damaged or absent.

Whoever can write into the folder can change both files: only regular files are read, up to a size, and no links.
"""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import record, summaries
from pytest_accel.run.summaries import Summary

SUMMARY_BYTES = 1 << 20
"""Size of the largest summary that is read. That of eight devices with forty figures each has about 20 kB."""
RECORD_BYTES = 8 << 20
"""Size of the largest record that is read in place of its summary."""
FILES = (summaries.SUMMARY, record.FILE)
"""The files that tell of a run, in the order in which they are tried."""


def of_folder(folder: Path) -> Summary | None:
    """Return the summary of the run that a folder holds, None if it has neither file.

    Raises BadFile, which names the first file that cannot be read, if no other one can.
    """
    bad = ""
    for name in FILES:
        path = folder / name
        try:
            path.lstat()
            return of_file(path)
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
        return summaries.checked(raw) if is_summary else summaries.summary(raw)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise BadFile(f"{path}: is not a record of pytest-accel, or a damaged one") from None
