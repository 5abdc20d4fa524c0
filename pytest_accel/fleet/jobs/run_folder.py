"""The folder of a fleet's run: fleet.json says what was asked and of which nodes, the folders of nodes hold records."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from pytest_accel.core import structured, untrusted
from pytest_accel.core.measurement import NOT_IN_FILE
from pytest_accel.core.network_run import NetworkRun
from pytest_accel.core.node_name import names_among, nodes_of
from pytest_accel.core.printable import printable, printable_data
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.network.conclude import conclude
from pytest_accel.run import folder_summary, record
from pytest_accel.run.options import STANDARD
from pytest_accel.run.record_folder import file_name

FILE = "fleet.json"
LOCK = ".submitting"
"""The file that a process locks while it submits."""
CANCELLED = ".cancelled"
"""The file whose presence ends a process that submits."""
NETWORK = "network.json"
"""The common result of the nodes of a network run, written by the first of them."""
JOINT = "network"
"""The name of a job on all nodes, in place of a node's."""
JOBS = "jobs"
"""The folder of the output of the jobs."""
SAYS_NOTHING = ("time: ", "sha256: ", "sensitivity: ", "why: ", "next: ", "(to show a full traceback")
"""Beginnings of lines at the end of a run that do not say how it ended."""
STATUS = "Exited with exit code"
"""The message of srun on a task that ended with another exit status than 0, behind the output of the task itself."""
CAUSE = re.compile(r"\berror\b|no space left|quota exceeded|killed|cannot|denied|not found|no such file", re.IGNORECASE)
"""Words of a line of output that tells why a job ended, rather than where it was."""
TAIL_BYTES = 8192
"""Bytes that are read from the end of a job's output."""


@dataclass(frozen=True)
class ExpectedNode:
    """A node that the run is to judge."""

    name: str
    partition: str = ""
    gres: str = ""
    skipped: str = ""
    """The reason why no job was submitted for it, such as "drained: fan broken"; empty if one is to be."""


@dataclass(frozen=True)
class SubmittedJob:
    """A job that was submitted for a node."""

    node: str
    job: str
    at: str
    """ISO 8601, in UTC."""


@dataclass(frozen=True)
class FleetRequest:
    """The request of a fleet's run. `arguments` are those of pytest, without --accel-output."""

    id: str
    created: str
    version: str
    """The version of this package."""
    arguments: tuple[str, ...]
    minutes: int
    """The time limit of a job."""
    partition: str = ""
    reservation: str = ""
    sbatch: tuple[str, ...] = ()
    """Further options of sbatch, such as "--qos=low"."""
    idle: bool = False
    """True if idle nodes alone get jobs."""
    after: str = ""
    """The shell command that each job runs after pytest."""
    expected: tuple[ExpectedNode, ...] = ()
    jobs: tuple[SubmittedJob, ...] = ()
    sku: str = ""
    """The name of the SKU that the records state; empty if none was named, or it is not known."""
    level: str = ""
    """The level that the records state; empty if only the arguments tell it (`level_of`)."""
    named: bool = False
    """True if --nodes named the nodes, so that others of the partition may be missing."""
    joint: bool = False
    """True if one job runs on all nodes together, as that of a network run does."""
    format: Literal[1] = 1
    listed: bool = field(default=True, metadata=NOT_IN_FILE)
    """False if there was no list of expected nodes, so that a node without a result is not noticed."""
    others: tuple[str, ...] = field(default=(), metadata=NOT_IN_FILE)
    """The hosts that left a result and are not among the expected nodes, with that result."""
    network: str = field(default="", metadata=NOT_IN_FILE)
    """The closing line of the network run in the same folder, or why it cannot be read; empty without one."""

    def job_name(self, node: str) -> str:
        """Return the name of the job of a node, by which squeue tells what was submitted."""
        return f"{self.prefix}{JOINT if self.joint else node}"

    @property
    def prefix(self) -> str:
        """The beginning of the names of all jobs of the run."""
        return f"accel-{self.id}-"


def save(fleet: FleetRequest, folder: Path) -> None:
    """Replace fleet.json atomically. Raises OSError."""
    record.replace_file(folder / FILE, structured.lines(structured.plain(fleet)))


