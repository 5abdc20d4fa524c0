"""Devices of vendors whose management library is not driven here: what the kernel shows of them on the PCI bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import EVERYTHING_ELSE, Device
from pytest_accel.drivers import pci
from pytest_accel.drivers.host.host_environment import host_environment, pseudonym
from pytest_accel.drivers.interface import Driver, Hint, NoDriver, Reading


class PciOnlyDriver(Driver):
    """Identity and address from /sys/bus/pci. Nothing is known of health, use, power or clocks, and that is said."""

    def __init__(
        self,
        title: str,
        hints: Sequence[Hint],
        *,
        library: str,
        tiles: Mapping[str, int] | None = None,
        why_no_link: str | None = None,
    ) -> None:
        """Raise NoDriver where only nodes in /dev show the devices: they have no identity that would last.

        `title` names the devices, `library` is the one that would state health, power and use, `tiles` the PCI ids
        of cards that are several devices to torch, `why_no_link` the reason why the function's registers do not speak
        of the link to the host.
        """
        self._tiles, self._no_link = tiles or {}, why_no_link
        self._hints = sorted((hint for hint in hints if hint.pci), key=lambda hint: hint.pci)
        if not self._hints:
            raise NoDriver(f"pytest_accel has no driver for {title} devices yet, and the PCI bus shows none here")
        self.need = f"pytest_accel does not drive {library}, which alone states it"
        self.needs = [f"pytest_accel does not drive {library}: {title} devices are known by the PCI bus alone"]

    def discover(self) -> list[Device]:
        """Return the devices in the order of their PCI addresses; each tile of a card is a device."""
        devices: list[Device] = []
        for hint in self._hints:
            address = hint.pci
            pci_id = pci.identity(address, "")
            tiles = self._tiles.get(str(pci_id), 1)
            for tile in range(tiles):
                uuid = f"PCI-{pseudonym()}-{address}" + (f"-tile{tile}" if tiles > 1 else "")
                device = Device(
                    uuid=uuid,
                    index=len(devices),
                    driver=hint.driver,
                    model="",
                    pci_id=pci_id,
                    pci_address=address,
                    numa_node=pci.numa_node(address),
                    cpus=pci.near_cpus(address),
                    facts=self._facts(address),
                )
                devices.append(device)
        return devices

    def _facts(self, address: str) -> dict[str, Any]:
        facts = {
            "pci_subsystem": pci.identity(address, "subsystem_"),
            "kernel_driver": pci.kernel_driver(address),
            "module_id": pci.read(address, "module_id") or None,
            "sole": len(self._hints) == 1 or None,
            **self._link(address),
        }
        return {**{name: value for name, value in facts.items() if value is not None}, **self._unread(address)}

    def _link(self, address: str) -> dict[str, Any]:
        """Return width and generation of the link to the host, if the registers of the function describe that link."""
        path = pci.path(address)
        if self._why_no_link() or not path:
            return {}
        names = {"gen": "pcie_gen", "gen_max": "pcie_gen_max", "width": "pcie_width", "width_max": "pcie_width_max"}
        return {"pcie_path": path, **{names[key]: value for key, value in path[0].items() if key in names}}

    def _why_no_link(self) -> str | None:
        if self._no_link:
            return self._no_link
        kind = host_environment().machine
        return f"the bridges of a virtual machine are emulated ({kind})" if kind else None

    def _unread(self, address: str) -> dict[str, Any]:
        reason = self._why_no_link() or (None if pci.path(address) else "/sys/bus/pci does not show its link")
        links = dict.fromkeys(("pcie_path", "pcie_gen_max", "pcie_width", "pcie_width_max"), reason) if reason else {}
        return {"unread": {**links, EVERYTHING_ELSE: self.need}}

    def idle(self, device: Device) -> str | None:  # noqa: ARG002  the protocol's signature
        """Return a sentence: whether the device is idle cannot be read from the PCI bus."""
        return f"whether it was idle is not known: {self.need}"

    def health(self, device: Device) -> dict[str, Any]:
        """Return the facts that cannot be read, each with the reason; the PCI bus states no health."""
        return self._unread(str(device.pci_address))

    def read(self, device: Device) -> Reading:  # noqa: ARG002  the protocol's signature
        """Return an empty reading: the PCI bus has no telemetry."""
        return {}
