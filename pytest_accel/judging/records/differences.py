"""Differences between two records of the same devices. Pure.

Figures are compared by the one comparison (`distance`), with those of the same method and conditions alone
(`history.key`). Records are comparable if they judged the same SKU, both or neither on a simulated node, and share a
device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pytest_accel.core import exits
from pytest_accel.core.device_facts import DEVICE_FACTS, LESS_IS_WORSE, MORE_IS_WORSE, NOW, RIGHT
from pytest_accel.core.groups import grouped
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import NODE, Device, Measurement, Names
from pytest_accel.core.run import EarlierFigure, Past, Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, show
from pytest_accel.drivers import registry
from pytest_accel.judging.verdicts.background import SpreadOf
from pytest_accel.judging.verdicts.history import kept, key
from pytest_accel.judging.verdicts.like_devices import value_of
from pytest_accel.judging.verdicts.references import drop

OTHER_LIMIT = "the limit is another one"
PROCESSOR = "other work slows a processor down, too"
OF_SOFTWARE = ("inventory.driver_version", "inventory.cuda_version", "inventory.rocm_version", "inventory.gsp_firmware")
"""Metrics of what is installed on the host. Other software is not worse hardware."""
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

    `where` are the devices that it is about, or "node", or empty. `then` and `now` are values as text. `counts` is True
    if a figure or a state of the hardware is worse by more than two runs differ by, which the exit status tells.
    """

    kind: SubjectKind
    where: tuple[str, ...]
    what: str
    then: str
    now: str
    direction: Direction = Direction.OTHER
    counts: bool = False
    note: str = ""
    """What else is to be said of it."""
    lost: float | None = None
    """The share of speed that a figure lost, negative for a gain."""
    allowed: float | None = None
    """The share by which two runs may differ."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The place among all differences, the most important one first."""
        beyond = abs(self.lost) / self.allowed if self.lost is not None and self.allowed else 0.0
        places = list(SubjectKind).index(self.kind), list(Direction).index(self.direction)
        return (*places, not self.counts, -beyond, self.what, self.then, self.now, self.note)


@dataclass(frozen=True)
class RecordComparison:
    """The differences between two records, most important first. `other` says why they are not comparable."""

    first: Run
    last: Run
    differences: Sequence[Difference] = ()
    compared: int = 0
    """The number of figures that were compared."""
    not_compared: int = 0
    """The number of figures that one of the records has no comparable one for."""
    other: str = ""

    @property
    def exit(self) -> int:
        """The exit status: 1 if hardware is worse by more than two runs differ by, else 6 if not all was compared."""
        if any(each.counts for each in self.differences):
            return exits.REJECTED
        return exits.NOT_JUDGED if self.other else exits.HOLDS


def compare(first: Run, last: Run, spread_of: SpreadOf) -> RecordComparison:
    """Return the differences between two records. `spread_of` returns how a metric varies among healthy devices."""
    same = _same(first.devices, last.devices)
    names = {each.uuid: each.name for each in same}
    if len(same) == len(first.devices) == len(last.devices):
        names[NODE] = NODE
    before, after = ({place: each for place, each in _figures(one).items() if place[1] in names}
                     for one in (first, last))  # fmt: skip
    both = [place for place in after if place in before]
    found = [
        *of_devices(first.devices, last.devices),
        *_verdicts(first, last, names),
        *_of_host(first, last, whole=NODE in names),
        *_software(first, last),
        *_slower(first, last, [(before[place], after[place]) for place in both], names, spread_of),
    ]
    groups = grouped(sorted(found, key=lambda each: each.order), lambda each: (each.order, bool(each.where)))
    alike = [
        replace(one, where=tuple(dict.fromkeys(name for each in (one, *more) for name in each.where)))
        for one, *more in groups.values()
    ]
    return RecordComparison(first, last, alike, len(both), len(before.keys() ^ after.keys()))


def judged_otherwise(old: Run, new: Run) -> list[Difference]:
    """Return what judging a record again changed: threshold files by their hash, and verdicts."""
    names, before = Names.of(new.devices), {_place(each) for each in old.verdicts}
    added = [
        Difference(SubjectKind.VERDICT, (names[each.subject],), each.metric, "no verdict", _said(each))
        for each in new.verdicts
        if _place(each) not in before
    ]
    return [*_software(old, new), *_verdicts(old, new, names), *added]


def not_comparable(first: Run, last: Run) -> str:
    """Return why two records cannot be compared; empty if they can."""
    if first.simulated != last.simulated:
        return "one record is of a simulated node, the other one of hardware"
    then, now = (each.sku.get("name") or "none" for each in (first, last))
    if then != now:
        return f"other SKU: {then} and {now}"
    shared = {each.uuid for each in first.devices} & {each.uuid for each in last.devices}
    return "" if shared else "none of the same devices"


