"""All that a driver is ever asked for, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import Driver, DriverProblem


def everything(driver: Driver) -> tuple[list[Device], list[str]]:
    """Devices and problems. Only a DriverProblem may come instead of an answer: whatever else is raised is raised."""
    try:
        devices = driver.discover()
    except DriverProblem as problem:
        return [], [str(problem)]
    problems = list(driver.problems)
    for device in devices:
        questions: tuple[Callable[[Device], Any], ...] = (driver.health, driver.read, driver.idle)
        for question in questions:
            try:
                question(device)
            except DriverProblem as problem:
                problems.append(str(problem))
    return devices, problems
