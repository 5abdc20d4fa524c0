"""The record of a run: one JSON file, which is replaced atomically while the run goes on.

Beside it lies a summary of a few hundred bytes, by which later runs know of this one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.closing import Circumstances, Closing
from pytest_accel.judging.findings import Finding, Key, findings
from pytest_accel.judging.rounds import RoundsEntry
from pytest_accel.run import summaries
from pytest_accel.run.launcher import Launch
from pytest_accel.run.phases import TimeSpent
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.waivers import WaiversEntry

SCHEMA: Final = 3
SPARSE = (Verdict, Measurement, Limit)
"""Of these, a record holds hundreds. Fields with their default value are left out of its file."""
READABLE: Final = (1, 2, 3)
"""The versions of the format that are read. In version 1 every verdict held its limit, and the record no hash; up to
version 2 every field was written, also with its default value."""
FILE = "record.json"
TELEMETRY = "telemetry.jsonl"
PACKED = f"{TELEMETRY}.gz"
"""The name of the same file once the run has ended."""
LOGS = "logs"


class StartEntry(TypedDict):
    """One start of the run: the first one, or one that resumed it."""

    at: str
    """ISO 8601, in UTC."""
    boot: str
    """The id of the boot of the host (/proc/sys/kernel/random/boot_id); empty where it is not known."""
    seconds: float
    """The seconds that the run was going from this start to the last time that the record was written."""


class RequestEntry(TypedDict):
    """A measurement that is complete, so that a resumed run does not make it again."""

    probe: str
    conditions: str
    metrics: list[str]
    until: float
    """The time at which the last measurement of a complete attempt began, in seconds since the epoch."""


class LauncherEntry(TypedDict, total=False):
    """What a launcher said about this task."""

    name: str
    """The launcher: slurm, torchrun, mpi or kubernetes."""
    job: str
    """The id of the job; empty if it has none."""
    node: str
    """The name by which the launcher knows the node, else that of the host."""
    rank: int | None
    """The number of the task among all; None if the launcher does not say it."""
    nodes: int | None
    """The number of nodes; None if the launcher does not say it."""


def launcher_entry(launch: Launch) -> LauncherEntry:
    """Return what a launcher said as the record holds it."""
    return LauncherEntry(name=launch.launcher, job=launch.job, node=launch.node, rank=launch.rank, nodes=launch.nodes)


class RunEntry(TimeSpent, total=False):
    """The command, host and time of the run. Times are ISO 8601, in UTC."""

    started: str
    ended: str
    host: str
    command: list[str]
    """The command line."""
    level: str
    platform: str
    user: str
    output: str
    """The folder of the record."""
    environment: dict[str, dict[str, str]]
    """The user's settings that may change what is measured: "cleared", which the workers do not inherit, and "kept"."""
    time_limit: float
    """Seconds within which the run had to end; absent without such a limit."""
    starts: list[StartEntry]
    """The starts of a run at level long, which can be resumed; absent at other levels."""
    launcher: LauncherEntry
    """The launcher that started the run on one of many nodes; absent without one."""
    simulated: dict[str, Any]
    """The simulated node: node file, SKU, platform, faults, healthy rates. Absent in a run on hardware."""


class ContractEntry(TypedDict):
    """The frozen threshold file that the devices were judged by."""

    sha256: str
    """The hash of its content."""
    platform: str
    level: str
    suite: str
    """The version of pytest_accel that froze it."""
    thresholds: str
    """The version of the shipped thresholds then."""
    date: str


class SkuEntry(TypedDict, total=False):
    """The SKU that the devices were judged as; empty where none was named or recognised."""

    name: str
    asked: str | None
    """The value of --accel-sku: a name, a file or auto."""
    thresholds: str
    """The version of the shipped threshold files."""
    files: Mapping[str, str]
    """Every threshold file that a value came from, with its SHA-256."""
    contract: ContractEntry
    """The contract that it was judged by; absent where it was judged by a threshold file that is not frozen."""


def contract_entry(sku: Sku) -> SkuEntry:
    """Return the contract of a SKU as the entry of the SKU holds it; an empty entry for a SKU without one."""
    terms = sku.contract
    if terms is None:
        return SkuEntry()
    return SkuEntry(
        contract=ContractEntry(
            sha256=terms.sha256,
            platform=terms.platform,
            level=terms.level,
            suite=terms.suite,
            thresholds=terms.thresholds,
            date=terms.date,
        )
    )


class EarlierRecord(TypedDict, total=False):
    """Another record beside this one that holds one of its devices."""

    record: str
    started: str | None
    state: str | None
    line: str | None
    """Its closing line."""
    devices: list[str]
    """UUIDs of the devices that both records hold."""
    rejected: list[str]
    """UUIDs of those that it rejected, or "node" for what concerns all."""


class BaselineRun(TypedDict):
    """An earlier run that figures were compared with."""

    record: str
    started: str
    word: str
    terms: dict[str, str]
    """Level, platform and software, by name."""


class BaselineFigure(TypedDict):
    """A figure of an earlier run, in the unit of its key; `run` is its place in `runs`."""

    value: float
    run: int


