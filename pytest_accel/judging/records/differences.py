"""Differences between two records of the same devices. Pure.

Figures are compared by the one comparison (`distance`), with those of the same method and conditions alone
(`history.key`). Records are comparable if they judged the same SKU, both or neither on a simulated node, and share a
device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import Any

from pytest_accel.core import exits
from pytest_accel.core.device_facts import DEVICE_FACTS, LESS_IS_WORSE, MORE_IS_WORSE, NOW, RIGHT
from pytest_accel.core.groups import grouped
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import NODE, Device, Measurement, Names
from pytest_accel.core.run import EarlierFigure, Past, Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import DeclaredBy
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, show
from pytest_accel.drivers import registry
from pytest_accel.judging.verdicts.background import SpreadOf
from pytest_accel.judging.verdicts.history import is_baseline, key
from pytest_accel.judging.verdicts.like_devices import value_of
from pytest_accel.judging.verdicts.references import drop

OTHER_LIMIT = "the limit is another one"
PROCESSOR = "other work slows a processor down, too"
OF_SOFTWARE = ("inventory.driver_version", "inventory.cuda_version", "inventory.rocm_version", "inventory.gsp_firmware")
"""Metrics of the software on the host. Other software is not worse hardware."""
NOT_COMPARED = (*NOW, "pcie_gen", "sole", "visible_as")
"""Facts of a device that differ from one moment to the next. Lists and tables are not compared either."""
HOST_NOW = ("shm_free", "memory_usable", "kernel_log", "accelerator_numa")
"""Facts of the host that differ from one moment to the next, or from user to user."""
NEAR_SAME = 0.001
"""Sizes in GB that differ by less are the same: the kernel reserves some memory anew at each boot."""


class SubjectKind(Enum):
    """The subject of a difference. The members are in order, most important first."""

    DEVICE = "devices"
    VERDICT = "verdicts"
    FACT = "facts and settings"
    SOFTWARE = "software"
    FIGURE = "figures"


class Direction(Enum):
    """The effect of a difference. The members are in order, worst first."""

    WORSE = "worse"
    OTHER = "other"
    """Neither worse nor better, such as another version."""
    BETTER = "better"


@dataclass(frozen=True)
class Difference:
    """A difference between the first and the last of the compared records.

    `names` are the devices that it is about, or "node", or empty. `before` and `after` are values as text. `counts` is
    True if a figure or a state of the hardware is worse by more than two runs differ by, which the exit status tells.
    """

    kind: SubjectKind
    names: tuple[str, ...]
    item: str
    before: str
    after: str
    direction: Direction = Direction.OTHER
    counts: bool = False
    note: str = ""
    """A remark, such as that the limit is another one; empty without one."""
    loss: float | None = None
    """The share of speed that a figure lost, negative for a gain."""
    allowed_loss: float | None = None
    """The share by which two runs may differ."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key among all differences, the most important one first."""
        beyond = abs(self.loss) / self.allowed_loss if self.loss is not None and self.allowed_loss else 0.0
        ranks = list(SubjectKind).index(self.kind), list(Direction).index(self.direction)
        return (*ranks, not self.counts, -beyond, self.item, self.before, self.after, self.note)


@dataclass(frozen=True)
class RecordComparison:
    """The differences between two records, most important first. `obstacle` says why they are not comparable."""

    first: Run
    last: Run
    differences: Sequence[Difference] = ()
    count: int = 0
    """The number of figures that were compared."""
    not_compared: int = 0
    """The number of figures that one of the records has no comparable one for."""
    obstacle: str = ""

    @property
    def exit(self) -> int:
        """The exit status: 1 if hardware is worse by more than two runs differ by, else 6 if not all was compared."""
        if any(difference.counts for difference in self.differences):
            return exits.REJECTED
        return exits.NOT_JUDGED if self.obstacle else exits.HOLDS


