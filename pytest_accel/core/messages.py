"""Messages between pytest and its worker processes, and the outcome of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, get_args

from pytest_accel.core.measurement import Device, Event, Trouble, TroubleKind

Message = dict[str, Any]
"""One line of JSON; its key "event" names the kind."""

Pair = tuple[str, str]
"""Sender and receiver, by UUID."""

Group = tuple[Device, ...]
"""The devices that one worker holds."""


class FastPath(TypedDict):
    """The path of a CPU for the products of a dtype."""

    speed: float
    """The speed compared with fp32."""
    why_not: str
    """The reason why the dtype has no fast path; empty if it has one."""


def fastest(answers: Iterable[Mapping[str, FastPath]]) -> dict[str, FastPath]:
    """Return the fastest path of each dtype among the answers of the devices: one decision for all devices."""
    merged: dict[str, FastPath] = {}
    for paths in answers:
        for dtype, path in paths.items():
            if dtype not in merged or path["speed"] > merged[dtype]["speed"]:
                merged[dtype] = path
    return merged


@dataclass(frozen=True)
class CallTrouble(Trouble):
    """The reason why a call of a child process ended without its result, by its own report or by pytest's."""

    lost: bool = False
    """True if every later call of the process would fail too."""
    of_programs: bool = False
    """True if a fault of a program may have caused it as well as the device."""
    collective: bool = False
    """True if a library raised it in a collective."""
    traceback: str = ""
    """The traceback of the exception, empty without one."""
    exited: bool = False
    """True if the process ended by itself, without a signal."""
    culprit_unknown: bool = False
    """True if it is not known which of several processes, here or on other nodes, is to blame."""
    waited_in_torch: bool = False
    """True if every process was in torch, where it may have waited for another node."""
    secondary: bool = False
    """True if the process was stopped, or failed, only because another one had failed."""
    unless_lost: CallTrouble | None = None
    """The trouble in place of this one for a device that its management library calls lost; None for this one."""

    def acquitted(self, kind: TroubleKind, reason: str) -> CallTrouble:
        """Return the trouble as one of another kind, for which the device is not to blame."""
        return replace(self, kind=kind, reason=reason, event="")


def reported_trouble(message: Message, program: str) -> CallTrouble:
    """Return the trouble that a message of `program` states. One of no known kind is a need: it blames no device."""
    kind, reason = {"kind": "none", **message}["kind"], str(message["reason"])
    if kind not in get_args(TroubleKind):
        return CallTrouble("need", f"{program} reported a trouble of no known kind ({kind}): {reason}")
    names = ("lost", "wrong", "of_programs", "collective", "traceback")
    details = {name: message[name] for name in names if name in message}
    event: Event = "uncorrectable" if message.get("uncorrectable") else "lost" if message.get("lost") else ""
    return CallTrouble(kind, reason, event if kind == "device" else "", **details)


@dataclass(frozen=True)
class Problem:
    """A driver that failed in a discovery."""

    driver: str
    kind: TroubleKind
    """"device", or "need" if no device is to blame."""
    reason: str
    shown: Sequence[str] = ()
    """The places at which the machine shows devices of this driver."""


@dataclass
class Outcome:
    """The blocks, results and trouble that one worker sent for a request.

    `step` is the last step that a worker for several devices announced.
    """

    group: Group
    blocks: list[Message] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    trouble: CallTrouble | None = None
    step: Message | None = None