def load(folder: Path) -> FleetRequest:
    """Return the request in a folder. Raises BadFile if it holds no fleet.json or a damaged one."""
    path = folder / FILE
    fleet: FleetRequest = _read(FleetRequest, path, "a fleet's run")
    if not fleet.expected:
        raise BadFile(f"{path}: names no node that was expected")
    return fleet


def _read(kind: type, path: Path, of: str) -> Any:
    """Return what a file holds. Raises BadFile if it is absent, or no file of that kind."""
    try:
        return structured.structure(kind, printable_data(untrusted.read_json(path)))
    except structured.Misfit as misfit:
        raise BadFile(f"{path}: is not the {path.name} of {of}, or a damaged one: {misfit}") from None


def network(folder: Path) -> NetworkRun:
    """Return the common result of a network run, concluded again from the rounds that the file holds.

    Raises BadFile if it is absent, damaged or unfinished, or if it closes otherwise than its rounds do.
    """
    path = folder / NETWORK
    stored: NetworkRun = _read(NetworkRun, path, "a network run")
    if not stored.conclusion.closing.line:
        raise BadFile(f"{path}: the network run did not come to its end; {len(stored.rounds)} rounds are in it")
    try:
        concluded = replace(stored, conclusion=conclude(stored))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadFile(f"{path}: holds values that no run writes ({type(error).__name__}: {error})") from None
    # A file that closes otherwise than its rounds do is damaged, or was edited.
    closing, expected = (network.conclusion.closing for network in (stored, concluded))
    if closing != expected:
        raise BadFile(f"{path}: closed as '{closing.line}', and what it holds closes as '{expected.line}'")
    return concluded


def network_line(folder: Path) -> str:
    """Return the closing line of the network run in a folder, or why it cannot be read; empty without one."""
    try:
        return network(folder).conclusion.closing.line if untrusted.exists(folder / NETWORK) else ""
    except BadFile as bad:
        return str(bad)


def level_of(arguments: Collection[str]) -> str:
    """Return the level that a run with these arguments of pytest has."""
    options = {option: value for option, _, value in (word.partition("=") for word in arguments)}
    return options.get("--accel-level", "long" if "--accel-hours" in options else STANDARD)


def exists(folder: Path) -> bool:
    """Return True for a folder that holds the run of a fleet. Raises BadFile as `untrusted.exists`."""
    return untrusted.exists(folder / FILE)


def request_of(folder_results: Results) -> FleetRequest:
    """Return the request in the folder of results; without a fleet.json it is made of the nodes that have a result.

    So it is where other launchers than `pytest-accel fleet run` started the nodes. Raises BadFile if there is neither.
    """
    folder = folder_results.folder
    if exists(folder):
        return load(folder)
    results = folder_results.read()
    names = names_among(results.keys())
    by_folder = {file_name(name): name for name in names}
    unknown = {run.folder for run in folder_results.unreadable if not run.node_of(by_folder)}
    if not results and not unknown:
        raise BadFile(f"{folder}: holds neither {FILE} nor the record of a node")
    expected = tuple(ExpectedNode(name) for name in sorted({*names, *unknown}))
    first = min((run for runs in results.values() for run in runs), key=_began, default=None)
    created = first.started if first else ""
    return FleetRequest("", created, "", (), 0, expected=expected, listed=False)