def compare(first: Run, last: Run, spread_of: SpreadOf) -> RecordComparison:
    """Return the differences between two records. `spread_of` returns how a metric varies among healthy devices."""
    devices = _same(first.devices, last.devices)
    names = {device.uuid: device.name for device in devices}
    if len(devices) == len(first.devices) == len(last.devices):
        names[NODE] = NODE
    before, after = ({key: figure for key, figure in _figures(run).items() if key[1] in names}
                     for run in (first, last))  # fmt: skip
    keys = [key for key in after if key in before]
    differences = [
        *of_devices(first.devices, last.devices),
        *_verdicts(first, last, names),
        *_of_host(first, last, whole=NODE in names),
        *_software(first, last),
        *_slower(first, last, [(before[key], after[key]) for key in keys], names, spread_of),
    ]
    differences.sort(key=attrgetter("order"))
    groups = grouped(differences, lambda difference: (difference.order, bool(difference.names)))
    merged = [
        replace(group[0], names=tuple(dict.fromkeys(name for difference in group for name in difference.names)))
        for group in groups.values()
    ]
    return RecordComparison(first, last, merged, len(keys), len(before.keys() ^ after.keys()))


def judged_otherwise(old: Run, new: Run) -> list[Difference]:
    """Return the changes by judging a record again: threshold files by their hash, and verdicts."""
    names, known_keys = Names.of(new.devices), {_verdict_key(verdict) for verdict in old.verdicts}
    new_verdicts = [
        Difference(SubjectKind.VERDICT, (names[verdict.subject],), verdict.metric, "no verdict", _words_of(verdict))
        for verdict in new.verdicts
        if _verdict_key(verdict) not in known_keys
    ]
    return [*_software(old, new), *_verdicts(old, new, names), *new_verdicts]


def not_comparable(first: Run, last: Run) -> str:
    """Return the reason why two records cannot be compared; empty if they can."""
    if first.simulated != last.simulated:
        return "one record is of a simulated node, the other one of hardware"
    before, after = (run.sku.get("name") or "none" for run in (first, last))
    if before != after:
        return f"other SKU: {before} and {after}"
    uuids = {device.uuid for device in first.devices} & {device.uuid for device in last.devices}
    return "" if uuids else "none of the same devices"


def _same(before: Sequence[Device], after: Sequence[Device]) -> list[Device]:
    """Return the devices of `after` that were there before, by UUID and serial number."""
    serials = {device.uuid: device.serial for device in before}
    matches = [(device, serials[device.uuid]) for device in after if device.uuid in serials]
    return [device for device, serial in matches if not serial or device.serial in (None, "", serial)]


# -- devices, facts and software


GONE = "gone"
"""The new state of a device that was not found any more."""


def of_devices(before: Sequence[Device], after: Sequence[Device]) -> Iterator[Difference]:
    """Yield the devices that are gone, new, in another slot, or another one in the same slot, and changed facts."""
    by_uuid, same_uuids = {device.uuid: device for device in before}, {device.uuid for device in _same(before, after)}
    new_devices = {device.pci_address or device.uuid: device for device in after if device.uuid not in same_uuids}
    for device in (device for device in before if device.uuid not in same_uuids):
        if other := new_devices.pop(device.pci_address or device.uuid, None):
            same_serial = device.serial == other.serial and device.serial
            pair = (device.uuid, other.uuid) if same_serial else (_id(device), _id(other))
            yield Difference(SubjectKind.DEVICE, (other.name,), "device", *pair)
        else:
            fields = (SubjectKind.DEVICE, (f"then {device.name}",), "device")  # another one may have its name now
            yield Difference(*fields, _id(device), GONE, Direction.WORSE, counts=True)
    for device in new_devices.values():
        yield Difference(SubjectKind.DEVICE, (device.name,), "device", "not there", _id(device), Direction.BETTER)
    for device in (device for device in after if device.uuid in same_uuids):
        old = by_uuid[device.uuid]
        if old.pci_address and device.pci_address and old.pci_address != device.pci_address:
            yield Difference(SubjectKind.DEVICE, (device.name,), "slot", old.pci_address, device.pci_address)
        yield from _facts(device.name, old.facts, device.facts)


