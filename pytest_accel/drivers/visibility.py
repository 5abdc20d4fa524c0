"""Device visibility through environment variables: reading it, setting it for a worker, and verifying it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import Device


class Visibility:
    """The variables of one vendor. Here there are none: every process sees all devices.

    A vendor whose runtime knows such variables derives a class from this one.
    """

    variables: tuple[str, ...] = ()
    """Variables that name the visible devices, as `narrowing` reads them."""

    def narrowing(self, devices: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:  # noqa: ARG002
        """Return the entries of each environment variable that narrows the visible devices, by variable.

        An entry is the index, the name or the beginning of the UUID of a device.
        """
        return {name: entries(environment[name]) for name in self.variables if name in environment}

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:  # noqa: ARG002
        """Return the environment of a worker that sees only these devices, in this order.

        A variable that the worker must not inherit is None.
        """
        return {}

    def unselectable(self, group: Sequence[Device]) -> str | None:  # noqa: ARG002
        """Return why a process cannot be made to open exactly these devices, or None if it can."""
        return None

    def mistaken(self, properties: Any, device: Device) -> str | None:
        """Return the identity of the device that torch opened (`properties`) if it is not `device`, else None.

        The PCI address and the product's PCI id are compared, as far as torch reports them.
        """
        product = getattr(properties, "device_id", None)
        product_id = f"{product:04x}" if isinstance(product, int) else ""
        pairs = (
            (address_of(properties), bus_address(device)),
            (product_id, str(device.pci_id or "").partition(":")[2]),
        )
        return next((actual for actual, expected in pairs if actual and expected and actual != expected), None)


def verified(properties: Any, device: Device) -> bool:
    """Return True if torch reports the PCI address of the device that it opened, and it is this device's."""
    address = address_of(properties)
    return bool(address) and address == bus_address(device)


def entries(text: str) -> list[str]:
    """Split the value of a variable at its commas."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def indices(group: Sequence[Device]) -> str:
    """Return the indices of the devices as the value of a variable."""
    return ",".join(str(device.index) for device in group)


def bus_address(device: Device) -> str:
    """Return the PCI address of a device without its function: "0000:0c:00"."""
    return str(device.pci_address).rpartition(".")[0]


def address_of(properties: Any) -> str:
    """Return the PCI address that newer versions of torch report, such as "0000:0c:00"; else an empty text."""
    names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
    numbers = [getattr(properties, name, None) for name in names]
    if not all(isinstance(number, int) for number in numbers):
        return ""
    domain, bus, slot = numbers
    return f"{domain:04x}:{bus:02x}:{slot:02x}"