def _same(then: Sequence[Device], now: Sequence[Device]) -> list[Device]:
    """Return the devices of `now` that were there before, by UUID and serial number."""
    serials = {each.uuid: each.serial for each in then}
    alike = [each for each in now if each.uuid in serials]
    return [each for each in alike if not serials[each.uuid] or each.serial in (None, "", serials[each.uuid])]


# -- what the records state


GONE = "gone"
"""The new state of a device that was not found any more."""


def of_devices(then: Sequence[Device], now: Sequence[Device]) -> Iterator[Difference]:
    """Yield the devices that are gone, new, in another slot, or another one in the same slot, and changed facts."""
    before, same = {each.uuid: each for each in then}, {each.uuid for each in _same(then, now)}
    new = {each.pci_address or each.uuid: each for each in now if each.uuid not in same}
    for each in (each for each in then if each.uuid not in same):
        if other := new.pop(each.pci_address or each.uuid, None):
            alike = each.serial == other.serial and each.serial
            pair = (each.uuid, other.uuid) if alike else (_id(each), _id(other))
            yield Difference(SubjectKind.DEVICE, (other.name,), "device", *pair)
        else:
            what = (SubjectKind.DEVICE, (f"then {each.name}",), "device")  # another one may have its name now
            yield Difference(*what, _id(each), GONE, Direction.WORSE, counts=True)
    for each in new.values():
        yield Difference(SubjectKind.DEVICE, (each.name,), "device", "not there", _id(each), Direction.BETTER)
    for each in (each for each in now if each.uuid in same):
        old = before[each.uuid]
        if old.pci_address and each.pci_address and old.pci_address != each.pci_address:
            yield Difference(SubjectKind.DEVICE, (each.name,), "slot", old.pci_address, each.pci_address)
        yield from _facts(each.name, old.facts, each.facts)


def _id(device: Device) -> str:
    name = f"serial {device.serial}" if device.serial else device.uuid
    return f"{name} in slot {device.pci_address}" if device.pci_address else name


