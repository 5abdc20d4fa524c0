"""The nodes of a delivery and their boards, each with its result. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.core.measurement import Device
from pytest_accel.fleet.delivery.records import NodeRecord, place_of

ACCEPTED, REJECTED, OPEN, MISSING = "accepted", "rejected", "not judged", "missing"
"""The results of a node and of a device."""


@dataclass(frozen=True)
class Board:
    """A device of the delivery, where it was seen."""

    node: str
    place: str
    serial: str
    uuid: str
    model: str
    result: str


@dataclass(frozen=True)
class Node:
    """A node of the delivery with its result."""

    name: str
    result: str
    line: str
    started: str
    boards: Sequence[Board]
    record: str
    sha256: str
    objection: str
    """Why the result of its run does not count here, empty if it does."""
    signed_by: Sequence[str]
    """The names of the signers of its record."""


def node_of(record: NodeRecord) -> Node:
    """Return a node with its result and its boards."""
    result = REJECTED if record.rejects else ACCEPTED if record.accepted else OPEN
    faulty = {each.uuid for each in record.faults}

    def of_device(device: Device) -> str:
        """Return the result of a device: one of a node that is not accepted, and has no fault itself, is not judged."""
        return OPEN if result == REJECTED and device.uuid not in faulty else result

    boards = [
        Board(record.node, place_of(each), each.serial or "", each.uuid, each.model, of_device(each))
        for each in record.devices
    ]
    line = f"{record.line}; NOT JUDGED here: {record.objection}" if record.objection else record.line
    return Node(
        record.node,
        result,
        line,
        record.started,
        boards,
        str(record.path),
        record.sha256,
        record.objection,
        record.signed_by,
    )
