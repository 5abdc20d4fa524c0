"""Chooses the records of a delivery that count, by the rule that holds for all results of a node. Pure.

The rule is that of `core/summary`. It is applied to each machine: records under one name that share a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.node_name import names_among, nodes_of
from pytest_accel.core.summary import choose as choose_one
from pytest_accel.fleet.delivery.records import NodeRecord, Records
from pytest_accel.run.record import FILE

OLDER = "by an older record in this folder"


def choose(found: Records, now: datetime) -> None:
    """Leave only the records that count, and enter what there is to say of the others."""
    mistimed = {each.path: why for each, why in choose_one(found.nodes, now).mistimed}
    found.refused += [f"{path}: does not count: {why}" for path, why in sorted(mistimed.items())]
    dated = [each for each in found.nodes if each.path not in mistimed]
    hosts = {each.host for each in dated}
    name_of = nodes_of(hosts, names_among(hosts))
    found.nodes = []
    for name, several in sorted(grouped(dated, lambda each: name_of.get(each.host, each.host)).items()):
        kept = [each for machine in _machines(several) for each in _of_machine(machine, now)]
        found.older += len(several) - len(kept)
        if any(each.rejects for each in several) and not any(each.rejects for each in kept):
            kept = [replace(each, rejected_before=each.rejected_before or [OLDER]) for each in kept]
        if len(kept) > 1:
            found.shared.append(name)
            places = [each.folder if each.path.name == FILE else each.path for each in kept]
            kept = [replace(each, name=f"{name} ({at})") for each, at in zip(kept, places, strict=True)]
        found.nodes += kept


def _of_machine(records: Sequence[NodeRecord], now: datetime) -> list[NodeRecord]:
    """Return the records of one machine that count.

    The first one counts by the rule, among those that their run counts and those of no run. Older ones that hold a
    device that no newer one holds count besides: a board that was exchanged and rejected stays rejected.
    """
    first = choose_one([each for each in records if each.counted], now).counts
    kept = [first] if first else []
    for one in sorted(records, key=_order, reverse=True):
        known = [device for each in kept for device in each.devices]
        is_known = all(any(_is_one(device, other) for other in known) for device in one.devices)
        if one is not first and not (kept and is_known):
            kept.append(one)
    return kept


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


def _order(record: NodeRecord) -> tuple[float, bool, str]:
    """Return what orders the records of one host: the time, and of two of one time the one that rejects."""
    return record.began.timestamp() if record.began else 0.0, record.rejects, str(record.path)