@contextlib.contextmanager
def submitting(folder: Path, *, end_others: bool = False) -> Iterator[None]:
    """Keep other processes from submitting jobs for this folder meanwhile.

    Raises BadFile if one does; with `end_others` it is told to end, and waited for.
    """
    if end_others:
        (folder / CANCELLED).touch()
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        for pause in (0.1, 0.0):  # a look of `is_submitting` is over by the second one
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if end_others else fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if not pause:
                    raise BadFile(f"{folder}: another 'pytest-accel fleet run' is submitting jobs for it") from None
                time.sleep(pause)
            except OSError:
                break  # a file system without locks
        (folder / CANCELLED).unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def is_submitting(folder: Path) -> bool:
    """Return True while a process submits jobs for this folder."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # no process ever did, or a file system without locks
    return False


@dataclass(frozen=True)
class Unreadable:
    """The folder of a run on a node that cannot be read, or whose files are damaged."""

    folder: str
    """Its name."""
    changed: datetime
    """The time of the last change of it, or of one of the files in it."""
    why: str

    def node_of(self, names: Mapping[str, str]) -> str | None:
        """Return the node whose run has this folder: NODE, NODE-2, NODE-3 ...; None if it is none of these.

        `names` are those of the nodes by their `file_name`. A node may be called as the second folder of another one,
        and the folder as the host with its domain or without.
        """
        first = re.sub(r"-\d+$", "", self.folder)
        name = names.get(self.folder) or names.get(first)
        matches = (nodes_of([folder], names).get(folder) for folder in (self.folder, first))
        return name or next((names[match] for match in matches if match), None)


@dataclass
class Results:
    """The records in the folder of a fleet's run."""

    folder: Path
    unreadable: list[Unreadable] = field(default_factory=list)
    """The folders that could not be read at the last `read`."""
    _known: dict[Path, tuple[list[int], Summary | None]] = field(default_factory=dict)
    """The result of each folder, and when its files were changed, as they were read."""

    def read(self) -> dict[str, list[Summary]]:
        """Return the results of each node by its name, newest first. Raises OSError for a folder it cannot read."""
        by_node: dict[str, list[Summary]] = {}
        self.unreadable = []
        changed = {folder: [stat.st_mtime_ns for stat in _files(folder)] for folder in self._folders()}
        # What has not changed since it was read is not read again.
        stale = [folder for folder, times in changed.items() if not times or self._known.get(folder, ([],))[0] != times]
        results = {folder: _result(folder) for folder in stale}
        for folder, times in changed.items():
            result = results[folder] if folder in results else self._known[folder][1]
            if isinstance(result, str):
                self.unreadable.append(Unreadable(printable(folder.name), _changed(folder), result))
                continue
            self._known[folder] = times, result
            if result:
                by_node.setdefault(result.host, []).append(result)
        for runs in by_node.values():
            runs.sort(key=_began, reverse=True)
        return by_node

    def _folders(self) -> Iterator[Path]:
        """Yield the folders that may be those of nodes: this one, where one node was started alone, and those in it."""
        entries = sorted(os.scandir(self.folder), key=lambda entry: entry.name)
        yield self.folder
        for entry in entries:
            if entry.name != JOBS and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)


def _began(result: Summary) -> datetime:
    """Return when a run began; the beginning of time if it does not say so."""
    return result.began or datetime.min.replace(tzinfo=timezone.utc)


def _changed(folder: Path) -> datetime:
    """Return when a folder or one of its files was changed last, as far as that is to be seen."""
    stats = _files(folder)
    with contextlib.suppress(OSError):
        stats.append(folder.lstat())
    return datetime.fromtimestamp(max((stat.st_mtime for stat in stats), default=0.0), timezone.utc)


def _files(folder: Path) -> list[os.stat_result]:
    """Return the status of the files of a run in the file system, as far as there are any."""
    stats = []
    for name in folder_summary.FILES:
        with contextlib.suppress(OSError):
            stats.append((folder / name).lstat())
    return stats


def _result(folder: Path) -> Summary | str | None:
    """Return the result in a folder, why it cannot be read, or None if it holds none, or one that was judged again."""
    try:
        summary = folder_summary.of_folder(folder)
    except BadFile as bad:
        return str(bad)
    if summary is None or summary.judged_again:  # that is no measurement of hardware
        return None
    texts = {name: getattr(summary, name) for name in ("host", "line", "state", "job")}
    return replace(summary, **printable_data(texts))


def last_words(folder: Path, node: str, job: str) -> str:
    """Return the last line of the output of a job that says why it ended, else the last one; empty without any."""
    names = (file_name(node), JOINT)
    path = next((file for name in names if (file := folder / JOBS / f"{name}-{job}.out").exists()), None)
    try:
        end = untrusted.read_end(path, TAIL_BYTES) if path else b""
    except BadFile:
        return ""
    lines = [line.strip() for line in end.decode(errors="replace").splitlines()]
    messages = [line for line in lines if line.strip("= ") and not line.startswith(SAYS_NOTHING) and STATUS not in line]
    causes = [line for line in messages if CAUSE.search(line)]
    return str(printable_data((causes or messages)[-1], 200)) if messages else ""
