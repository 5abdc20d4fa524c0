"""The interface between the sensor and a driver: its methods, its answers and its exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_accel.core.measurement import Device

Reading = Mapping[str, float]


class DriverProblem(Exception):
    """The library cannot be used; the text names what is missing and what to do."""


class NoAnswer(DriverProblem):
    """The library said nothing in time, or nothing that we understand: the state of the device is unknown."""


class NoLibrary(DriverProblem):
    """The management library cannot be used at all, for any device. In a container it may simply not be there."""


class NoDriver(DriverProblem):
    """There is no usable driver for such devices, which says nothing about the devices themselves."""


@dataclass(frozen=True)
class Hint:
    """An accelerator that the machine shows without any library.

    `driver` is the name of its vendor. It has an address on the PCI bus ("0000:17:00.0") or a node ("/dev/nvidia0").
    """

    driver: str
    pci: str = ""
    node: str = ""

    @property
    def where(self) -> str:
        """Address in words: "PCI 0000:17:00.0", or the path of the node."""
        return f"PCI {self.pci}" if self.pci else self.node


class Driver(Protocol):
    """One vendor's management library. Its methods are called in the sensor process only: any call may block.

    A class that derives from this one has to define `discover` and `read`. A driver that hears of errors as they
    happen also has a method `events`, see `pytest_accel.drivers.vendors.nvidia.driver`.
    """

    problems: Sequence[str] = ()
    """Devices that `discover` found and could not use, one sentence each. They make `inventory.driver` FAIL."""
    needs: Sequence[str] = ()
    """Things that the driver lacks to state all facts, one sentence each. They leave `inventory.driver` UNMEASURED."""

    def discover(self) -> list[Device]:
        """Return every device, including those that the environment hides from this process. Raises DriverProblem."""
        ...

    def read(self, device: Device) -> Reading:
        """Return clocks, power, temperature and counters now, without those that the device does not state."""
        ...

    def idle(self, device: Device) -> str | None:  # noqa: ARG002  the protocol's signature
        """Return the reason why the device is not idle (it holds memory or computes), or None.

        A driver that cannot tell keeps this default: a shortfall is then INCONCLUSIVE and rejects nobody.
        """
        return "its driver does not tell whether it was idle"

    def health(self, device: Device) -> Mapping[str, Any]:  # noqa: ARG002  the protocol's signature
        """Return the present values of the facts that may change while the node runs.

        A fact that cannot be read goes under `unread`: {name: reason}.
        """
        return {}

    def health_without_links(self, device: Device) -> Mapping[str, Any]:
        """Return what `health` returns, without the facts of the links between devices if these take long to read.

        It is asked for after probes that do not use these links.
        """
        return self.health(device)
