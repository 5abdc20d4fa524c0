"""A run of the tool on a node: the content of its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from pytest_accel.core.measurement import NOT_IN_FILE, Device, Measurement, Names
from pytest_accel.core.sku_types import Spread
from pytest_accel.core.verdict import Closing, Result, Verdict, Waiver

SCHEMA: Final = 1
"""The version of the format of a record and of its summary."""


class SamplingCost(TypedDict):
    """The cost of the sensor's readings while the workers measured."""

    readings: int
    """The number of readings, over all devices."""
    seconds_per_reading: float
    cpu_share: float
    """The processor time of the sensor as a fraction of the time of the devices' processors: those that a CPU device
    is made of, or those near a GPU."""


class TimeSpent(TypedDict, total=False):
    """The time of a run in seconds, by phase and by probe."""

    seconds: dict[str, float]
    """Seconds by phase, and under "device" the time that the devices were at work."""
    probes: dict[str, dict[str, float]]
    """Seconds by metric and phase."""
    sampling: SamplingCost
    """Absent if the sensor read nothing."""


ObjectionKind = Literal["unasked", "tests", "filter", "run", "file", "floors", "time"]


@dataclass(frozen=True)
class Objection:
    """A reason why a run cannot be an acceptance, whatever its verdicts are.

    `unasked`: nobody asked for one: the SKU was not named, or it is none of an accelerator.
    `tests`: tests of the user's own, or --accel-network, in place of the packaged suite. Nobody asked for one either.
    `filter`: something narrowed the run, such as -k. Verdicts that are missing are expected, as with `tests`.
    `run`: anything else that the run did not do as an acceptance has to.
    `file`: the threshold file does not permit one. `floors`: the floors come from these very devices.
    `time`: not every test was run within the time limit. Such a run is NOT JUDGED, unless it rejects.
    """

    kind: ObjectionKind
    text: str


@dataclass
class Circumstances:
    """Everything besides the verdicts that decides how a run closes."""

    required: Sequence[tuple[str, str, str]] = ()
    """One key (metric, subject, origin of the limit) for each verdict that an acceptance requires."""
    names: dict[str, str] = field(default_factory=dict)
    """The display name of each subject, by UUID."""
    expected_devices: int = 0
    sku: str = ""
    """The name of the SKU that the closing line states; empty if there is none."""
    level: str = ""
    day: str = ""
    """The date of the run in ISO format; empty where it is not known."""
    against: Sequence[Objection] = ()
    """Everything that stands against an acceptance, independent of the verdicts."""
    not_judged: tuple[str, ...] = ()
    """Parts of the node that an acceptance on this platform does without."""
    overridden: int = 0
    own_file: str | None = None
    """The user's own threshold file, if the run was judged by one."""
    other_datasheet: Sequence[str] = ()
    """The values of its datasheet that differ from the shipped file's."""
    broken_tests: Sequence[str] = ()
    failed_tests: Sequence[str] = ()
    own_tests: str = ""
    """The user's own tests that took a device and passed: "16 tests of tests/site"."""
    record_problem: str | None = None
    simulated: bool = False
    """True for a simulated node: its verdicts say nothing about hardware."""
    rejected_before: Sequence[str] = ()
    """The devices of this run that an earlier record rejects, each with the day: "gpu3 on 2026-11-20"."""
    loaded: tuple[str, ...] = ()
    """The short names of the entries of `RunInfo.loaded`: "conftest.py", "LD_PRELOAD"."""
    interrupted: str | None = None
    """The reason why pytest ended early, or None."""
    ended: int = 2
    """The exit status that pytest gave an interrupted run."""

    @property
    def labels(self) -> Names:
        """The display names, with subjects that have none."""
        return Names(self.names)

    def texts(self, *kinds: ObjectionKind) -> list[str]:
        """Return the reasons of some kinds against an acceptance, in words."""
        return [reason.text for reason in self.against if reason.kind in kinds]

    @property
    def unasked(self) -> bool:
        """True if nobody asked for an acceptance: exit 0 means that everything holds. Else it means ACCEPTED alone."""
        return bool(self.texts("unasked", "tests"))

    @property
    def narrowed(self) -> list[str]:
        """The texts on a narrowed run, in which missing verdicts are expected; empty for a whole run."""
        return self.texts("tests", "filter")


class WaiversEntry(TypedDict, total=False):
    """The file of waivers as the record holds it; empty in a run without one."""

    file: str
    sha256: str
    used: list[Waiver]
    """The waivers that cover a verdict."""


class CountedEntry(TypedDict):
    """The error counters of a device at one moment."""

    at: float
    """Seconds since the epoch."""
    numbers: Mapping[str, int]
    """The totals by the variant of the metric `counters.*`."""


class HostCountedEntry(TypedDict):
    """The error counters of the host at one moment."""

    at: float
    """Seconds since the epoch."""
    answers: Mapping[str, Mapping[str, Any]]
    """The answer of the sensor by fact: its value and the count of each part, or the reason why it cannot be read."""


