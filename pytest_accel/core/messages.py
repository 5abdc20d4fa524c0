"""Messages between pytest and its worker processes: a request, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.measurement import Device

Message = dict[str, Any]
"""One line of JSON; "event" says what it is."""

Pair = tuple[str, str]
"""Sender and receiver, by UUID."""

Group = tuple[Device, ...]
"""The devices that one worker holds."""


@dataclass(frozen=True)
class WorkerRequest:
    """A measurement that the workers are to make. `runs` is the probe's declaration, `suffix` ends every metric.

    `pairs` are those that a copy between peers is to measure again; none: all.
    """

    metric: str
    suffix: str
    runs: str
    probe: Mapping[str, Any]
    conditions: Mapping[str, Any]
    seconds: float
    precision: float
    pairs: Sequence[Pair] = ()

    def message(self) -> Message:
        fields = {key: value for key, value in vars(self).items() if key not in ("runs", "suffix")}
        return {"event": "call", **fields}


@dataclass
class Outcome:
    """The blocks, findings and trouble of one group of devices for a request."""

    group: Group
    blocks: list[Message] = field(default_factory=list)
    findings: list[Message] = field(default_factory=list)
    trouble: Message | None = None
    step: Message | None = None
