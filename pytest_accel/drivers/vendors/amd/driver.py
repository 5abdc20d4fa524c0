"""AMD GPUs through `amdsmi`, which comes with ROCm.

The modules beside this one hold tables of queries, by subject; `drivers.library_query` handles answers and refusals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import deadlines
from pytest_accel.drivers.idle import in_use
from pytest_accel.drivers.interface import Driver, DriverProblem, NoLibrary, Reading
from pytest_accel.drivers.library_query import LibraryCall, Table
from pytest_accel.drivers.vendors.amd import identity, library, links, memory, power, throttle
from pytest_accel.drivers.vendors.amd.query import SmiAsker, message_of, value

_USED: Table = {
    "used": (
        LibraryCall("amdsmi_get_gpu_memory_usage", ("AmdSmiMemoryType.VRAM",), value()),
        LibraryCall("amdsmi_get_gpu_vram_usage", read=value("vram_used", scale=2**20)),
    )
}
_BUSY: Table = {"busy": LibraryCall("amdsmi_get_gpu_activity", read=value("gfx_activity", bits=16))}

_OF_DEVICE = ("model", "serial", "memory_bytes", "pci_id", "numa_node")


class AmdDriver(Driver):
    """One session of amdsmi. `problems` has a sentence for each GPU that amdsmi lists and that does not answer."""

    def __init__(self) -> None:
        self._smi = library.load()
        self._handles: dict[str, Any] = {}
        self._throttles: dict[str, throttle.ThrottleSeconds] = {}
        self._stuck: dict[int, int] = {}
        """The reasons of heat that the GPU at each index showed when it was found cold."""
        self.problems: list[str] = []

    def discover(self) -> list[Device]:
        """Return all GPUs with their facts. Raises DriverProblem if amdsmi cannot be used or no GPU answers."""
        handles = self._list()
        questions = {index: partial(self._device, index, handle) for index, handle in enumerate(handles)}
        gpus, self.problems = deadlines.answering(questions)
        uuids = Counter(gpu.uuid for gpu in gpus)  # partitions of one GPU share it, so the PCI address is appended
        devices = [replace(gpu, uuid=f"{gpu.uuid}@{gpu.pci_address}") if uuids[gpu.uuid] > 1 else gpu for gpu in gpus]
        self._handles = {device.uuid: handles[device.index] for device in devices}
        self._throttles = {device.uuid: throttle.ThrottleSeconds() for device in devices}
        return devices

    def _list(self) -> list[Any]:
        """Return the handles of all GPUs. Raises DriverProblem if amdsmi cannot be used."""
        smi = self._smi
        try:
            smi.amdsmi_init()
            return list(smi.amdsmi_get_processor_handles())
        except smi.AmdSmiException as error:
            code = getattr(error, "err_code", None)
            raise NoLibrary(f"no AMD driver answers: {message_of(error)} ({library.remedy(code)})") from None
        except OSError as error:  # since ROCm 7.14 the library is loaded here (rocm-systems, amdsmi/CHANGELOG.md)
            raise NoLibrary(library.problem(error)) from None

    def _device(self, index: int, handle: Any) -> Device:
        """Return a GPU with identity and facts. Raises DriverProblem for one without identity or without any answer."""
        smi = self._smi
        try:
            address = str(smi.amdsmi_get_gpu_device_bdf(handle)).lower()
            uuid = str(smi.amdsmi_get_gpu_device_uuid(handle))
        except (smi.AmdSmiException, ValueError) as error:
            raise DriverProblem(message_of(error)) from None
        asker = SmiAsker(smi, handle)
        for table in (identity.PRODUCT, identity.POSITION, identity.FIRMWARE, identity.SETTINGS, power.LIMITS):
            asker.ask(table)
        asker.facts["visible_as"] = identity.visible_as(asker.facts)
        self._add_health(asker)
        _raise_if_silent(asker)
        self._stuck[index] = SmiAsker(smi, handle).ask(throttle.STUCK).get("stuck", 0)
        mode = asker.facts.get("virtualization", "none")
        asker.add_path(address, "" if mode in ("none", "host") else mode)
        return asker.device(uuid, index, address, driver="amd", of_device=_OF_DEVICE)

    def health(self, device: Device) -> Mapping[str, Any]:
        """Return the current values of the facts that may change while the node runs.

        Raises DriverProblem for a GPU that answers nothing.
        """
        asker = self._asker(device)
        self._add_health(asker)
        _raise_if_silent(asker)
        return asker.sheet()

    @staticmethod
    def _add_health(asker: SmiAsker) -> None:
        for table in (memory.ERRORS, memory.REPAIRS, links.PCIE, links.XGMI, power.PROCESSES, power.READING):
            asker.ask(table)
        for table in (identity.FIRMWARE, identity.CHANGING, power.CHANGING, throttle.NOW):
            asker.ask(table)
        memory.blocks(asker)

    def idle(self, device: Device) -> str | None:
        """Return why the GPU is not idle, or None if it is. Raises DriverProblem for a GPU that answers nothing."""
        asker = self._asker(device)
        used, processes = asker.ask(_USED).get("used"), asker.ask(power.PROCESSES).get("processes")
        busy = in_use(used, lambda: self._asker(device).ask(_BUSY).get("busy"), processes)
        _raise_if_silent(asker)
        return busy

    def read(self, device: Device) -> Reading:
        """Return one telemetry reading: clocks, power, temperatures, throttling.

        Raises DriverProblem for a GPU that answers nothing.
        """
        asker = self._asker(device)
        reading = asker.ask({**power.READING, **links.NOW})
        seconds = self._throttles[device.uuid].seconds(asker.ask(throttle.COUNTS))
        reasons = {} if seconds else asker.ask(throttle.SAMPLED)
        if "reasons" in reasons:
            reasons["reasons"] &= ~self._stuck[device.index]
        _raise_if_silent(asker)
        return {**reading, **seconds, **reasons}

    def _asker(self, device: Device) -> SmiAsker:
        return SmiAsker(self._smi, self._handles[device.uuid])


def _raise_if_silent(asker: SmiAsker) -> None:
    if asker.silent:
        raise DriverProblem(f"it answers nothing: {asker.silent}")
