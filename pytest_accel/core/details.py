"""The details of a measurement: every key with its type, its unit, who writes it and who reads it.

They are written to the record as they are. All keys are optional, and keys that are not named here pass unread: a
user's own probe reports under `own`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

Value = float | int | str | bool


class _CellSamples(TypedDict):
    samples: Sequence[float]
    """GB/s, one a block."""
    seconds: Sequence[float]
    """Seconds that one copy took, block by block."""
    wrong: str | None
    """The reason why the payload counts as corrupted; None if it arrived intact."""


class Cell(_CellSamples, total=False):
    """The copies of one device to another: a cell of the matrix of peers."""

    direct: bool
    """True if the sender may write the receiver's memory; False if torch copies through the host."""


class Mismatch(TypedDict, total=False):
    """A wrong element of a matrix product, or a wrong word of memory."""

    what: str
    """exact_matmul: the data of the product and of the comparison."""
    product: int
    """The number of the product, from 1."""
    row: int
    column: int
    found: float
    expected: float
    elements: int
    """exact_matmul: the number of elements of the product that differ."""
    address: int
    """memory_pattern: the offset in bytes from the start of the covered memory."""
    pattern: str
    """memory_pattern: the pattern that was written."""
    bits: str | None
    """memory_pattern: the differing bits in hexadecimal; None if a second read showed no difference."""


class CollectiveAccount(TypedDict, total=False):
    """The account that NCCL or RCCL wrote of the timed calls; probes/device/collective_library.py reads it."""

    version: str
    """The version that it states: "2.27.3+cuda12.9"."""
    protocol: str
    channels: int
    """The channels of the call, or of the communicator where the call's are not stated."""
    connections: Mapping[str, int]
    """The number of connections between ranks by kind, such as "P2P/CUMEM", over all ranks."""
    without_nvls: str
    """The line that says why the switches do not add (NVLS). Read by verdicts/limit."""
    lines: Sequence[str]
    """Lines that tell how the calls were made."""
    absent: str
    """The reason why there is no account."""


class ProbeDetails(TypedDict, total=False):
    """Details that a probe reports beside its value. Written in the worker process, by `probes/`."""

    own: Mapping[str, Any]
    """Details of a user's own probe, under names that it chooses. pytest_accel does not read them."""

    # Written by `Compute.sample`, for every metric that is timed in blocks.
    ended_by: str
    """The reason why sampling ended: "precise" or "budget". For the record."""
    ends: Sequence[float]
    """Seconds from the start of sampling to the end of each block. Read by the soak, for its droop."""
    warmup_blocks: int
    """Blocks that were not counted. For the record."""
    mean_of_calls: float
    """The rate by the mean of all calls, where the value is that of the fastest ones. For the record."""
    launch_bound: bool
    """True if the device waited for the host to launch its work; absent if not. Also written by matmul_mamf. Read by
    causes/diagnosis."""

    counted_mhz: float
    """matmul, soak: the SM clock (MHz) by counted cycles, measured right after the last block. Read by
    causes/evidence."""
    account: CollectiveAccount
    """collective: the account of NCCL or RCCL, as the conditions `algorithm` and `transport`. For the record."""
    cells: Mapping[str, Cell]
    """peer_copy: the row of the sender by the receiver's UUID. Read by causes/peer_matrix, which puts `row` in its
    place."""

    compared_products: int
    """exact_matmul: the number of products that were compared. For the record, as the four below."""
    differing_products: int
    normal_data: str
    """The data that the products of normal data were compared with, or the reason why they were not compared."""
    compared_on_the_host: int
    """Elements that were compared with the host's product."""
    excluded_error_rate_95: float
    """The rate of errors (in a product) that so many products without an error exclude, at 95 %."""
    checksum: int
    """exact_matmul: the checksum of the exact result, which is the same on all devices; training_step: that of loss,
    gradients and weights. Read by facts/results."""
    checksum_of: str
    """training_step: the kind of devices that have the same checksum; absent if all do. Read by facts/results."""
    bits: str
    """training_step, ddp_step: the bits that those of a step were compared with, or the reason why with none. For the
    record."""
    step_ms: Sequence[float]
    """training_step: the quartiles of the duration of a step in ms, block by block. For the record."""
    mismatches: Sequence[Mismatch]
    """exact_matmul, memory_pattern: the first mismatches. For the record."""
    covered_bytes: int
    """memory_pattern: bytes that were written and read back. For the record."""
    of_bytes: int
    """memory_pattern: bytes of memory that the device has. For the record."""

    finalists: Mapping[str, float]
    """matmul_best: TFLOPS of the finalists of the search, by shape. For the record, as the two below."""
    within_2_percent: int
    """Shapes whose rate is within 2 % of the best."""
    anchors: Mapping[str, float]
    """TFLOPS of the shapes that every search tries, by shape."""

    late_seconds: tuple[float, float]
    """soak.droop_slow: the last third, in seconds from the start of sampling to its end. Read by facts/telemetry."""
    window_rates: Sequence[float]
    """soak: the rate (TFLOPS) of each window, without its slowest block. For the record."""


