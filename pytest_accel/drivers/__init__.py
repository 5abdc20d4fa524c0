"""Adapters to the management libraries, called in the sensor process only: any call may block for ever.

The tables beside them (Xids, kernel messages) are imported where they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_accel.core.measurement import Device

Reading = Mapping[str, float]


class DriverProblem(Exception):
    """The library cannot be used; the text names what is missing and what to do."""


class NoAnswer(DriverProblem):
    """The library said nothing in time, or nothing that we understand: no word on the device."""


class NoDriver(DriverProblem):
    """We have no driver for such devices: a lack of ours, which says nothing about them."""


class Driver(Protocol):
    """One vendor's management library."""

    problems: list[str]
    """Devices that `discover` found and could not use, a sentence each."""

    def discover(self) -> list[Device]:
        """Every device, whatever CUDA_VISIBLE_DEVICES says. Raises DriverProblem."""

    def idle(self, device: Device) -> str | None:
        """Why the device is not idle (it holds memory or computes), or None."""

    def health(self, device: Device) -> Mapping[str, Any]:
        """The facts that may change while the node runs, now, with `unread` as in `discover`."""

    def read(self, device: Device) -> Reading:
        """Clocks, power, temperature, counters now; what this device cannot say is left out."""


@dataclass(frozen=True)
class Hint:
    """An accelerator that the machine shows without any library."""

    driver: str
    where: str
