"""What has to be so before a device may be measured, and which probes it makes meaningless if it is not. Pure.

Each reason stops what depends on it and nothing else. That the state itself is wrong is judged by its own limit on the
inventory or the health; what is stopped is UNMEASURED and names it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.sku import Platform
from pytest_accel.probes.declare import PARTS, Declaration

EVERYTHING = PARTS
MEMORY = ("memory",)
COMPUTE = ("compute",)
PEERS = ("link",)

RESET = "drain the node, reset it by `nvidia-smi --gpu-reset -i {index}` or reboot, and run again"
FABRIC = "look at `systemctl status nvidia-fabricmanager`, wait until `nvidia-smi -q` shows Fabric Completed"

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Reason:
    """A state that makes measurements meaningless, and the parts of the device whose probes it stops."""

    holds: Callable[[Facts], object]
    """What is wrong, for the sentence; nothing if it does not hold."""
    says: str
    stops: tuple[str, ...]
    do: str
    switched: bool = False
    """True for what matters only where the devices are linked by switches."""


def _differs(mode: str) -> Callable[[Facts], object]:
    return lambda facts: f"{mode}_pending" in facts and facts.get(mode) != facts[f"{mode}_pending"]


def _action(facts: Facts) -> object:
    action = facts.get("recovery_action", "none")
    return action if action != "none" else None


def _unready(facts: Facts) -> object:
    return facts["fabric_state"] if facts.get("fabric_state") in ("not started", "in progress") else None


def _incomplete(facts: Facts) -> object:
    return facts.get("fabric_status") if facts.get("fabric_state") == "completed" else None


REASONS = (
    Reason(
        lambda facts: facts.get("mig"),
        "MIG mode is on: parts of a device are not accepted, nor the whole (inventory.mig)",
        EVERYTHING,
        "drain the node, switch it off by `nvidia-smi -i {index} -mig 0`, and run again",
    ),
    Reason(_differs("mig"), "MIG mode changes at the next reset (health.mig_pending_change)", EVERYTHING, RESET),
    Reason(_action, "its driver asks for recovery: {found} (health.recovery_action)", EVERYTHING, RESET),
    Reason(
        _unready,
        "the fabric is {found}, until when CUDA does not start: error 802, no fault of the GPU (health.fabric)",
        EVERYTHING,
        FABRIC,
        switched=True,
    ),
    Reason(_incomplete, "the fabric was set up with error {found} (health.fabric)", PEERS, FABRIC, switched=True),
    Reason(_differs("ecc"), "ECC changes at the next reset (health.ecc_pending_change)", (*MEMORY, *COMPUTE), RESET),
    Reason(
        lambda facts: facts.get("remap_pending"),
        "a row of its memory waits to be remapped (health.remap_pending)",
        MEMORY,
        RESET,
    ),
    Reason(
        lambda facts: facts.get("retired_pages_pending"),
        "pages of its memory wait to be retired (health.retired_pages_pending)",
        MEMORY,
        RESET,
    ),
    Reason(
        lambda facts: facts.get("channel_repair_pending"),
        "a memory channel waits for its repair (health.channel_repair_pending)",
        MEMORY,
        RESET,
    ),
    Reason(
        lambda facts: facts.get("tpc_repair_pending"),
        "compute units wait for their repair (health.tpc_repair_pending)",
        COMPUTE,
        RESET,
    ),
)


def stopped(probe: Declaration, subject: str, devices: Iterable[Device], platform: Platform) -> str | None:
    """Why `probe` says nothing about the subject now and what to do, or None. The node is stopped by any device."""
    for device in devices:
        if subject in (device.uuid, NODE) and (why := _why(probe, device, platform)):
            return f"not measured: {device.name}: {why}"
    return None


def _why(probe: Declaration, device: Device, platform: Platform) -> str | None:
    for reason in REASONS:
        if reason.switched and platform.link.get("topology") != "switch":
            continue
        stops = reason.stops is EVERYTHING or set(reason.stops) & set(probe.stresses)
        found = reason.holds(device.facts) if stops else None
        if found:
            return f"{reason.says.format(found=found)}; {reason.do.format(index=device.index)}"
    return None


# -- settled

COOLS_K_PER_S = 0.5
"""A device whose temperature falls faster is still hot from what ran before: its leakage and fans are not its own yet.

Chosen: at a time constant of about 20 s, as that of a GPU on its heat sink, it is then within 10 K of its rest.
"""
SETTLE_SECONDS = 60.0
"""How long to wait for that at most."""
SETTLE_STEP = 4.0
"""Between two readings: temperatures come in whole degrees, of which one may flicker."""


def cooling(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> list[str]:
    """The devices whose temperature (in C) falls faster than that."""
    fell = {uuid: before[uuid] - now[uuid] for uuid in before if uuid in now}
    return [uuid for uuid, kelvin in fell.items() if kelvin > 1 and kelvin / seconds > COOLS_K_PER_S]


def others_at_work(facts: Mapping[str, Any], ours: Collection[int]) -> str | None:
    """Who else has work on a device that we work on, by the processes among its facts.

    Where none of them is ours (another PID namespace, no context left) nobody can tell the others from us.
    """
    pids = [each["pid"] for each in facts.get("processes", ())]
    others = [pid for pid in pids if pid not in ours]
    return f"pid {', '.join(map(str, others))} was at work on it too" if others and len(others) < len(pids) else None