SAMPLED = ("ended_by", "ends", "warmup_blocks", "mean_of_calls", "launch_bound")
"""Keys that `Compute.sample` writes for any probe."""


class HostDetails(TypedDict, total=False):
    """Details of a fact of the host. Written in the sensor process, by drivers/host."""

    counts: Mapping[str, int]
    """Counters: the count of each part (port, controller). Read by facts/host_counters."""
    bad: Mapping[str, str]
    """nic_state, nics_active: the state of every port or NIC that is not active. Read by facts/inventory, as below."""
    rates: Mapping[str, float]
    """nic_rate, ethernet_rate: GB/s of every link that is up. nics_active: of every NIC, 0 without one."""
    in_container: bool
    """nics_active: True in a container, which may not see every NIC."""
    taint: int
    """kernel_taint: the bits as the kernel has them. For the record, as all below."""
    units: Sequence[str]
    """iommu: the names of the IOMMUs."""
    domains: Sequence[str]
    """iommu: the kinds of domains of the accelerators' groups."""
    nearest: Mapping[str, str]
    """nic_distance: by accelerator, its nearest RDMA NIC and the distance to it."""


class Gauge(TypedDict):
    """The readings of one gauge while a probe ran, in the unit of the gauge."""

    mean: float
    min: float
    max: float


class TelemetrySummary(TypedDict, total=False):
    """The sensor's readings of one device while a probe measured. Written by facts/telemetry, as far as they exist.

    Read by causes/shares and causes/diagnosis (the cause of a shortfall), causes/evidence (the fraction of the
    peak at that clock), and facts/telemetry itself (disturbances and the metrics of a soak). `_s` counts seconds,
    within the window.
    """

    readings: int
    """The number of readings in the window."""
    seconds: float
    """The time from the first to the last reading."""
    clock_mhz: Gauge
    """SM or system clock."""
    memory_clock_mhz: Gauge
    power_w: Gauge
    temperature_c: Gauge
    memory_temperature_c: Gauge
    margin_c: Gauge
    """Kelvin to the temperature at which the device slows down."""
    energy_j: float
    busy_s: float
    """CPU: processor time of all cores."""
    steal_s: float
    """CPU: processor time that the hypervisor took."""
    foreign_s: float
    """CPU: processor time that other processes than ours used."""
    sw_power_cap_s: float
    """Seconds in which the power limit lowered the clock, as is normal under full load."""
    sw_thermal_s: float
    """Seconds in which the driver lowered the clock because of heat."""
    hw_thermal_s: float
    """Seconds in which the device itself lowered the clock because of heat."""
    hw_power_brake_s: float
    """Seconds in which the power brake of the board lowered the clock."""
    hw_slowdown_s: float
    """Seconds in which the device itself lowered the clock for neither of these two reasons."""
    pcie_gen: int
    """The highest generation of the host link that was seen."""
    pcie_width: int
    """The fewest lanes of the host link that were seen."""
    reasons: int
    """Every clock event reason that was seen, as one mask."""
    sampled: Sequence[str]
    """The names above whose seconds are those between readings of `reasons`, for want of a counter."""
    unseen: float
    """The longest time (s) between two such readings."""
    lost: str
    """The reason why the device was lost meanwhile."""


class ClockLosses(TypedDict):
    """The loss of clock by throttle reasons while the samples were taken.

    A loss is the mean of ln(`from_mhz` / clock), so that the parts add. Written by causes/clock_losses, read by
    causes/shares.
    """

    mhz: float
    """The mean clock."""
    from_mhz: float
    """The clock that the loss is counted from: the device's highest."""
    by_reason: Mapping[str, float]
    """The loss by reasons that came and went. Names joined by "+" held together and cannot be separated."""
    throughout: float
    """The loss that was there all the time."""
    always: Sequence[str]
    """The reasons that held all the time."""


class OfClock(TypedDict, total=False):
    """The rate of a matrix product as a fraction of the peak at its clock. Written by causes/evidence."""

    mhz: float
    """The mean clock (MHz) by the driver."""
    counted_mhz: float
    """The clock (MHz) by counted cycles, where they were counted."""
    share: float
    """Read by causes/diagnosis. Absent where the two clocks disagree."""


