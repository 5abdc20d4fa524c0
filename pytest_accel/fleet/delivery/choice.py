"""Chooses the records of a delivery that count, by the rule that holds for all results of a node. Pure.

The rule is that of `core/summary`. It is applied to each machine: records under one name that share a device.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.node_name import names_among, nodes_of
from pytest_accel.core.summary import choose as choose_one
from pytest_accel.fleet.delivery.records import NodeRecord, Records
from pytest_accel.run.record import FILE


@dataclass(frozen=True)
class Runs:
    """The runs of a fleet in the folder of a delivery."""

    folders: Collection[Path] = ()
    """Those with a fleet.json."""
    counted: Mapping[Path, datetime | None] = field(default_factory=dict)
    """The folder of each result that they count, with the time at which it began, if its job tells that."""

    def of(self, record: NodeRecord) -> Path | None:
        """Return the run in whose folder a record lies, None if there is none."""
        return next((each for each in record.path.parents if each in self.folders), None)

    def count(self, record: NodeRecord) -> bool:
        """Return True for a record that its run counts."""
        return not self.counted.keys().isdisjoint((record.folder, record.folder.parent))  # that of its series

    def began(self, record: NodeRecord) -> datetime | None:
        """Return when the run of a record began."""
        return self.counted.get(record.folder) or record.began


NO_RUNS: Final = Runs()


def choose(found: Records, now: datetime, runs: Runs = NO_RUNS) -> None:
    """Leave only the records that count, and enter what there is to say of the others."""
    every, found.nodes = found.nodes, []
    hosts = {each.host for each in every}
    name_of = nodes_of(hosts, names_among(hosts))
    by_name = grouped(every, lambda each: name_of.get(each.host, each.host))
    for name in sorted(by_name):
        kept: list[NodeRecord] = []
        dated: list[NodeRecord] = []
        for machine in _machines(by_name[name]):
            some, mistimed = _of_machine(machine, now, runs)
            kept += some
            dated += [each for each in machine if all(each is not other for other, _ in mistimed)]
            found.refused += [f"{each.path}: does not count: {why}" for each, why in mistimed]
        found.older += len(dated) - len(kept)
        if any(each.rejects for each in dated) and not any(each.rejects for each in kept):
            found.rejected_before += sorted({each.host for each in kept})
        if len(kept) > 1:
            found.shared.append(name)
            kept = [
                replace(each, node=f"{name} ({each.folder if each.path.name == FILE else each.path})") for each in kept
            ]
        found.nodes += kept


def _of_machine(
    records: Sequence[NodeRecord], now: datetime, runs: Runs
) -> tuple[list[NodeRecord], Sequence[tuple[NodeRecord, str]]]:
    """Return the records of one machine that count, and those whose time cannot be right, with the reason.

    The first one counts by the rule, among those that their run counts and those of no run. Older ones that hold a
    device that no newer one holds count besides: a board that was exchanged and rejected stays rejected.
    """
    choice = choose_one(records, now, runs.began)
    mistimed = {id(each) for each, _ in choice.mistimed}
    dated = [each for each in records if id(each) not in mistimed]
    fits = [each for each in dated if runs.count(each) or runs.of(each) is None]
    first = choose_one(fits, now, runs.began).counts
    kept = [first] if first else []
    for one in sorted(dated, key=lambda each: _order(each, runs), reverse=True):
        known = [device for each in kept for device in each.devices]
        is_known = all(any(_is_one(device, other) for other in known) for device in one.devices)
        if one is not first and not (kept and is_known):
            kept.append(one)
    return kept, choice.mistimed


def _machines(records: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    """Return records by machine: those that share the UUID of a device, also by way of another record.

    A record without a device is of the only machine, or else of one of its own.
    """
    of_device: dict[str, list[NodeRecord]] = {}
    for one in records:
        machine = [one]
        for before in {id(each): each for device in one.devices if (each := of_device.get(device.uuid))}.values():
            machine += before
        of_device |= {device.uuid: machine for each in machine for device in each.devices}
    machines = list({id(each): each for each in of_device.values()}.values())
    bare = [each for each in records if not each.devices]
    if len(machines) > 1:
        return [*machines, *([each] for each in bare)]
    return [[each for machine in machines for each in machine] + bare]


def _is_one(one: Device, other: Device) -> bool:
    """Return True if two devices are the same board."""
    serials = {each.serial.strip().upper() for each in (one, other) if each.serial}
    return one.uuid == other.uuid and len(serials) < 2


def _order(record: NodeRecord, runs: Runs) -> tuple[float, bool, str]:
    """Return what orders the records of one host: the time, and of two of one time the one that rejects."""
    began = runs.began(record)
    return began.timestamp() if began else 0.0, record.rejects, str(record.path)