@dataclass(frozen=True)
class Launch:
    """The facts that a launcher states about this task. `rank` and `nodes` are None where it does not say them."""

    name: str
    """The launcher: slurm, torchrun, mpi or kubernetes."""
    node: str
    """The name by which the launcher knows the node, else that of the host."""
    rank: int | None = None
    """The number of this task among all tasks."""
    local_rank: int = field(default=0, metadata=NOT_IN_FILE)
    """The number of this task among those of this node."""
    local_rank_from: str = field(default="", metadata=NOT_IN_FILE)
    """The variable that states it."""
    nodes: int | None = None
    """The number of nodes."""
    job: str = ""
    """The id of the job; empty if it has none."""

    @property
    def shares_folder(self) -> bool:
        """True if several nodes may write into one folder: each needs one of its own in it."""
        return bool(self.job) or self.nodes is None or self.nodes > 1

    @property
    def refusal(self) -> str | None:
        """The reason why this task must not measure: another task of the node does; None for the first of a node."""
        if not self.local_rank:
            return None
        return (
            f"{self.local_rank_from}={self.local_rank}: this is task {self.local_rank + 1} of {self.node}, and one run "
            "measures all devices of a node; start one task per node (srun --ntasks-per-node=1, mpirun -N 1, torchrun "
            "--nproc-per-node=1)"
        )


class RunInfo(TimeSpent, total=False):
    """The command, host and time of the run. Times are ISO 8601, in UTC."""

    started: str
    ended: str
    epochs: tuple[float, float]
    """The wall-clock times at which CLOCK_MONOTONIC of this boot was zero, as the clock was set at `started` and at
    `ended`: the second differs if the wall clock was set meanwhile, or the host slept. Times of measurements count from
    the first."""
    host: str
    boot: str
    """The id of the boot of the host (/proc/sys/kernel/random/boot_id); empty where it is not known."""
    command: list[str]
    """The command line."""
    level: str
    platform: str
    user: str
    output: str
    """The folder of the record."""
    environment: dict[str, dict[str, str]]
    """The user's settings that may change the measurements: "cleared", which the workers do not inherit, and "kept"."""
    loaded: list[str]
    """The files, plugins, options and variables of the run beside its command line and the installed distributions:
    "conftest.py of /data", "addopts of /data/pytest.ini: -x", "LD_PRELOAD=/usr/lib/libx.so", PYTHONPATH and
    PYTEST_ADDOPTS alike. Absent if there was nothing, and in a run that did not end."""
    counted: dict[str, CountedEntry]
    """The last reading of the error counters, by UUID: the next run of a series counts from there."""
    host_counted: HostCountedEntry
    """The same of the counters of the host; absent before they were read."""
    time_limit: float
    """Seconds within which the run had to end; absent without such a limit."""
    follows: str
    """The record of the run before it in a series, "none" for the first; absent for a run by itself."""
    nonce: str
    """The text that was given out for this run (--accel-nonce); absent without one."""
    launcher: Launch
    """The launcher that started the run on one of many nodes; absent without one."""
    simulated: dict[str, Any]
    """The simulated node: node file, SKU, platform, faults, healthy rates. Absent in a run on hardware."""


class SkuEntry(TypedDict, total=False):
    """The SKU that the devices were judged as; empty where none was named or recognised."""

    name: str
    asked: str | None
    """The value of --accel-sku: a name, a file or auto."""
    files: Mapping[str, str]
    """Every threshold file that a value came from, with its SHA-256."""
    spread: Mapping[str, Spread]
    """The variation of each measured metric among healthy devices, as far as it is known."""


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
    """UUIDs of the devices that a limit of others or a fault rejected (`Summary.marked`), or "node"."""


@dataclass(frozen=True)
class EarlierFigure:
    """The value of a metric of one device in an earlier record, in the metric's unit."""

    value: float
    day: str
    """The day of the run: ISO 8601."""
    record: str
    """The path of the record."""
    differs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The terms that differ from those of this run, by name: then and now."""


@dataclass(frozen=True)
class Past:
    """The earlier figures of one metric of one device that are comparable with the one of this run.

    `first` is that of the first accepted record, `last` that of the last one. `between_runs` is the standard deviation
    from run to run as a fraction of the value, estimated from `runs` earlier runs; None if there are too few.
    """

    first: EarlierFigure | None = None
    last: EarlierFigure | None = None
    between_runs: float | None = None
    runs: int = 0

    def of(self, record: str) -> EarlierFigure | None:
        """Return the figure of a record, by its path; None if it is not that of the first or the last one."""
        return next((figure for figure in (self.first, self.last) if figure and figure.record == record), None)


class BaselineEntry(TypedDict, total=False):
    """The earlier runs that the figures of this run were compared with."""

    asked: str
    """The value of --accel-baseline."""
    pasts: dict[str, dict[str, Past]]
    """The figures by metric, unit and hash of the method, and by subject."""
    gone: list[str]
    """The devices of the node's last run that this run did not find: "serial 16520 in slot 0000:1b:00.0"."""


