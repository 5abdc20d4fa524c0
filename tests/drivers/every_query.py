"""All that a driver is ever asked for, at once, and a pynvml that knows no library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import Driver, DriverProblem, pci


def forget_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take from pynvml what it keeps of a library, and every PCI device from the machine."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pci, "DEVICES", Path("/nowhere"))


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