class CounterWindow(TypedDict):
    """The increase of an error counter from one reading to the next."""

    during: str
    moved: int


@dataclass(frozen=True)
class ErrorReport:
    """An Xid of a device, or a message of the kernel log about a device or the node."""

    uuid: str
    number: int
    """The number of the Xid; 0 for a message."""
    at: float
    """Seconds since the epoch."""
    source: str
    """The driver or the kernel log. The kernel log alone states pid and text."""
    pid: int | None = None
    text: str = ""
    message: str = ""
    """The name of a message; empty for an Xid."""
    during: str = ""
    """The probe that ran at the time; empty until it is known."""

    @property
    def title(self) -> str:
        """The name of the message, or "Xid 79"."""
        return self.message or f"Xid {self.number}"


RoundKind = Literal["domain", "pairs", "suspects", "confirm", "path", "all"]
"""The groups of nodes that measure together in a round of a network run.

"domain": the nodes of each NVLink domain. "pairs": all nodes in pairs. "suspects": pairs of suspects. "confirm": each
suspect with a proven partner. "path": a slow pair of good nodes once more. "all": all good nodes in one group."""

NetworkOutcome = Literal["good", "slow", "wrong", "not reached", "island", "unclear", "unmeasured", "left out"]
"""The conclusion of a network run on one node.

"good": one of its rounds was as fast as those of the others. "slow": none was, with any partner. "wrong": data arrived
changed. "not reached": its worker did not reach the call. "island": it is fast with nodes that, like itself, are slow
with all others. "unclear": it was slow, and nobody could be named. "unmeasured": no
group of it could be measured, and it was not the reason. "left out": it took no part."""


@dataclass(frozen=True)
class NodeRound:
    """A round of a network run, as one node saw it."""

    kind: RoundKind
    partners: Sequence[str]
    """The names of the nodes that it met; empty in the round "all"."""
    value: float | None = None
    """GB/s, as the group measured it; None if it did not."""


@dataclass(frozen=True)
class NetworkPart:
    """The result of a network run for one node: the part of network.json that the node's own record holds."""

    found: NetworkOutcome
    score: float | None = None
    """GB/s that each rank sent in the best of its pairs; None if none was measured."""
    median: float | None = None
    """GB/s: the median of the scores of all nodes."""
    partners: int = 0
    """The number of different nodes that it was measured with in pairs."""
    nodes: int = 0
    """The nodes that took part."""
    rails: Sequence[float] = ()
    """GB/s of each of its devices in the best of its pairs, if it was named."""
    text: str = ""
    """The fault that an agent saw, the nodes of its island, or the reason why no node was named, in words."""
    rounds: Sequence[NodeRound] = ()
    transport: str = ""
    """The fault in the transport to other nodes, by the library's own account; empty if none is known."""


class JudgingDetails(TypedDict, total=False):
    """Details that judging adds, in the pytest process or in that of the command."""

    telemetry: TelemetrySummary
    """Any probe on a device: the sensor's readings meanwhile. Written by causes/evidence, read by
    causes/diagnosis."""
    clock_losses: ClockLosses
    """Any probe on a device whose clock is read. Written by causes/evidence, read by causes/shares."""
    of_clock: OfClock
    """matmul, soak: written by causes/evidence, read by causes/diagnosis."""
    of_alone: float
    """host_copy_all: the rate as a fraction of the device's rate alone. Written by causes/evidence, read by
    causes/diagnosis."""
    warmed_k: float
    """soak.droop_slow: kelvin by which the device was warmer in the last third. Written by causes/evidence, read by
    verdicts/limit."""
    ranks: Sequence[Value | None]
    """Collectives: the value of every rank. Written by facts/results."""
    traceback: str
    """The traceback of a probe that raised an exception. Written by facts/results."""
    moved: Mapping[str, int]
    """host_counters: the increase of the counter of each part. Written by facts/host_counters."""
    windows: Sequence[CounterWindow]
    """counters: the windows in which the counter increased. Written by facts/error_counters."""
    reports: Sequence[ErrorReport]
    """counters: the reports of driver and kernel log. Written by facts/error_reports."""
    row: Mapping[str, float]
    """peer_copy: GB/s to every other device, by its name; 0 where the payload was wrong. Written by
    causes/peer_matrix."""
    network: NetworkPart
    """network.pairs: the conclusion of the network run on it. Written by run/network, read by references."""


class Details(ProbeDetails, HostDetails, JudgingDetails, total=False):
    """All details of a measurement, which explain its value."""
