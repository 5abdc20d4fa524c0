"""Chooses the records of a delivery that count, by the rule that holds for all results of a node. Pure.

The rule is that of `core/summary.py`. It is applied to each machine: records under one name that share a device.
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


def choose(records: Records, now: datetime) -> None:
    """Leave only the records that count, and enter what there is to say of the others."""
    mistimed = {record.path: reason for record, reason in choose_one(records.nodes, now).mistimed}
    records.refused += [f"{path}: does not count: {reason}" for path, reason in sorted(mistimed.items())]
    dated = [record for record in records.nodes if record.path not in mistimed]
    hosts = {record.host for record in dated}
    name_of = nodes_of(hosts, names_among(hosts))
    records.nodes = []
    for name, group in sorted(grouped(dated, lambda record: name_of.get(record.host, record.host)).items()):
        counting = [record for machine in _machines(group) for record in _of_machine(machine, now)]
        records.older += len(group) - len(counting)
        if any(record.rejects for record in group) and not any(record.rejects for record in counting):
            counting = [replace(record, rejected_before=record.rejected_before or [OLDER]) for record in counting]
        if len(counting) > 1:
            records.shared.append(name)
            paths = [record.folder if record.path.name == FILE else record.path for record in counting]
            counting = [replace(record, name=f"{name} ({path})") for record, path in zip(counting, paths, strict=True)]
        records.nodes += counting


def _of_machine(records: Sequence[NodeRecord], now: datetime) -> list[NodeRecord]:
    """Return the records of one machine that count.

    The first one counts by the rule, among those that their run counts and those of no run.
    """
    first = choose_one([record for record in records if record.counted], now).counts
    counting = [first] if first else []
    for record in sorted(records, key=_order, reverse=True):
        devices = [device for earlier in counting for device in earlier.devices]
        is_known = all(any(_is_one(device, other) for other in devices) for device in record.devices)
        # An older record with a device that no newer one has counts besides: a board that was exchanged and rejected
        # stays rejected.
        if record is not first and not (counting and is_known):
            counting.append(record)
    return counting


def _machines(records: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    """Return records by machine: those that share the UUID of a device, also by way of another record.

    A record without a device is of the only machine, or else of one of its own.
    """
    of_device: dict[str, list[NodeRecord]] = {}
    for record in records:
        machine = [record]
        known = [of_device[device.uuid] for device in record.devices if device.uuid in of_device]
        for group in {id(group): group for group in known}.values():
            machine += group
        of_device |= {device.uuid: machine for record in machine for device in record.devices}
    machines = list({id(record): record for record in of_device.values()}.values())
    without_devices = [record for record in records if not record.devices]
    if len(machines) > 1:
        return [*machines, *([record] for record in without_devices)]
    return [[record for machine in machines for record in machine] + without_devices]


def _is_one(device: Device, other: Device) -> bool:
    """Return True if two devices are the same board."""
    serials = {board.serial.strip().upper() for board in (device, other) if board.serial}
    return device.uuid == other.uuid and len(serials) < 2


def _order(record: NodeRecord) -> tuple[float, bool, str]:
    """Return the sort key of the records of one host: the time, and of two of one time the one that rejects last."""
    return record.began.timestamp() if record.began else 0.0, record.rejects, str(record.path)