def _facts(where: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the facts of a device that differ."""
    for name, about in DEVICE_FACTS.items():
        plain = name in RIGHT or not isinstance(then.get(name), list | tuple | Mapping)
        if name not in NOT_COMPARED and plain and None not in (then.get(name), now.get(name)):
            yield from _fact(where, name, then[name], now[name], about.unit)


def _fact(where: str, name: str, then: Any, now: Any, unit: str = "") -> Iterator[Difference]:
    if then == now:
        return
    direction = direction_of(name, then, now)
    before, after = _words(then, unit), _words(now, unit)
    yield Difference(SubjectKind.FACT, (where,), name, before, after, direction, counts=direction is Direction.WORSE)


def direction_of(name: str, then: Any, now: Any) -> Direction:
    """Return what it means that a fact changed from one value to another; that of a host is called "host.NAME"."""
    if name in RIGHT:
        if now == RIGHT[name]:
            return Direction.BETTER
        return Direction.WORSE if then == RIGHT[name] else Direction.OTHER
    numbers = isinstance(then, int | float) and isinstance(now, int | float)
    if not numbers or name not in LESS_IS_WORSE | MORE_IS_WORSE:
        return Direction.OTHER
    return Direction.WORSE if (now < then) == (name in LESS_IS_WORSE) else Direction.BETTER


def _words(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value} {unit}" if unit in ("W", "MHz", "GB/s", "GB", "C", "K", "s") else str(value)


def _of_host(first: Run, last: Run, *, whole: bool) -> Iterator[Difference]:
    """Yield what differs of the host, and what the user chose or set."""
    then, now = (_stated(one) if whole else {} for one in (first, last))
    for name, about in HOST_FACTS.items():
        old, new = then.get(name), now.get(name)
        if name in HOST_NOW or old is None or new is None:
            continue
        if about.unit != "GB" or abs(new - old) > NEAR_SAME * abs(old):
            yield from _fact(NODE, f"host.{name}", old, new, about.unit)
    yield from _fact(NODE, "host", first.host, last.host)
    before, after = ({"level": one.info.get("level"), "platform": one.info.get("platform"),
                      **one.info.get("environment", {}).get("kept", {})} for one in (first, last))  # fmt: skip
    for name in sorted({*before, *after}):
        yield from _fact("run", name, before.get(name) or "not set", after.get(name) or "not set")


def _stated(one: Run) -> dict[str, Any]:
    """Return the facts of the host by name."""
    facts = [each for each in one.measurements if each.metric.startswith("host.") and each.subject == NODE]
    return {each.metric.removeprefix("host."): each.value for each in facts}


def _software(first: Run, last: Run) -> Iterator[Difference]:
    """Yield the versions of software, and the threshold files, that differ."""
    then, now = ({**one.software, **_by_name(one.sku.get("files", {}))} for one in (first, last))
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            before, after = (str(each.get(name, "not stated")) for each in (then, now))
            yield Difference(SubjectKind.SOFTWARE, (), name, before, after)


def _by_name(files: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of files by name: folders may move."""
    return {f"file {path.rpartition('/')[2]}": sha256[:12] for path, sha256 in files.items()}


# -- verdicts


def _verdicts(first: Run, last: Run, names: Mapping[str, str]) -> Iterator[Difference]:
    """Yield the verdicts that got worse or better, and the result of the run if it did."""
    before = {_place(each): each for each in first.verdicts}
    rates = {(each.metric, each.subject) for each in last.measurements if kept(each)}
    for now in last.verdicts:
        then = before.get(_place(now))
        if then is not None and now.subject in names and then.status is not now.status:
            yield _other_status(names[now.subject], then, now, rate=(now.metric, now.subject) in rates)
    one, two = first.result, last.result
    if one is not two and one and two:
        direction = Direction.OTHER if one.holds == two.holds else Direction.BETTER if two.holds else Direction.WORSE
        yield Difference(SubjectKind.VERDICT, ("run",), "result", one.value, two.value, direction)


def _place(verdict: Verdict) -> tuple[str, str, str]:
    """Return metric and subject, and the marker that declares the limit."""
    limit = verdict.limit
    return verdict.metric, verdict.subject, limit.origin if limit and limit.declared_by is DeclaredBy.MARKER else ""


def _other_status(where: str, then: Verdict, now: Verdict, *, rate: bool) -> Difference:
    """Return the difference between two verdicts; of a `rate` the figure counts in its place."""
    other_limit = (then.floor, then.ceiling, then.expected) != (now.floor, now.ceiling, now.expected)
    worse = WORST_FIRST.index(now.status) < WORST_FIRST.index(then.status)
    direction = Direction.WORSE if worse else Direction.BETTER
    if Status.NOT_APPLICABLE in (then.status, now.status) and not now.status.fails:
        direction, worse = Direction.OTHER, False
    notes = [OTHER_LIMIT] if other_limit and then.value == now.value else []
    notes += [sentence_of(now)] if worse and now.status.fails and now.reasons else []
    counts = worse and (now.device_failed or (not rate and not other_limit and _of_hardware(then, now)))
    return Difference(
        SubjectKind.VERDICT, (where,), now.metric, _said(then), _said(now), direction, counts, "; ".join(notes)
    )


def _said(verdict: Verdict) -> str:
    return f"{verdict.status.value} {show(verdict.value, verdict.unit) if verdict.value is not None else ''}".strip()


def _of_hardware(then: Verdict, now: Verdict) -> bool:
    """Return whether a verdict that got worse shows another state of the hardware, by the same limit."""
    if now.status is not Status.FAIL or now.value is None or then.value == now.value or now.metric in OF_SOFTWARE:
        return False
    host = now.metric.startswith("host.")
    return not host or direction_of(now.metric, then.value, now.value) is Direction.WORSE


# -- figures


def _figures(one: Run) -> dict[tuple[str, str], Measurement]:
    """Return the figures of a record by key (`history.key`) and subject; of several attempts the last one counts."""
    return {(key(each), each.subject): each for each in one.measurements if kept(each)}


def _slower(
    first: Run,
    last: Run,
    pairs: Iterable[tuple[Measurement, Measurement]],
    names: Mapping[str, str],
    spread_of: SpreadOf,
) -> Iterator[Difference]:
    """Yield the figures that differ by more than two runs do."""
    processor = not any(registry.vendor(device.driver).accelerator for device in last.devices)
    for then, now in pairs:
        earlier = EarlierFigure(value_of(then), first.started[:10], str(first.path))
        change = drop(now, Past(last=earlier), spread_of(now.metric))
        if change is None or abs(change.distance.lost) <= change.distance.allowed:
            continue
        direction = Direction.OTHER if processor else Direction.WORSE if change.distance.lost > 0 else Direction.BETTER
        yield Difference(
            SubjectKind.FIGURE,
            (names[now.subject],),
            now.metric,
            show(then.value, then.unit),
            show(now.value, now.unit),
            direction,
            direction is Direction.WORSE,
            PROCESSOR if processor else "",
            change.distance.lost,
            change.distance.allowed,
        )