class BaselinePast(TypedDict):
    """The earlier figures of one metric of one device."""

    first: BaselineFigure | None
    """That of the first accepted run."""
    last: BaselineFigure | None
    between_runs: float | None
    """The standard deviation from run to run as a fraction of the value; None if there were too few runs."""
    runs: int
    """The number of comparable runs."""


class BaselineEntry(TypedDict, total=False):
    """What the figures of the run were compared with."""

    asked: str
    """The value of --accel-baseline."""
    fails: bool
    """True if a drop fails (--accel-baseline-fail)."""
    runs: list[BaselineRun]
    pasts: dict[str, dict[str, BaselinePast]]
    """By metric, unit and hash of the method, and by subject."""


class PackingListEntry(TypedDict, total=False):
    """The packing list that the devices had to be on; empty in a run without one."""

    file: str
    sha256: str
    boards: int
    """The number of its rows."""
    names_nodes: bool
    """True if it says which node each board belongs in, so that a board may be in another, and a node incomplete."""


def packing_entry(boards: PackingList) -> PackingListEntry:
    """Return a packing list as the record holds it."""
    return PackingListEntry(
        file=boards.file, sha256=boards.sha256, boards=len(boards.rows), names_nodes=bool(boards.by_node)
    )


class TelemetryFile(TypedDict, total=False):
    """The file with all readings of the sensor, beside the record."""

    file: str
    sha256: str | None


class ClosingEntry(TypedDict, total=False):
    """The closing line of the run; empty until it has ended."""

    line: str
    exit: int
    """The exit status of pytest."""
    word: str
    """The result: ACCEPTED, HELD, NOT JUDGED, REJECTED, BROKEN or INTERRUPTED, also of a simulated node."""
    finds: str
    """What the run would have rejected, in one sentence; empty if it measured no speed."""


class FindingEntry(TypedDict):
    """The fault code of one verdict."""

    metric: str
    subject: str
    origin: str
    """Where the limit of the verdict was declared; empty without a limit."""
    code: str
    """The stable code: "A401"."""
    name: str
    severity: str
    action: str
    """The next step in one word."""
    do: str
    """The next step in a sentence."""
    vendor: str
    """The vendor's own code for what its driver reported, such as "Xid 79 (RESTART_BM)"; empty if there is none."""


class JudgedFrom(TypedDict, total=False):
    """The record that this one judges again; empty in the record of a run."""

    record: str
    sha256: str | None
    judged: str
    """The time at which it was judged again: ISO 8601, in UTC."""
    packing_list: PackingListEntry
    """The packing list of the run; absent unless another one was judged by."""


@dataclasses.dataclass
class Record:
    """The results of a run and how it was made. `state` is "running", "interrupted" or "finished"."""

    run: RunEntry
    sku: SkuEntry = dataclasses.field(default_factory=SkuEntry)
    devices: list[Device] = dataclasses.field(default_factory=list)
    """The devices that were found, also those that the user did not choose."""
    software: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Versions of the software by name."""
    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    """Every attempt at every metric, in the order in which they were made."""
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    findings: list[FindingEntry] = dataclasses.field(default_factory=list)
    """The fault code of every verdict that fails or is marginal, worst first; entered with the closing line."""
    waivers: WaiversEntry = dataclasses.field(default_factory=WaiversEntry)
    packing_list: PackingListEntry = dataclasses.field(default_factory=PackingListEntry)
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences that a reader should know besides the verdicts."""
    earlier_attempts: list[EarlierRecord] = dataclasses.field(default_factory=list)
    baseline: BaselineEntry = dataclasses.field(default_factory=BaselineEntry)
    requests: list[RequestEntry] = dataclasses.field(default_factory=list)
    """The complete measurements of the first round of a run at level long."""
    rounds: RoundsEntry = dataclasses.field(default_factory=RoundsEntry)
    telemetry: TelemetryFile = dataclasses.field(default_factory=TelemetryFile)
    state: Literal["running", "interrupted", "finished"] = "running"
    closing: ClosingEntry = dataclasses.field(default_factory=ClosingEntry)
    circumstances: Circumstances | None = None
    """Everything besides the verdicts that decided the closing line. None in a run that did not end."""
    judged_from: JudgedFrom = dataclasses.field(default_factory=JudgedFrom)
    """The record (path and SHA-256) that this one judges again; empty in the record of a run."""
    schema: Literal[3] = SCHEMA
    """The version of this format."""
    sha256: str = ""
    """The SHA-256 of the record without this key, as JSON with sorted keys and without spaces. It shows that a record
    was changed; whoever changes the record on purpose can compute it anew."""


def names_of(record: Record) -> dict[str, str]:
    """Return the display names of a record, by subject (the UUID of a device, or NODE)."""
    return {NODE: NODE, **{device.uuid: device.name for device in record.devices}}


def findings_of(record: Record) -> dict[Key, Finding]:
    """Return the findings of a record by the key of their verdict, as today's version chooses them."""
    return findings(record.verdicts, record.measurements, record.devices)


