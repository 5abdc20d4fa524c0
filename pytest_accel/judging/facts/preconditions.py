"""Preconditions of a measurement: states of a device that make some probes meaningless. Pure.

Each state stops the probes that depend on it and no others; a stopped probe is UNMEASURED and names the state. The
state itself is judged by its own limit on `inventory.*` or `health.*`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.reasons import Note
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.probes.declare import PARTS, Declaration
from pytest_accel.skus.peaks import why_not_applicable

EVERYTHING = PARTS
MEMORY = ("memory",)
COMPUTE = ("compute",)
PEERS = ("link",)

RESET = "drain the node, reset the GPU with `nvidia-smi --gpu-reset -i {index}` or reboot, and run again"
FABRIC = "check `systemctl status nvidia-fabricmanager`, wait until `nvidia-smi -q` shows Fabric Completed"

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Obstacle:
    """A state that makes measurements meaningless, and the parts of the device whose probes it stops."""

    holds: Callable[[Facts], object]
    """Returns a true value if the device is in the state; the sentence shows it in place of {state}."""
    says: str
    """The sentence on the state, with the metric that judges it."""
    stops: tuple[str, ...]
    """Parts of a device (`PARTS`). The state stops every probe that stresses one of them."""
    do: str
    """The remedy."""
    switched: bool = False
    """True for a state that matters only on platforms whose devices are linked by switches."""


def _differs(mode: str) -> Callable[[Facts], object]:
    return lambda facts: f"{mode}_pending" in facts and facts.get(mode) != facts[f"{mode}_pending"]


def _pending(fact: str, action: str, stops: tuple[str, ...]) -> Obstacle:
    return Obstacle(lambda facts: facts.get(fact), f"{action} is pending (health.{fact})", stops, RESET)


OBSTACLES = (
    Obstacle(
        lambda facts: facts.get("recovery_action", "none") != "none" and facts["recovery_action"],
        "its driver requests recovery: {state} (health.recovery_action)",
        EVERYTHING,
        RESET,
    ),
    Obstacle(
        lambda facts: facts.get("fabric_state") in ("not started", "in progress") and facts["fabric_state"],
        "the setup of the fabric is {state}; CUDA fails with error 802 until it has completed, which is not a fault of "
        "the GPU (health.fabric)",
        EVERYTHING,
        FABRIC,
        switched=True,
    ),
    Obstacle(
        lambda facts: facts.get("fabric_state") == "completed" and facts.get("fabric_status"),
        "the fabric was set up with error {state} (health.fabric)",
        PEERS,
        FABRIC,
        switched=True,
    ),
    Obstacle(_differs("ecc"), "ECC changes at the next reset (health.ecc_pending_change)", (*MEMORY, *COMPUTE), RESET),
    _pending("remap_pending", "the remapping of a memory row", MEMORY),
    _pending("retired_pages_pending", "the retirement of memory pages", MEMORY),
    _pending("channel_repair_pending", "the repair of a memory channel", MEMORY),
    _pending("tpc_repair_pending", "the repair of compute units", COMPUTE),
)


def obstacle(probe: Declaration, subject: str, devices: Iterable[Device], platform: Platform) -> str | None:
    """Return the reason why `probe` would be meaningless on the subject, with the remedy, or None.

    The state of any device stops a probe of the subject NODE.
    """
    for device in devices:
        if subject in (device.uuid, NODE) and (sentence := _sentence(probe, device, platform)):
            return f"{device.name}: {sentence}"
    return None


def _sentence(probe: Declaration, device: Device, platform: Platform) -> str | None:
    for obstacle in OBSTACLES:
        if obstacle.switched and platform.link.get("topology") != "switch":
            continue
        stops = obstacle.stops is EVERYTHING or set(obstacle.stops) & set(probe.stresses)
        state = obstacle.holds(device.facts) if stops else None
        if state:
            return f"{obstacle.says.format(state=state)}; {obstacle.do.format(index=device.index)}"
    return None


# -- settled

COOLS_K_PER_S = 0.5
"""A device whose temperature falls faster is still hot from an earlier load, which raises its leakage and fan speed.

Chosen: with the time constant of a GPU on its heat sink, about 20 s, it is then within 10 K of its idle temperature.
"""
SETTLE_SECONDS = 60.0
"""The longest wait for a device to cool down."""
SETTLE_STEP = 4.0
"""Seconds between two readings: temperatures are whole degrees, and the last one may flicker."""


def cooling(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> list[str]:
    """Return the UUIDs of the devices whose temperature (in C) falls faster than COOLS_K_PER_S."""
    fell = {uuid: before[uuid] - now[uuid] for uuid in before if uuid in now}
    return [uuid for uuid, kelvin in fell.items() if kelvin > 1 and kelvin / seconds > COOLS_K_PER_S]


def others_at_work(facts: Mapping[str, Any], ours: Collection[int]) -> str | None:
    """Return a sentence on foreign processes that use a device at the same time as `ours`, or None."""
    pids = [process["pid"] for process in facts.get("processes", ())]
    # if none is ours (another PID namespace, no context left), the foreign ones cannot be told from ours
    others = [pid for pid in pids if pid not in ours]
    return f"pid {', '.join(map(str, others))} used the device too" if others and len(others) < len(pids) else None


def skip_verdict(
    metric: str, subject: str, sku: Sku | None, platform: Platform, devices: Iterable[Device], *, fact: bool
) -> Verdict | None:
    """Return the verdict that makes a measurement unnecessary, or None.

    It is NOT APPLICABLE for a metric that cannot exist on this SKU and platform, and UNMEASURED for the performance
    of a device that is not the named SKU. Facts (`fact`) are read from any device.
    """
    reason = why_not_applicable(sku, metric, platform) if sku else None
    if reason:
        return Verdict(metric, subject, Status.NOT_APPLICABLE, (Note("not_applicable", reason),))
    mismatch = wrong_product(subject, sku, devices)
    if mismatch and not fact:
        return Verdict(metric, subject, Status.UNMEASURED, (Note("other_product", mismatch),))
    return None


def wrong_product(subject: str, sku: Sku | None, devices: Iterable[Device]) -> str | None:
    """Return the reason why the subject is not the named SKU, or None; the subject NODE stands for all devices."""
    for device in devices:
        if sku and subject in (device.uuid, NODE) and (difference := sku.mismatch(device)):
            return f"{device.name} is not recognised as {sku.name}: {difference}"
    return None
