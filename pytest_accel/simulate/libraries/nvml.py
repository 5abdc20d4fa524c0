"""A simulated libnvidia-ml below the real pynvml, so that the driver runs unchanged.

The answers of a GPU are data that may change while it runs, since a fault that begins later changes them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pynvml
import yaml

from pytest_accel.simulate.libraries import write

HOPPER = Path(__file__).with_name("hopper.yaml")
"""Answers of an idle Hopper GPU of which nothing depends on its place in the node."""
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
LOST = -1
"""Stands for a GPU in `NvmlLibrary.xids`: waiting for events reports that a GPU is lost."""
NEW_IDS = (269, 270, 271)
"""Field ids of the throttle counters from driver 580.82 on."""


@dataclass
class NvmlGpu:
    """One GPU of the simulated library, with the answers of its functions and its field values.

    An answer is a number, several numbers, a text (bytes), a mapping from the arguments to one of these, or a function
    that is called with the arguments of the library function and may return a status. A function without an answer is
    not supported. A field, by id or by (id, scope), is its NVML_VALUE_TYPE and a number, or a function that returns the
    number.
    """

    answers: dict[str, Any]
    fields: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    lost: bool = False
    refuses: int = 0
    """Status of every function except nvmlDeviceGetUUID; 0 for the answers."""

    def field_values(self, _handle: Any, count: Any, values: Any) -> None:
        """Fill in the requested fields."""
        for value in values._obj[: count.value]:
            entry = self.fields.get((value.fieldId, value.scopeId), self.fields.get(value.fieldId))
            value.nvmlReturn = NOT_SUPPORTED if entry is None else 0
            kind, number = entry or (0, 0.0)
            number = number() if callable(number) else number
            value.valueType = kind
            name = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}[kind]
            setattr(value.value, name, number if kind == 0 else int(number))


class NvmlLibrary:
    """The object that pynvml uses as the loaded library: its functions fill their output arguments and return a status.

    `init` is the status of nvmlInit, or gives it; `lacks` are functions that this version of the library lacks.
    """

    def __init__(
        self,
        gpus: list[NvmlGpu],
        driver: str = "580.95.05",
        init: int | Callable[[], int] = 0,
        lacks: tuple[str, ...] = (),
    ) -> None:
        self.gpus, self.driver, self.init, self.lacks = gpus, driver, init, lacks
        self.system: dict[str, Any] = {
            "nvmlSystemGetCudaDriverVersion": 13000,
            "nvmlSystemGetNVMLVersion": b"13.580.95.05",
            "nvmlSystemGetConfComputeState": fills(ccFeature=0),
        }
        """Answers of the functions that take no GPU."""
        self.xids: list[tuple[int, int]] = []
        """Xids to report, as (index of the GPU or LOST, number)."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("_") or name in self.lacks:
            raise AttributeError(name)
        return lambda *arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "nvmlErrorString":
            return f"error {arguments[0]} of the simulated library".encode()
        if name == "nvmlInitWithFlags":
            return self.init() if callable(self.init) else self.init
        if name == "nvmlDeviceGetCount_v2":
            arguments[0]._obj.value = len(self.gpus)
            return 0
        if name == "nvmlSystemGetDriverVersion":
            arguments[0].value = self.driver.encode()
            return 0
        if name == "nvmlDeviceGetHandleByIndex_v2":
            handle = ctypes.c_void_p(arguments[0].value + 1)
            ctypes.memmove(arguments[1], ctypes.byref(handle), ctypes.sizeof(handle))
            return pynvml.NVML_ERROR_GPU_IS_LOST if self.gpu(arguments[0].value).lost else 0
        if name.startswith("nvmlEventSet"):
            return self._event(name, arguments)
        if name.startswith("nvmlSystem"):
            return _answer(self.system.get(name), arguments)
        gpu = self._gpu(arguments[0])
        if gpu.lost:
            return int(pynvml.NVML_ERROR_GPU_IS_LOST)
        if gpu.refuses and name != "nvmlDeviceGetUUID":
            return gpu.refuses
        if name == "nvmlDeviceGetFieldValues":
            gpu.field_values(*arguments)
            return 0
        return _answer(gpu.answers.get(name), arguments)

    def _gpu(self, handle: Any) -> NvmlGpu:
        index = (ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1
        return self.gpu(index % len(self.gpus))  # a GPU may have several handles

    def gpu(self, index: int) -> NvmlGpu:
        """Return a GPU."""
        return self.gpus[index]

    def _event(self, name: str, arguments: tuple[Any, ...]) -> int:
        """Report the next entry of `xids`, and remove it."""
        if name != "nvmlEventSetWait_v2":
            return 0
        if not self.xids:
            time.sleep(0.02)
            return int(pynvml.NVML_ERROR_TIMEOUT)
        index, number = self.xids.pop(0)
        if index == LOST:
            return int(pynvml.NVML_ERROR_GPU_IS_LOST)
        data, handle = arguments[1]._obj, ctypes.c_void_p(index + 1)
        ctypes.memmove(ctypes.addressof(data) + type(data).device.offset, ctypes.byref(handle), ctypes.sizeof(handle))
        data.eventType, data.eventData = pynvml.nvmlEventTypeXidCriticalError, number
        return 0


def _answer(answer: Any, arguments: tuple[Any, ...]) -> int:
    """Write an answer to the output arguments and return the status."""
    if isinstance(answer, dict):
        return _answer(answer.get(_inputs(arguments)), arguments)
    if answer is None:
        return int(NOT_SUPPORTED)
    return write(answer, arguments)


def _inputs(arguments: tuple[Any, ...]) -> Any:
    """Return the numbers between the handle and the output arguments: one number, or several as a tuple."""
    numbers = []
    for argument in arguments[1:]:
        if hasattr(argument, "_obj") or isinstance(argument, ctypes.Array):
            break
        numbers.append(getattr(argument, "value", argument))
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def fills(**values: Any) -> Callable[..., None]:
    """Return a function that fills the struct that its last argument refers to."""

    def fill(*arguments: Any) -> None:
        for name, value in values.items():
            setattr(arguments[-1]._obj, name, value)

    return fill


def clocks(sm: int, memory: int) -> dict[int, int]:
    """Return the answers for each kind of clock, in MHz."""
    return {pynvml.NVML_CLOCK_SM: sm, pynvml.NVML_CLOCK_MEM: memory}


def fabric(newest: int = 3, **values: Any) -> Callable[..., int]:
    """Return a function that fills in the fabric state of a healthy node, with these values instead.

    `newest` is the newest version of the struct that the library supports.
    """
    versions = (0x02000024, 0x03000028)[: newest - 1]
    cluster = values.pop("clusterUuid", bytes(range(16)))
    healthy = {"state": 3, "status": 0, "cliqueId": 1, "healthMask": 0x1AA, "healthSummary": 1, **values}

    def fill(*arguments: Any) -> int:
        struct = arguments[-1]._obj
        if hasattr(struct, "version") and struct.version not in versions:
            return int(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        for name, value in healthy.items():
            if hasattr(struct, name):
                setattr(struct, name, value)
        struct.clusterUuid[:] = cluster
        return 0

    return fill


def processes(*pids: int, memory: int = 0) -> Callable[..., int]:
    """Return a function that lists processes, each of which uses `memory` bytes."""

    def fill(_handle: Any, count: Any, array: Any) -> int:
        if pids and array is None:
            count._obj.value = len(pids)
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        count._obj.value = len(pids)
        for entry, pid in zip(array or (), pids, strict=False):
            entry.pid, entry.usedGpuMemory = pid, memory
        return 0

    return fill


def h200(slot: int = 0, **answers: Any) -> NvmlGpu:
    """Return an idle H200 of a healthy node of eight, as NVML reports it."""
    gpu = _hopper(slot, b"NVIDIA H200", 0x233510DE, 150754820096)
    gpu.answers.update(answers)
    return gpu


def h100(slot: int = 0, **answers: Any) -> NvmlGpu:
    """Return an idle H100 SXM of a healthy node of eight, as NVML reports it."""
    gpu = _hopper(slot, b"NVIDIA H100 80GB HBM3", 0x233010DE, 85520809984)
    gpu.answers["nvmlDeviceGetRowRemapperHistogram"] = fills(max=2560)
    gpu.answers["nvmlDeviceGetMemoryBusWidth"] = 5120
    gpu.answers.update(answers)
    return gpu


def _hopper(slot: int, name: bytes, pci: int, memory: int) -> NvmlGpu:
    """Return an idle Hopper GPU with this name, PCI id and memory in bytes, and a serial number of no real board."""
    idle = {name: _value_of(answer) for name, answer in yaml.safe_load(HOPPER.read_text(encoding="utf-8")).items()}
    links, switch, version = range(18), pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_VERSION_4_0
    address = f"00000000:{0x1A + slot:02X}:00.0".encode()
    tray = {"chassisSerialNumber": b"1820224000123", "slotNumber": bytes([slot]), "trayIndex": bytes([0])}
    idle |= {
        "nvmlDeviceGetUUID": f"GPU-8932f937-d72c-4106-c12f-20bd9faed9f{slot}".encode(),
        "nvmlDeviceGetName": name,
        "nvmlDeviceGetSerial": f"165352400123{slot}".encode(),
        "nvmlDeviceGetPciInfo_v3": fills(busId=address, pciDeviceId=pci, pciSubSystemId=0x16C110DE),
        "nvmlDeviceGetMemoryInfo": fills(total=memory, used=700 << 20),
        "nvmlDeviceGetMemoryInfo_v2": fills(total=memory, reserved=697 << 20, used=3 << 20),
        "nvmlDeviceGetModuleId": slot + 1,
        "nvmlDeviceGetPlatformInfo": fills(**tray),
        "nvmlDeviceGetInforomVersion": {pynvml.NVML_INFOROM_ECC: b"7.16"},
        "nvmlDeviceGetTotalEccErrors": dict.fromkeys(product((0, 1), (0, 1)), 0),
        "nvmlDeviceGetMemoryErrorCounter": dict.fromkeys(product((0, 1), (0, 1), (2, 7)), 0),
        "nvmlDeviceGetComputeRunningProcesses_v3": processes(),
        "nvmlDeviceGetNvLinkState": dict.fromkeys(links, 1),
        "nvmlDeviceGetNvLinkVersion": dict.fromkeys(links, version),
        "nvmlDeviceGetNvLinkRemoteDeviceType": dict.fromkeys(links, switch),
        "nvmlDeviceGetNvLinkErrorCounter": dict.fromkeys(product(links, range(3)), 0),
        "nvmlDeviceGetGpuFabricInfoV": fabric(),
        "nvmlDeviceGetMaxClockInfo": clocks(1980, 3201),
        "nvmlDeviceGetClockInfo": clocks(1410, 3201),
        "nvmlDeviceGetClock": {(1, 1): 1980, (1, 2): 1980},
        "nvmlDeviceRegisterEvents": lambda *arguments: 0,
    }
    return NvmlGpu(idle, _fields())


def _value_of(answer: Any) -> Any:
    """Return an answer of the file as a GPU has it: a text is bytes, a list several numbers, a mapping a struct."""
    if isinstance(answer, dict):
        return fills(**{name: _value_of(value) for name, value in answer.items()})
    if isinstance(answer, list):
        return tuple(answer)
    return answer.encode() if isinstance(answer, str) else answer


def _fields() -> dict[Any, tuple[int, Any]]:
    """Return the field values by id. A number without a type of its own is an unsigned int."""
    names = {
        "MEMORY_TEMP": 70,
        "NVLINK_LINK_COUNT": 18,
        "NVLINK_GET_STATE": 1,
        "NVLINK_GET_VERSION": 6,
        "NVLINK_GET_SPEED": 26562,
        "NVLINK_ERROR_DL_REPLAY": 0,
        "NVLINK_ERROR_DL_RECOVERY": 0,
        "NVLINK_ERROR_DL_CRC": 0,
        "GET_GPU_RECOVERY_ACTION": 0,
        "PCIE_COUNT_CORRECTABLE_ERRORS": 0,
        "PCIE_COUNT_FATAL_ERROR": 0,
    }
    margins = {"SHUTDOWN": -8, "SLOWDOWN": -2, "GPU_MAX": 0, "MEM_MAX": 0}
    return {
        **{getattr(pynvml, f"NVML_FI_DEV_{name}"): (1, value) for name, value in names.items()},
        **{getattr(pynvml, f"NVML_FI_DEV_TEMPERATURE_{name}_TLIMIT"): (5, margin) for name, margin in margins.items()},
        74: (3, 1.5e9),
        **dict(zip(NEW_IDS, [(3, 2e9), (3, 3e6), (3, 4e6)], strict=True)),
    }


def install(library: NvmlLibrary | None) -> None:
    """Make `library` the one that pynvml has loaded; None for none. Call it before nvmlInit."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()  # it caches the functions of the previous library
