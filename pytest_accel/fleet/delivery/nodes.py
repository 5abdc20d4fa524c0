"""The nodes of a delivery and their boards, each with its result. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.core.measurement import NODE, Device
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
    marginal: int
    """The number of its devices with a MARGINAL verdict."""
    record: str
    sha256: str
    objection: str
    """Why the result of its run does not count here, empty if it does."""
    signed_by: Sequence[str] = ()
    """The names of the signers of its record; empty where signatures were not verified."""


def node_of(record: NodeRecord) -> Node:
    """Return a node with its result and its boards."""
    result = REJECTED if record.rejects else ACCEPTED if record.accepted else OPEN
    faulty = {each.uuid for each in record.faults}

    def of_device(device: Device) -> str:
        """Return the result of a device: one of a node that is not accepted, and has no fault itself, is not judged."""
        if result == REJECTED:
            return REJECTED if device.uuid in faulty else OPEN
        return result

    boards = [
        Board(record.node, place_of(each), each.serial or "", each.uuid, each.model, of_device(each))
        for each in record.devices
    ]
    marginal = len(record.marginal - {NODE})
    line = f"{record.line}; NOT JUDGED here: {record.objection}" if record.objection else record.line
    return Node(
        name=record.node,
        result=result,
        line=line,
        started=record.started,
        boards=boards,
        marginal=marginal,
        record=str(record.path),
        sha256=record.sha256,
        objection=record.objection,
        signed_by=record.signed_by,
    )
