"""NVIDIA GPUs through NVML (`pynvml`, from the package nvidia-ml-py).

The modules beside this one hold tables of queries, by subject; `drivers.library_query` handles answers and refusals.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import deadlines
from pytest_accel.drivers.idle import in_use
from pytest_accel.drivers.interface import Driver, DriverProblem, NoLibrary, Reading
from pytest_accel.drivers.library_query import Asker, LibraryCall
from pytest_accel.drivers.vendors.nvidia import identity, links, memory, power
from pytest_accel.drivers.vendors.nvidia.query import NvmlAsker, text

MOST_RESERVED_BYTES = 1103 << 20
"""The most memory that an idle device was published to reserve for the driver: GH200 (tests/real/series/idle.csv)."""
_USED = {
    "used": (
        LibraryCall("nvmlDeviceGetMemoryInfo", ("nvmlMemory_v2",), read=lambda info: int(info.used)),
        LibraryCall("nvmlDeviceGetMemoryInfo", read=lambda info: max(0, int(info.used) - MOST_RESERVED_BYTES)),
    )
}
"""Bytes in use without those that the driver reserves for itself, which older drivers count as used."""
_BUSY = {"busy": LibraryCall("nvmlDeviceGetUtilizationRates", read=lambda rates: int(rates.gpu))}

_OF_DEVICE = ("model", "serial", "memory_bytes", "pci_address")


class NvidiaDriver(Driver):
    """One NVML session. `problems` has a sentence for each GPU that NVML counts and that does not answer."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        self._handles: dict[str, Any] = {}
        self._driver = ""
        self.problems: list[str] = []

    def discover(self) -> list[Device]:
        """Return all GPUs with their facts. Raises DriverProblem if NVML cannot be used or no GPU answers."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise NoLibrary(_problem(nvml, error)) from None
        self._driver = self._version()
        devices, self.problems = deadlines.answering({index: partial(self._device, index) for index in range(count)})
        return devices

    def _version(self) -> str:
        """Return the driver's version, which determines the fields that it has; empty if it cannot be read."""
        nvml = self._nvml
        try:
            return text(nvml.nvmlSystemGetDriverVersion())
        except (nvml.NVMLError, ValueError):
            return ""

    def _device(self, index: int) -> Device:
        """Return a GPU with identity and facts. Raises DriverProblem for a GPU that has no identity or is lost."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text(nvml.nvmlDeviceGetUUID(handle))
        except (nvml.NVMLError, ValueError) as error:
            raise DriverProblem(str(error)) from None
        asker = NvmlAsker(nvml, handle, self._driver)
        for table in (identity.PRODUCT, identity.POSITION, identity.FIRMWARE, identity.SETTINGS, power.LIMITS):
            asker.ask(table)
        asker.facts["compute_units"] = identity.compute_units(asker.facts)
        self._add_health(asker)
        if power.unnamed_slowdown(asker.facts.get("reasons")):
            time.sleep(power.CLOCK_CHANGES_S)
            repeat = NvmlAsker(nvml, handle, self._driver).ask(power.reading(self._driver))
            asker.facts["reasons"] &= repeat.get("reasons", asker.facts["reasons"])
        virtual, address = asker.facts.get("virtualization", "none"), asker.facts.get("pci_address")
        asker.add_path(address, "" if virtual == "none" else virtual, proxied=proxied())
        self._handles[uuid] = handle
        return asker.device(uuid, index, address, driver="nvidia", of_device=_OF_DEVICE)

    def health(self, device: Device) -> Mapping[str, Any]:
        """Return the current values of the facts that may change while the node runs.

        Raises DriverProblem for a lost GPU.
        """
        asker = self._asker(device)
        asker.ask(identity.FIRMWARE)
        self._add_health(asker)
        return asker.sheet()

    def health_without_links(self, device: Device) -> Mapping[str, Any]:
        """Return the values of `health` without the NVLinks, which take most of its calls. Raises as `health` does."""
        asker = self._asker(device)
        self._add_state(asker)
        return asker.sheet()

    def _add_health(self, asker: Asker) -> None:
        self._add_state(asker)
        nvlinks = links.nvlinks(asker)
        asker.facts.update({"nvlinks": nvlinks or None, **links.summary(nvlinks, asker.facts.get("nvlink_count"))})

    def _add_state(self, asker: Asker) -> None:
        for table in (memory.ERRORS, memory.REPAIRS, links.PCIE, links.FABRIC, power.PROCESSES):
            asker.ask(table)
        for table in (identity.CHANGING, power.CHANGING):
            asker.ask(table)
        asker.ask(power.reading(self._driver))

    def idle(self, device: Device) -> str | None:
        """Return why the GPU is not idle, or None if it is. Raises DriverProblem for a lost GPU."""
        answers = self._asker(device).ask({**_USED, **power.PROCESSES, **power.GRAPHICS})
        used, computing = answers.get("used"), answers.get("processes", [])
        pids = {process["pid"] for process in computing}
        drawing = [process for process in answers.get("graphics", ()) if process["pid"] not in pids]
        # Where the GPU's memory is a NUMA node of the host (GH200, GB200), the operating system manages it: file caches
        # and pages of ended processes count as used (NVML, nvmlDeviceGetMemoryInfo_v2).
        if device.facts.get("memory_numa_node", -1) >= 0:
            used = sum(process["memory_bytes"] or 0 for process in computing)
        elif used is not None:  # a desktop's programs use the GPU only if it is busy
            used -= sum(process["memory_bytes"] or 0 for process in drawing)
        return in_use(used, lambda: self._asker(device).ask(_BUSY).get("busy"), [*computing, *drawing])

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield Xids as they occur, without end; see `follow`. Raises DriverProblem if NVML reports none."""
        return follow(self._nvml, self._handles)

    def read(self, device: Device) -> Reading:
        """Return one telemetry reading: clocks, power, temperatures, throttling.

        Raises DriverProblem for a lost GPU.
        """
        return self._asker(device).ask(power.reading(self._driver))

    def _asker(self, device: Device) -> Asker:
        return NvmlAsker(self._nvml, self._handles[device.uuid], self._driver)


