"""AMD GPUs through `amdsmi`, which comes with ROCm.

What is asked stands in tables, by subject; how an answer, or none, is taken stands in `drivers.query`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import deadlines, pci
from pytest_accel.drivers.idle import in_use
from pytest_accel.drivers.interface import Driver, DriverProblem, Reading
from pytest_accel.drivers.query import LibraryCall, Table
from pytest_accel.drivers.vendors.amd import identity, library, links, memory, power, throttle
from pytest_accel.drivers.vendors.amd.query import SmiAsker, said, value

_USED: Table = {
    "used": (
        LibraryCall("amdsmi_get_gpu_memory_usage", ("AmdSmiMemoryType.VRAM",), value()),
        LibraryCall("amdsmi_get_gpu_vram_usage", read=value("vram_used", scale=2**20)),
    )
}
_BUSY: Table = {"busy": LibraryCall("amdsmi_get_gpu_activity", read=value("gfx_activity", bits=16))}


class AmdDriver(Driver):
    """One session of amdsmi. `problems` are the GPUs that it lists and that do not answer."""

    def __init__(self) -> None:
        self._smi = library.load()
        self._handles: dict[str, Any] = {}
        self._throttles: dict[str, throttle.Throttle] = {}
        self.problems: list[str] = []

    def discover(self) -> list[Device]:
        handles = self._list()
        answers = deadlines.each({index: partial(self._device, index, each) for index, each in enumerate(handles)})
        found = [each for each in answers.values() if isinstance(each, Device)]
        self.problems = [
            f"GPU {index} does not answer: {each}" for index, each in answers.items() if isinstance(each, DriverProblem)
        ]
        if self.problems and not found:
            raise DriverProblem("; ".join(self.problems))
        devices = _told_apart(found)
        self._handles = {each.uuid: handles[each.index] for each in devices}
        self._throttles = {each.uuid: throttle.Throttle() for each in devices}
        return devices

    def _list(self) -> list[Any]:
        """The handles of all GPUs. Raises DriverProblem."""
        smi = self._smi
        try:
            smi.amdsmi_init()
            return list(smi.amdsmi_get_processor_handles())
        except smi.AmdSmiException as error:
            code = getattr(error, "err_code", None)
            raise DriverProblem(f"amdsmi cannot be used: {said(error)} ({library.remedy(code)})") from None

    def _device(self, index: int, handle: Any) -> Device:
        """Identity and facts. Raises DriverProblem for a GPU that has no identity or says nothing."""
        smi = self._smi
        try:
            address = str(smi.amdsmi_get_gpu_device_bdf(handle)).lower()
            uuid = str(smi.amdsmi_get_gpu_device_uuid(handle))
        except (smi.AmdSmiException, ValueError) as error:
            raise DriverProblem(said(error)) from None
        asker = SmiAsker(smi, handle)
        for table in (identity.PRODUCT, identity.PLACE, identity.FIRMWARE, identity.SETTINGS, power.LIMITS):
            asker.ask(table)
        asker.facts["visible_as"] = identity.visible_as(asker.facts)
        self._add_health(asker)
        _raise_if_silent(asker)
        _add_path(asker, address)
        return _described(uuid, index, address, asker.sheet())

    def health(self, device: Device) -> Mapping[str, Any]:
        """The facts that may change while the node runs, now. Raises DriverProblem for a GPU that says nothing."""
        asker = self._asker(device)
        self._add_health(asker)
        _raise_if_silent(asker)
        return asker.sheet()

    @staticmethod
    def _add_health(asker: SmiAsker) -> None:
        for table in (memory.ERRORS, memory.REPAIRS, links.PCIE, links.XGMI, power.PROCESSES, power.READING):
            asker.ask(table)
        asker.ask(throttle.NOW)
        memory.blocks(asker)

    def idle(self, device: Device) -> str | None:
        asker = self._asker(device)
        used, seen = asker.ask(_USED).get("used"), asker.ask(power.PROCESSES).get("processes")
        busy = in_use(used, lambda: self._asker(device).ask(_BUSY).get("busy"), seen)
        _raise_if_silent(asker)
        return busy

    def read(self, device: Device) -> Reading:
        asker = self._asker(device)
        reading = asker.ask({**power.READING, **links.NOW})
        seconds = self._throttles[device.uuid].seconds(asker.ask(throttle.COUNTS))
        reasons = {} if seconds else asker.ask(throttle.SAMPLED)
        _raise_if_silent(asker)
        return {**reading, **seconds, **reasons}

    def _asker(self, device: Device) -> SmiAsker:
        return SmiAsker(self._smi, self._handles[device.uuid])


def _raise_if_silent(asker: SmiAsker) -> None:
    if asker.silent:
        raise DriverProblem(f"it answers nothing: {asker.silent}")


def _add_path(asker: SmiAsker, address: str) -> None:
    """The bridges above the GPU; those of a virtual machine are emulated and say nothing."""
    mode = asker.facts.get("virtualization", "none")
    if mode not in ("none", "host"):
        asker.unsupported["pcie_path"] = f"the bridges of a virtual machine are emulated ({mode})"
    elif found := pci.path(address):
        asker.facts["pcie_path"] = found
    else:
        asker.unread["pcie_path"] = "/sys/bus/pci does not show the GPU here"


def _described(uuid: str, index: int, address: str, facts: dict[str, Any]) -> Device:
    of_device = ("model", "serial", "memory_bytes", "pci_id", "numa_node")
    known = {name: facts[name] for name in of_device if name in facts}
    node = pci.numa_node(address)
    stated = known.get("numa_node", -1)
    return Device(
        uuid=uuid,
        index=index,
        driver="amd",
        model=known.get("model", ""),
        memory_bytes=known.get("memory_bytes", 0),
        serial=known.get("serial"),
        pci_id=known.get("pci_id"),
        pci_address=address,
        numa_node=node if node is not None else (stated if stated >= 0 else None),
        cpus=pci.near_cpus(address),
        facts={key: each for key, each in facts.items() if key not in of_device},
    )


def _told_apart(devices: list[Device]) -> list[Device]:
    """The parts of one GPU have its UUID; they get their PCI address behind it."""
    shared = {uuid for uuid, count in Counter(each.uuid for each in devices).items() if count > 1}
    return [replace(each, uuid=f"{each.uuid}@{each.pci_address}") if each.uuid in shared else each for each in devices]
