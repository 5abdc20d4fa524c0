"""The idle gate: before our own first context, who else uses the devices, and have they cooled down?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import registry
from pytest_accel.judging import preconditions
from pytest_accel.run.processes.worker_pool import WorkerPool


@dataclass
class IdleCheck:
    """The result of the idle gate: what disturbs each device (by UUID) from outside, and notes for the record."""

    disturbed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def check_idle(pool: WorkerPool, devices: Sequence[Device]) -> IdleCheck:
    """Look for others' work on the devices, and wait until these have cooled down from it."""
    found = IdleCheck()
    unknown = {device.uuid: "nobody could tell whether it was idle" for device in devices}
    busy = pool.sensor.not_idle()
    found.disturbed = unknown if busy is None else busy
    names = {device.uuid: device.name for device in devices}
    found.notes = [f"{names.get(uuid, uuid)}, before the run: {why}" for uuid, why in found.disturbed.items()]
    _add_profilers(found, pool, devices)
    if not found.disturbed:
        hot = [names.get(uuid, uuid) for uuid in settle(pool)]
        found.notes += [f"{', '.join(hot)} still cooled down after {preconditions.SETTLE_SECONDS:g} s"] if hot else []
    return found


def _add_profilers(found: IdleCheck, pool: WorkerPool, devices: Sequence[Device]) -> None:
    for each in pool.sensor.profilers:
        found.notes.append(f"before the run, {each['says']}")
        for device in devices if each["disturbs"] else ():
            if registry.vendor(device.driver).accelerator:
                found.disturbed.setdefault(device.uuid, each["says"])


def settle(pool: WorkerPool) -> list[str]:
    """Wait until no device cools down any more from what ran before; returns those that still do in the end."""
    began, step = time.monotonic(), pool.processes.settle_step
    before, hot = _temperatures(pool), list[str]()
    while before and (spent := time.monotonic() - began) < preconditions.SETTLE_SECONDS:
        time.sleep(step)
        now = _temperatures(pool)
        hot = preconditions.cooling(before, now, step)
        if not hot:
            break
        pool.progress("letting the devices cool down", spent, preconditions.SETTLE_SECONDS)
        before = now
    pool.progress("", 0.0, 0.0)
    return hot


def _temperatures(pool: WorkerPool) -> dict[str, float]:
    answers = pool.sensor.health() or {}
    return {uuid: float(facts["temperature_c"]) for uuid, facts in answers.items() if "temperature_c" in facts}