def proxied(root: Path = Path("/")) -> bool:
    """Return True if another kernel has the driver, to which this one passes the calls: gVisor, WSL2, some microVMs."""
    nodes = any((root / "dev" / node).exists() for node in ("nvidiactl", "dxg"))
    return nodes and not (root / "sys/module/nvidia").is_dir()


def _problem(nvml: Any, error: Any) -> str:
    """Return why NVML cannot be used, and the remedy. Its first words have to say it: `health` has no room for more."""
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "no NVIDIA driver (libnvidia-ml.so.1 is missing)"
    if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "no NVIDIA driver loaded (the kernel module is not loaded: modprobe nvidia, then check dmesg)"
    if error.value == getattr(nvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18):
        return "NVIDIA driver mismatch (library and kernel module differ: reboot after the driver update)"
    return f"no NVIDIA driver answers: {error} (nvidia-smi should fail in the same way)"


# -- follows NVML's Xid events, which need no access to the kernel log and name the GPU


WAIT_MS = 1000


def follow(nvml: Any, handles: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield Xids as they occur, without end, with `uuid` and `number`.

    A GPU that gives no events yields its `uuid` and the reason, `deaf`. Raises DriverProblem if no GPU gives events.
    """
    events, deaf = _listen(nvml, handles)
    return _events(nvml, events, handles, deaf)


def _listen(nvml: Any, handles: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return a new NVML event set, and why GPUs are not in it, by UUID. Raises DriverProblem if none is."""
    try:
        events = nvml.nvmlEventSetCreate()
    except (nvml.NVMLError, AttributeError) as error:
        raise DriverProblem(f"NVML gives no events: {error}") from None
    register = partial(partial, nvml.nvmlDeviceRegisterEvents)
    calls = {uuid: register(handle, nvml.nvmlEventTypeXidCriticalError, events) for uuid, handle in handles.items()}
    deaf = {uuid: str(answer) for uuid, answer in deadlines.ask(calls).items() if isinstance(answer, DriverProblem)}
    if len(deaf) == len(handles):
        raise DriverProblem(f"NVML gives no events: {next(iter(deaf.values()), 'no GPU answers')}")
    return events, {uuid: f"NVML gives no events for it: {reason}" for uuid, reason in deaf.items()}


def _events(nvml: Any, events: Any, handles: Mapping[str, Any], deaf: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    uuids = {_address(handle): uuid for uuid, handle in handles.items()}
    yield from _deaf_events(deaf)
    while True:
        try:
            event = nvml.nvmlEventSetWait_v2(events, WAIT_MS)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                continue
            if error.value != nvml.NVML_ERROR_GPU_IS_LOST:
                raise DriverProblem(f"NVML gives no more events: {error}") from None
            handles = {uuid: handle for uuid, handle in handles.items() if uuid not in deaf}
            events, deaf = _listen(nvml, handles)  # the other GPUs still give events
            if not deaf:
                raise DriverProblem(f"NVML gives no more events: {error}") from None
            yield from _deaf_events(deaf)
            continue
        if event.eventType == nvml.nvmlEventTypeXidCriticalError:
            uuid = uuids.get(_address(event.device)) or _uuid(nvml, event.device)
            yield {"uuid": uuid, "number": int(event.eventData)}


def _uuid(nvml: Any, handle: Any) -> str:
    """Return the UUID of a GPU whose event has another handle than discovery got, which NVML permits.

    Raises DriverProblem if NVML does not tell which GPU an Xid belongs to.
    """
    try:
        return text(nvml.nvmlDeviceGetUUID(handle))
    except (nvml.NVMLError, ValueError) as error:
        raise DriverProblem(f"NVML reported an Xid but not its GPU: {error}") from None


def _deaf_events(deaf: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    return ({"uuid": uuid, "deaf": reason} for uuid, reason in deaf.items())


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