class PackingListEntry(TypedDict, total=False):
    """The packing list that the devices had to be on; empty in a run without one."""

    file: str
    sha256: str
    boards: int
    """The number of its rows."""
    names_nodes: bool
    """True if it names the node of each board, so that a board may be in another, and a node incomplete."""


class TelemetryFile(TypedDict, total=False):
    """The file with all readings of the sensor, beside the record."""

    file: str
    sha256: str | None


class FindingEntry(TypedDict):
    """The fault code of one verdict."""

    metric: str
    subject: str
    origin: str
    """The origin of the limit of the verdict; empty without a limit."""
    code: str
    """The stable code: "A401"."""
    name: str
    severity: str
    action: str
    """The next step in one word."""
    do: str
    """The next step in a sentence."""
    vendor: str
    """The vendor's own code for the report of its driver, such as "Xid 79 (RESTART_BM)"; empty if there is none."""


class JudgedFrom(TypedDict, total=False):
    """The record that this one judges again; empty in the record of a run."""

    record: str
    sha256: str | None
    judged: str
    """The time at which it was judged again: ISO 8601, in UTC."""
    packing_list: PackingListEntry
    """The packing list of the run; absent unless another one was judged by."""


@dataclass
class Run:
    """The results and circumstances of a run. `state` is "running", "interrupted" or "finished"."""

    info: RunInfo
    sku: SkuEntry = field(default_factory=SkuEntry)
    devices: list[Device] = field(default_factory=list)
    """The devices that were found, also those that the user did not choose."""
    software: dict[str, Any] = field(default_factory=dict)
    """Versions of the software by name."""
    measurements: list[Measurement] = field(default_factory=list)
    """Every attempt at every metric, in the order in which they were made."""
    verdicts: list[Verdict] = field(default_factory=list)
    findings: list[FindingEntry] = field(default_factory=list)
    """The fault code of every verdict that fails or is marginal, worst first; entered with the closing line."""
    waivers: WaiversEntry = field(default_factory=WaiversEntry)
    packing_list: PackingListEntry = field(default_factory=PackingListEntry)
    notes: list[str] = field(default_factory=list)
    """Sentences that a reader should know besides the verdicts."""
    not_repeated: dict[str, str] = field(default_factory=dict)
    """The reason why a shortfall was not measured again, by metric: no time for repeats was left."""
    earlier_attempts: list[EarlierRecord] = field(default_factory=list)
    baseline: BaselineEntry = field(default_factory=BaselineEntry)
    telemetry: TelemetryFile = field(default_factory=TelemetryFile)
    state: Literal["running", "interrupted", "finished"] = "running"
    closing: Closing = field(default_factory=Closing)
    circumstances: Circumstances | None = None
    """Everything besides the verdicts that decided the closing line. None in a run that did not end."""
    judged_from: JudgedFrom = field(default_factory=JudgedFrom)
    """The record (path and SHA-256) that this one judges again; empty in the record of a run."""
    schema: Literal[1] = SCHEMA
    """The version of this format."""
    sha256: str = ""
    """The SHA-256 of the record without this key, as JSON with sorted keys and without spaces. It shows that a record
    was changed; whoever changes the record on purpose can compute it anew."""
    path: Path = field(default=Path(), compare=False, metadata=NOT_IN_FILE)
    """The file that the record was read from."""
    file_sha256: str = field(default="", compare=False, metadata=NOT_IN_FILE)
    """The SHA-256 of that file."""
    sealed: str = field(default="", compare=False, metadata=NOT_IN_FILE)
    """The hash of the content of that file, by the rule of `sha256`, which is the hash that the file states."""
    objections: tuple[str, ...] = field(default=(), compare=False, metadata=NOT_IN_FILE)
    """The reasons of the reader not to believe it, in sentences: its hash, its verdicts or its result differ."""

    @property
    def started(self) -> str:
        """The time at which the run began: ISO 8601; empty for one that never began."""
        return self.info.get("started", "")

    @property
    def host(self) -> str:
        """The name of the node."""
        return self.info.get("host", "")

    @property
    def finished(self) -> bool:
        """True for a run that came to its end."""
        return self.state == "finished"

    @property
    def simulated(self) -> bool:
        """True if the run says that its node was simulated."""
        return bool(self.info.get("simulated"))

    @property
    def rejected(self) -> list[str]:
        """The UUIDs of the devices that the run rejects, and "node" for a rejection of the whole node."""
        return sorted({verdict.subject for verdict in self.verdicts if verdict.rejects})

    @property
    def result(self) -> Result | None:
        """The result; None for a run that did not end."""
        return self.closing.result