def finding_entries(record: Record) -> list[FindingEntry]:
    """Return the findings of a record as the record holds them."""
    return [
        FindingEntry(
            metric=metric,
            subject=subject,
            origin=origin,
            code=each.code,
            name=each.fault.name,
            severity=each.severity.value,
            action=each.action.value,
            do=each.do,
            vendor=each.vendor,
        )
        for (metric, subject, origin), each in findings_of(record).items()
    ]


def places_of(record: Record) -> dict[str, str]:
    """Return serial number and PCI address of each device as far as they are known, by UUID."""
    parts = {
        device.uuid: (
            f"serial {device.serial}" if device.serial else "",
            f"PCI {device.pci_address}" if device.pci_address else "",
        )
        for device in record.devices
    }
    return {uuid: ", ".join(filter(None, each)) for uuid, each in parts.items() if any(each)}


def closing_entry(closing: Closing) -> ClosingEntry:
    """Return the closing line as the record holds it."""
    return ClosingEntry(line=closing.line, exit=closing.exit, word=closing.word, finds=closing.finds)


def write(record: Record, folder: Path) -> None:
    """Replace the record in `folder` and its summary atomically.

    Raises OSError and leaves the old record as it was.
    """
    plain = content(record)
    replace_file(folder / FILE, _text(record, plain))
    _write_summary(plain, folder)


def create(record: Record, folder: Path) -> bool:
    """Write the first version of a record; return False, and write nothing, if `folder` holds a record already.

    Of several runs that want the same folder at the same time, one gets it. Raises OSError.
    """
    plain = content(record)
    temporary = _temporary(folder / FILE, _text(record, plain))
    try:
        os.link(temporary, folder / FILE, follow_symlinks=False)  # fails if there is one, also on a network file system
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        return _create_without_links(record, folder)
    finally:
        temporary.unlink(missing_ok=True)
    _write_summary(plain, folder)
    return True


def _create_without_links(record: Record, folder: Path) -> bool:
    """Do as `create` on a file system that has no hard links."""
    try:
        os.close(os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    except FileExistsError:
        return False
    write(record, folder)
    return True


def _write_summary(plain: Mapping[str, Any], folder: Path) -> None:
    """Write the summary of the content of a record.

    If that fails there is none, so that the record itself is read in its place.
    """
    path = folder / summaries.SUMMARY
    try:
        replace_file(path, json.dumps(summaries.summary(plain)) + "\n", sync=False)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()


def content(record: Record) -> dict[str, Any]:
    """Return the content of the record's file, without its hash. A limit that several verdicts share is held once."""
    plain: dict[str, Any] = _plain(record)
    del plain["sha256"]
    places: dict[str, int] = {}
    limits: list[dict[str, Any]] = []
    for verdict in plain["verdicts"]:
        if "limit" in verdict:
            place = places.setdefault(json.dumps(verdict["limit"], sort_keys=True), len(places))
            if place == len(limits):
                limits.append(verdict["limit"])
            verdict["limit"] = place
    plain["limits"] = limits
    return plain


def seal(raw: Mapping[str, Any]) -> str:
    """Return the hash that the content of a record should state under `sha256`."""
    bare = {key: value for key, value in raw.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text(record: Record, plain: dict[str, Any]) -> str:
    """Return the text of a record's file from its content: a line for each key, and for each item of a list.

    Sets the record's hash.
    """
    plain["sha256"] = record.sha256 = seal(plain)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in plain.items()) + "\n}\n"


def _lines(value: Any) -> str:
    """Return a value as JSON, a list with a line for each item."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(each, separators=(',', ': '))}" for each in value) + "\n]"


def replace_file(path: Path, text: str, *, sync: bool = True) -> None:
    """Replace a file atomically. Raises OSError and leaves the old file as it was."""
    temporary = _temporary(path, text, sync=sync)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path, text: str, *, sync: bool = True) -> Path:
    """Write `text` to a new file beside `path` and return its path. Raises OSError, and leaves no file then.

    Nobody can have put a link in its place, since its name cannot be guessed and it must not exist.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def remove(folder: Path) -> None:
    """Remove the empty record of a run that never began, so that its folder can be used again."""
    for name in (FILE, summaries.SUMMARY, TELEMETRY, PACKED):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / LOGS, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def hash_file(path: Path) -> str | None:
    """Return the SHA-256 of a regular file in hexadecimal, None if the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe would block, a device has no end
                return None
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


@functools.cache
def defaults(name: str) -> dict[str, Any]:
    """Return the default of each field that has one, of the class of that name in `SPARSE`."""
    found = {}
    for field in dataclasses.fields(next(kind for kind in SPARSE if kind.__name__ == name)):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def _plain(value: Any) -> Any:
    """Return a value in JSON types. NaN and infinities become text, since JSON has no number for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        usual = defaults(type(value).__name__) if isinstance(value, SPARSE) else {}
        return {key: _plain(each) for key, each in given.items() if key not in usual or each != usual[key]}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int | bool) else str(value)
