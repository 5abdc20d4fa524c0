"""The idle gate: checks before the first measurement that nobody else uses the devices and that they are cool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_accel.core.measurement import Device, Names
from pytest_accel.drivers import registry
from pytest_accel.judging.facts import preconditions
from pytest_accel.run.processes.worker_pool import WorkerPool


@dataclass
class IdleCheck:
    """The result of the idle gate."""

    disturbances: dict[str, str] = field(default_factory=dict)
    """UUID of each device that something outside of this run disturbs, to a sentence that says what."""
    excuses: dict[str, str] = field(default_factory=dict)
    """The same of a device that is no accelerator, the CPU of a machine at work: it excuses a low speed."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the record."""


def check_idle(pool: WorkerPool, devices: Sequence[Device]) -> IdleCheck:
    """Look for other processes that use the devices, and wait until idle devices have cooled down."""
    reasons = {device.uuid: "it is not known whether it was idle" for device in devices}
    busy = pool.sensor.not_idle()
    names = Names.of(devices)
    check = IdleCheck(reasons if busy is None else busy)
    check.notes = [f"{names[uuid]}, before the run: {reason}" for uuid, reason in check.disturbances.items()]
    for device in devices:
        if device.uuid in check.disturbances and not registry.vendor(device.driver).accelerator:
            check.excuses[device.uuid] = check.disturbances.pop(device.uuid)
    if not check.disturbances:
        hot = ", ".join(names[uuid] for uuid in settle(pool))
        check.notes += [f"still cooling down after {preconditions.SETTLE_SECONDS:g} s: {hot}"] if hot else []
    return check


def settle(pool: WorkerPool) -> list[str]:
    """Wait until the temperatures of all devices have stopped falling, for at most SETTLE_SECONDS.

    Returns the UUIDs of the devices that are still cooling down then.
    """
    start, step = time.monotonic(), pool.processes.settle_step
    before, hot = _temperatures(pool), list[str]()
    while before and not pool.deadline.over and (elapsed := time.monotonic() - start) < preconditions.SETTLE_SECONDS:
        time.sleep(step)
        now = _temperatures(pool)
        hot = preconditions.cooling(before, now, step)
        if not hot:
            break
        pool.progress.timed("letting the devices cool down", elapsed, preconditions.SETTLE_SECONDS)
        before = now
    pool.progress.done()
    return hot


def _temperatures(pool: WorkerPool) -> dict[str, float]:
    """Return the temperature of each device by UUID, in degrees Celsius; without devices that report none."""
    answers = pool.sensor.health() or {}
    return {uuid: float(facts["temperature_c"]) for uuid, facts in answers.items() if "temperature_c" in facts}
