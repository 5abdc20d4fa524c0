"""Messages between pytest and its worker processes: what is sent, and the outcome of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from pytest_accel.core.measurement import Device

Message = dict[str, Any]
"""One line of JSON; its key "event" names the kind."""

Pair = tuple[str, str]
"""Sender and receiver, by UUID."""

Group = tuple[Device, ...]
"""The devices that one worker holds."""


class FastPath(TypedDict):
    """Whether a CPU multiplies a dtype fast."""

    speed: float
    """The speed compared with fp32."""
    why_not: str
    """The reason why the dtype has no fast path; empty if it has one."""


def fastest(found: Iterable[Mapping[str, FastPath]]) -> dict[str, FastPath]:
    """Return the highest speed of each dtype that a device of the machine found: one decision for all devices."""
    merged: dict[str, FastPath] = {}
    for each in found:
        for dtype, path in each.items():
            if dtype not in merged or path["speed"] > merged[dtype]["speed"]:
                merged[dtype] = path
    return merged


@dataclass
class Outcome:
    """The blocks, findings and trouble that one worker sent for a request.

    `step` is the last step that a worker for several devices announced.
    """

    group: Group
    blocks: list[Message] = field(default_factory=list)
    findings: list[Message] = field(default_factory=list)
    trouble: Message | None = None
    step: Message | None = None
