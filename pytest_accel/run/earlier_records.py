"""The records of earlier runs that lie beside the record of this one.

They are known by their summaries, which are read up to a size and a number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from pathlib import Path

from pytest_accel.core import paths, untrusted
from pytest_accel.core.measurement import NODE
from pytest_accel.core.run import EarlierRecord, Launch
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.drivers import registry
from pytest_accel.run import folder_summary, record, summaries
from pytest_accel.run.folder_summary import FILES
from pytest_accel.run.options import AUTO, NONE, Refused
from pytest_accel.run.record_folder import file_name, numbered
from pytest_accel.run.terms import refusing

MOST_SUMMARIES = 1000
"""Most summaries that are read: the newest ones and the `OLDEST`. `benchmarks/aging.py` measures how long they take."""
OLDEST = 100
"""The number of the oldest summaries, among which the first accepted run lies."""
MOST_RECORDS = 20
"""Most records without a summary that are read, the newest ones: 0.1 s for each of a node of eight devices."""


@dataclass
class EarlierRecords:
    """The earlier records beside a record, newest first, and what was not read."""

    summaries: list[Summary] = field(default_factory=list)
    """The summary of each record of a run, without records that were judged again."""
    failures: list[str] = field(default_factory=list)
    """A sentence for each file that could not be read."""
    not_read: int = 0
    """Number of records that were too many to be read."""

    def entries_of(self, uuids: Iterable[str]) -> list[EarlierRecord]:
        """Return an entry for each record that holds any of the devices, oldest first."""
        devices = set(uuids)
        pairs = ((summary, summary.by_uuid.keys() & devices) for summary in reversed(self.summaries))
        return [_entry(summary, matches) for summary, matches in pairs if matches]

    def last_accelerators(self, host: str) -> str | None:
        """Return a sentence if the newest record of this host holds accelerators, else None.

        It is asked where a run finds no accelerator: those that an earlier run found must have vanished. A record
        without any device is passed over, as it comes from a run that missed them already.
        """
        summary = self.newest_of(host)
        devices = summary.devices if summary else ()
        models = [device.model for device in devices if registry.vendor(device.driver).accelerator]
        if not summary or not models:
            return None
        names = ", ".join(sorted(set(models)))
        return f"the earlier record {summary.path} holds {len(models)} x {names}, but no accelerator is found now"

    def newest_of(self, host: str) -> Summary | None:
        """Return the newest record of this host that holds a device, None without one."""
        of_host = [summary for summary in self.summaries if summary.host == host and summary.devices]
        return max(of_host, key=attrgetter("started"), default=None)

    def notes(self) -> list[str]:
        """Return one sentence on what was not read, if there is any."""
        count = len(self.failures) + self.not_read
        if not count:
            return []
        first = self.failures[0] if self.failures else "there are too many"
        suffix = f" (and {count - 1} more)" if self.failures and count > 1 else ""
        files = "1 earlier record was" if count == 1 else f"{count} earlier records were"
        return [f"{files} not read: {first}{suffix}"]


def read(folder: Path, launch: Launch | None = None, *, rehearsal: bool = False) -> EarlierRecords:
    """Return the records in the folders beside `folder`: in a `rehearsal` those of simulated nodes, else of hardware.

    Where the nodes of a job share the folder above, those are the records of this node in it, and those in the folders
    beside the shared one (DIR/../<night>/<node>): to read those of all other nodes would slow down a large fleet.
    """
    name = file_name(launch.node) if launch and launch.shares_folder else ""
    if not name or folder not in numbered(folder.with_name(name)):
        return inside(folder.parent, folder, rehearsal=rehearsal)
    folders = (
        path
        for night in _folders(folder.parent.parent)
        for path in takewhile(os.path.isdir, numbered(night / name))
        if path != folder
    )
    return _read(folders, rehearsal)


def inside(parent: Path, exclude: Path | None = None, *, rehearsal: bool | None = None) -> EarlierRecords:
    """Return the records in the folders of a folder, without that in the folder `exclude`.

    Without `exclude` the folder was named for its records, and what cannot be entered there is told. Beside a run, such
    as in /tmp, lie folders of others.
    """
    if exclude is not None:
        return _read((path for path in _folders(parent) if path != exclude), rehearsal)
    refusals: list[str] = []
    earlier = _read(_folders(parent, refusals), rehearsal, refusals)
    earlier.failures += refusals
    return earlier


def _read(folders: Iterable[Path], rehearsal: bool | None, refusals: list[str] | None = None) -> EarlierRecords:
    """Return the records in these folders. Those that cannot be entered are added to `refusals`."""
    earlier = EarlierRecords()
    files, records = _in(folders, refusals)  # each newest first
    selection = [*files[: MOST_SUMMARIES - OLDEST], *files[-OLDEST:]] if len(files) > MOST_SUMMARIES else files
    selection = [*selection, *records[:MOST_RECORDS]]
    for path in selection:
        _keep(earlier, path, rehearsal)
    earlier.not_read = len(files) + len(records) - len(selection)
    earlier.summaries.sort(key=attrgetter("started"), reverse=True)
    return earlier


def _folders(parent: Path, refusals: list[str] | None = None) -> list[Path]:
    """Return the folders in a folder; none if it cannot be read, which is added to `refusals` then."""
    try:
        with os.scandir(parent) as entries:
            return [Path(entry.path) for entry in entries if _is_folder(entry)]
    except OSError as error:
        _tell(error, refusals)
        return []


def _tell(error: OSError, refusals: list[str] | None) -> None:
    """Add a folder that cannot be entered to `refusals`."""
    if refusals is not None and not isinstance(error, FileNotFoundError):
        refusals.append(paths.refusal(error))


def _in(folders: Iterable[Path], refusals: list[str] | None = None) -> tuple[list[Path], list[Path]]:
    """Return the summaries in these folders, and the records that have none; each newest first.

    Folders that cannot be entered are added to `refusals`.
    """
    summed: list[tuple[float, Path]] = []
    records: list[tuple[float, Path]] = []
    for folder in folders:
        for name, entries in zip(FILES, (summed, records), strict=True):
            try:
                mtime = (folder / name).lstat().st_mtime
            except FileNotFoundError:
                continue
            except OSError as error:
                _tell(error, refusals)
            else:
                entries.append((mtime, folder / name))
            break
    return [path for _, path in sorted(summed, reverse=True)], [path for _, path in sorted(records, reverse=True)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder that is no link: a link to a record beside it would count that twice."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _keep(earlier: EarlierRecords, file: Path, rehearsal: bool | None) -> None:
    """Add a record by its summary, or by the record itself in place of one."""
    try:
        summary = folder_summary.of_file(file, rehearsal)
    except record.OtherKind:
        return
    except BadFile as bad:  # whatever lies beside a record must not stop a run
        earlier.failures.append(bad.args[0])
    else:
        if not summary.judged_again:  # that is no measurement of hardware
            earlier.summaries.append(summary)


def records_at(path: Path, *, rehearsal: bool | None = None) -> EarlierRecords:
    """Return the record at a path, or all that `inside` finds. Raises BadFile if there is none, or a damaged one."""
    if untrusted.exists(path) and path.is_dir() and not untrusted.exists(path / record.FILE):
        records = inside(path, rehearsal=rehearsal)
        if not records.summaries:
            detail = f": {records.failures[0]}" if records.failures else ""
            raise BadFile(f"{path}: holds no record of a run{detail}; name a record.json or a folder with one")
        return records
    return EarlierRecords([summaries.summary(record.read(record.find(path), rehearsal=rehearsal))])


def baseline_runs(value: str, *, rehearsal: bool) -> list[Summary]:
    """Return the runs that --accel-baseline names. Raises Refused for a wrong or damaged record, or where none is."""
    try:
        with refusing("--accel-baseline"):
            return [] if value in (AUTO, NONE) else records_at(Path(value), rehearsal=rehearsal).summaries
    except OSError as error:  # of a path that no file system takes
        raise Refused(f"--accel-baseline: {paths.refusal(error)}") from None


def rejected_before(entries: Sequence[EarlierRecord], names: Mapping[str, str]) -> list[str]:
    """Return each device that one of the records rejects with the day of the last one: "gpu3 on 2026-11-20".

    `names` are the display names by subject, and set the order.
    """
    days: dict[str, str] = {}
    for entry in entries:
        for subject in entry.get("rejected", ()):
            days[subject] = max(days.get(subject, ""), (entry["started"] or "")[:10])
    return [f"{name} on {days[subject]}".removesuffix(" on ") for subject, name in names.items() if subject in days]


def _entry(summary: Summary, uuids: AbstractSet[str]) -> EarlierRecord:
    """Return the entry for a record; `uuids` are those of its devices that are in this run."""
    return {
        "record": str(summary.path),
        "started": summary.started or None,
        "state": summary.state or None,
        "line": summary.line or None,
        "devices": sorted(uuids),
        "rejected": [uuid for uuid in summary.marked if uuid in uuids or uuid == NODE],
    }