def _id(device: Device) -> str:
    name = f"serial {device.serial}" if device.serial else device.uuid
    return f"{name} in slot {device.pci_address}" if device.pci_address else name


def _facts(subject: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the facts of a device that differ."""
    for name, fact in DEVICE_FACTS.items():
        comparable = name in RIGHT or not isinstance(before.get(name), list | tuple | Mapping)
        if name not in NOT_COMPARED and comparable and None not in (before.get(name), after.get(name)):
            yield from _fact(subject, name, before[name], after[name], fact.unit)


def _fact(subject: str, name: str, before: Any, after: Any, unit: str = "") -> Iterator[Difference]:
    if before == after:
        return
    direction = direction_of(name, before, after)
    words = _words(before, unit), _words(after, unit)
    yield Difference(SubjectKind.FACT, (subject,), name, *words, direction, counts=direction is Direction.WORSE)


def direction_of(name: str, before: Any, after: Any) -> Direction:
    """Return the direction of a fact's change from one value to another; a fact of a host is called "host.NAME"."""
    if name in RIGHT:
        if after == RIGHT[name]:
            return Direction.BETTER
        return Direction.WORSE if before == RIGHT[name] else Direction.OTHER
    numbers = isinstance(before, int | float) and isinstance(after, int | float)
    if not numbers or name not in LESS_IS_WORSE | MORE_IS_WORSE:
        return Direction.OTHER
    return Direction.WORSE if (after < before) == (name in LESS_IS_WORSE) else Direction.BETTER


def _words(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value} {unit}" if unit in ("W", "MHz", "GB/s", "GB", "C", "K", "s") else str(value)


def _of_host(first: Run, last: Run, *, whole: bool) -> Iterator[Difference]:
    """Yield the differences of the host, and of what the user chose or set."""
    facts_before, facts_after = (_stated(run) if whole else {} for run in (first, last))
    for name, fact in HOST_FACTS.items():
        old, new = facts_before.get(name), facts_after.get(name)
        if name in HOST_NOW or old is None or new is None:
            continue
        if fact.unit != "GB" or abs(new - old) > NEAR_SAME * abs(old):
            yield from _fact(NODE, f"host.{name}", old, new, fact.unit)
    yield from _fact(NODE, "host", first.host, last.host)
    before, after = ({"level": run.info.get("level"), "platform": run.info.get("platform"),
                      **run.info.get("environment", {}).get("kept", {})} for run in (first, last))  # fmt: skip
    for name in sorted({*before, *after}):
        yield from _fact("run", name, before.get(name) or "not set", after.get(name) or "not set")


def _stated(run: Run) -> dict[str, Any]:
    """Return the facts of the host by name."""
    facts = [fact for fact in run.measurements if fact.metric.startswith("host.") and fact.subject == NODE]
    return {fact.metric.removeprefix("host."): fact.value for fact in facts}


def _software(first: Run, last: Run) -> Iterator[Difference]:
    """Yield the versions of software, and the threshold files, that differ."""
    before, after = ({**run.software, **_by_name(run.sku.get("files", {}))} for run in (first, last))
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            old, new = (str(versions.get(name, "not stated")) for versions in (before, after))
            yield Difference(SubjectKind.SOFTWARE, (), name, old, new)


def _by_name(files: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of files by name: folders may move."""
    return {f"file {path.rpartition('/')[2]}": sha256[:12] for path, sha256 in files.items()}


# -- verdicts


def _verdicts(first: Run, last: Run, names: Mapping[str, str]) -> Iterator[Difference]:
    """Yield the verdicts that got worse or better, and the result of the run if it did."""
    by_key = {_verdict_key(verdict): verdict for verdict in first.verdicts}
    rates = {(measurement.metric, measurement.subject) for measurement in last.measurements if is_baseline(measurement)}
    for after in last.verdicts:
        before = by_key.get(_verdict_key(after))
        if before is not None and after.subject in names and before.status is not after.status:
            yield _other_status(names[after.subject], before, after, rate=(after.metric, after.subject) in rates)
    old, new = first.result, last.result
    if old is not new and old and new:
        direction = Direction.OTHER if old.holds == new.holds else Direction.BETTER if new.holds else Direction.WORSE
        yield Difference(SubjectKind.VERDICT, ("run",), "result", old.value, new.value, direction)


def _verdict_key(verdict: Verdict) -> tuple[str, str, str]:
    """Return metric and subject, and the marker that declares the limit."""
    limit = verdict.limit
    return verdict.metric, verdict.subject, limit.origin if limit and limit.declared_by is DeclaredBy.MARKER else ""


def _other_status(name: str, before: Verdict, after: Verdict, *, rate: bool) -> Difference:
    """Return the difference between two verdicts; of a `rate` the figure counts in its place."""
    other_limit = (before.floor, before.ceiling, before.expected) != (after.floor, after.ceiling, after.expected)
    worse = WORST_FIRST.index(after.status) < WORST_FIRST.index(before.status)
    direction = Direction.WORSE if worse else Direction.BETTER
    if Status.NOT_APPLICABLE in (before.status, after.status) and not after.status.fails:
        direction, worse = Direction.OTHER, False
    notes = [OTHER_LIMIT] if other_limit and before.value == after.value else []
    notes += [sentence_of(after)] if worse and after.status.fails and after.reasons else []
    counts = worse and (after.device_failed or (not rate and not other_limit and _of_hardware(before, after)))
    words = _words_of(before), _words_of(after)
    return Difference(SubjectKind.VERDICT, (name,), after.metric, *words, direction, counts, "; ".join(notes))


def _words_of(verdict: Verdict) -> str:
    return f"{verdict.status.value} {show(verdict.value, verdict.unit) if verdict.value is not None else ''}".strip()


def _of_hardware(before: Verdict, after: Verdict) -> bool:
    """Return True if a verdict that got worse shows another state of the hardware, by the same limit."""
    if after.status is not Status.FAIL or after.value in (None, before.value) or after.metric in OF_SOFTWARE:
        return False
    host = after.metric.startswith("host.")
    return not host or direction_of(after.metric, before.value, after.value) is Direction.WORSE


# -- figures


def _figures(run: Run) -> dict[tuple[str, str], Measurement]:
    """Return the figures of a record by key (`history.key`) and subject; of several attempts the last one counts."""
    return {(key(figure), figure.subject): figure for figure in run.measurements if is_baseline(figure)}


def _slower(
    first: Run,
    last: Run,
    pairs: Iterable[tuple[Measurement, Measurement]],
    names: Mapping[str, str],
    spread_of: SpreadOf,
) -> Iterator[Difference]:
    """Yield the figures that differ by more than two runs do."""
    processor = not any(registry.vendor(device.driver).accelerator for device in last.devices)
    for before, after in pairs:
        earlier = EarlierFigure(value_of(before), first.started[:10], str(first.path))
        change = drop(after, Past(last=earlier), spread_of(after.metric))
        if change is None or abs(change.distance.loss) <= change.distance.allowed_loss:
            continue
        direction = Direction.OTHER if processor else Direction.WORSE if change.distance.loss > 0 else Direction.BETTER
        yield Difference(
            SubjectKind.FIGURE,
            (names[after.subject],),
            after.metric,
            show(before.value, before.unit),
            show(after.value, after.unit),
            direction,
            direction is Direction.WORSE,
            PROCESSOR if processor else "",
            change.distance.loss,
            change.distance.allowed_loss,
        )
