"""NVIDIA GPUs through NVML (`pynvml`, from the package nvidia-ml-py).

Every call may be missing in an old library, unsupported by the part or forbidden to the user: that is an answer,
and the figure is left out. Only a lost GPU is an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_accel.drivers import DriverProblem, Reading
from pytest_accel.drivers.cpu import parse_cpus
from pytest_accel.measurement import Device

IDLE_MEMORY_BYTES = 1 << 30
IDLE_UTILISATION = 5
"""Percent of the time that kernels ran."""
BUSY_READINGS = 3
"""Readings, half a second apart, that have to agree: without persistence mode the first shows the driver's start."""

COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}

_SLOWDOWN_FIELDS: tuple[tuple[tuple[int, int], tuple[int, ...]], ...] = (
    ((580, 82), (269, 270, 271)),
    ((580, 66), ()),  # somewhere in between they moved
    ((575, 0), (251, 252, 253)),
)
"""Ids of the nanosecond counters for software thermal, hardware thermal and power brake, from which driver on.

They moved within release 580 (nvidia-ml-py 12.575.51 and 13.580.65 have 251, 13.580.82 and later have 269, and
power smoothing where the other has these), so the ids of the installed pynvml may be something else's.
"""


class NvidiaDriver:
    """One NVML session. `problems` are the GPUs that it counts and that do not answer."""

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError:
            raise DriverProblem("pynvml cannot be imported: pip install nvidia-ml-py") from None
        self._nvml: Any = pynvml
        self._handles: dict[str, Any] = {}
        self._driver = ""
        self.problems: list[str] = []

    def discover(self) -> list[Device]:
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise DriverProblem(f"NVML cannot be used: {error} ({_remedy(nvml, error)})") from None
        self._driver = self._ask(nvml.nvmlSystemGetDriverVersion) or ""
        devices, self.problems = [], []
        for index in range(count):
            try:
                devices.append(self._device(index))
            except DriverProblem as problem:
                self.problems.append(str(problem))
        if self.problems and not devices:
            raise DriverProblem("; ".join(self.problems))
        return devices

    def _device(self, index: int) -> Device:
        """Identity and facts. Raises DriverProblem for a GPU that is lost, which must not take the others with it."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            return self._identify(index, handle, nvml.nvmlDeviceGetUUID(handle))
        except (nvml.NVMLError, DriverProblem) as error:
            raise DriverProblem(f"GPU {index} does not answer: {error}") from None

    def _identify(self, index: int, handle: Any, uuid: str) -> Device:
        nvml, ask = self._nvml, self._ask
        self._handles[uuid] = handle
        pci = ask(nvml.nvmlDeviceGetPciInfo, handle)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        address = _text(pci.busId).lower()[-12:] if pci else None
        ids = f"{pci.pciDeviceId & 0xFFFF:04x}:{pci.pciDeviceId >> 16:04x}" if pci else None
        return Device(
            uuid=uuid,
            index=index,
            driver="nvidia",
            model=ask(nvml.nvmlDeviceGetName, handle) or "",
            memory_bytes=memory.total if memory else 0,
            serial=ask(nvml.nvmlDeviceGetSerial, handle),
            pci_id=ids,
            pci_address=address,
            numa_node=_sysfs_int(address, "numa_node"),
            cpus=_near_cpus(address),
            facts=self._facts(handle),
        )

    def _facts(self, handle: Any) -> dict[str, Any]:
        nvml, ask = self._nvml, self._ask
        mig = ask(nvml.nvmlDeviceGetMigMode, handle)
        found = {
            "driver": self._driver or None,
            "vbios": ask(nvml.nvmlDeviceGetVbiosVersion, handle),
            "power_limit_w": _scaled(ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1e-3),
            "pcie_gen_max": ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "pcie_width_max": ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
            "mig": None if mig is None else bool(mig[0]),
            "compute_mode": COMPUTE_MODES.get(ask(nvml.nvmlDeviceGetComputeMode, handle)),
            "clock_max_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        }
        return {key: value for key, value in found.items() if value is not None}

    def idle(self, device: Device) -> str | None:
        nvml, handle = self._nvml, self._handles[device.uuid]
        used = self._used(handle)
        busy = self._busy(handle)
        processes = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
        names = ", ".join(f"pid {each.pid}" for each in processes) or "no process that can be seen from here"
        if used is not None and used > IDLE_MEMORY_BYTES:
            return f"{used / 1e9:.1f} GB of its memory is in use ({names})"
        if busy is not None and busy > IDLE_UTILISATION:
            return f"it is {busy} % busy ({names})"
        return None

    def _busy(self, handle: Any) -> int | None:
        """Percent of the time that kernels ran, the least of a few readings."""
        least: int | None = None
        for reading in range(BUSY_READINGS):
            time.sleep(0.5 if reading else 0.0)
            rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates, handle)
            if rates is None:
                return least
            least = min(rates.gpu, 100 if least is None else least)
            if least <= IDLE_UTILISATION:
                break
        return least

    def _used(self, handle: Any) -> int | None:
        """Bytes in use without what the driver reserves for itself, where NVML tells them apart."""
        nvml = self._nvml
        version = getattr(nvml, "nvmlMemory_v2", None)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle, version) if version else None
        memory = memory or self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        return None if memory is None else int(memory.used)

    def read(self, device: Device) -> Reading:
        nvml, handle, ask = self._nvml, self._handles[device.uuid], self._ask
        found = {
            "clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "power_w": _scaled(ask(nvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
            "energy_j": _scaled(ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle), 1e-3),
            "temperature_c": ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "margin_c": self._margin(handle),
            "reasons": self._reasons(handle),
            "pcie_gen": ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "pcie_width": ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            **self._fields(handle),
        }
        return {key: value for key, value in found.items() if value is not None}

    def _margin(self, handle: Any) -> float | None:
        call = getattr(self._nvml, "nvmlDeviceGetMarginTemperature", None)
        found = self._ask(call, handle) if call else None
        return getattr(found, "marginTemperature", found)

    def _reasons(self, handle: Any) -> int | None:
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            call = getattr(self._nvml, name, None)
            found = self._ask(call, handle) if call else None
            if found is not None:
                return int(found)
        return None

    def _fields(self, handle: Any) -> dict[str, float]:
        """Memory temperature, and the seconds spent in each throttle reason since the driver was loaded."""
        nvml = self._nvml
        wanted = {"memory_temperature_c": (nvml.NVML_FI_DEV_MEMORY_TEMP, 1.0)}
        wanted["sw_power_cap_s"] = (nvml.NVML_FI_DEV_PERF_POLICY_POWER, 1e-9)
        names = ("sw_thermal_s", "hw_thermal_s", "hw_power_brake_s")
        wanted.update({name: (field, 1e-9) for name, field in zip(names, _slowdown_fields(self._driver), strict=False)})
        answers = self._ask(nvml.nvmlDeviceGetFieldValues, handle, [field for field, _ in wanted.values()])
        found = {}
        for (name, (_, scale)), answer in zip(wanted.items(), answers or [], strict=False):
            if answer.nvmlReturn == nvml.NVML_SUCCESS:
                found[name] = _field_value(nvml, answer) * scale
        return found

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where there is none to be had. Raises DriverProblem for a lost GPU."""
        nvml = self._nvml
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
                raise DriverProblem(f"{error}") from None
            return None
        except (AttributeError, TypeError, getattr(nvml, "NVMLLibraryMismatchError", TypeError)):
            return None  # pynvml or the library is too old, and says so in one of these ways


def _slowdown_fields(driver: str) -> tuple[int, ...]:
    """The ids of this driver ("580.95.05"); none before 575, which had no such counters."""
    version = tuple(int(part) if part.isdigit() else 0 for part in driver.split(".")[:2])
    return next((fields for since, fields in _SLOWDOWN_FIELDS if version >= since), ())


def _field_value(nvml: Any, answer: Any) -> float:
    kinds = {
        nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        getattr(nvml, "NVML_VALUE_TYPE_SIGNED_INT", 5): "siVal",
        getattr(nvml, "NVML_VALUE_TYPE_UNSIGNED_SHORT", 6): "usVal",
    }
    return float(getattr(answer.value, kinds.get(answer.valueType, "ullVal")))


def _remedy(nvml: Any, error: Any) -> str:
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "libnvidia-ml.so.1 is missing: install the NVIDIA driver, or give the container the GPU"
    if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "the kernel module is not loaded: modprobe nvidia, then look at dmesg"
    if error.value == getattr(nvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18):
        return "library and kernel module have different versions: reboot after the driver update"
    return "nvidia-smi should fail in the same way"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _sysfs(address: str | None, name: str) -> str | None:
    try:
        return (Path("/sys/bus/pci/devices") / str(address) / name).read_text().strip()
    except OSError:
        return None


def _sysfs_int(address: str | None, name: str) -> int | None:
    text = _sysfs(address, name)
    return int(text) if text and int(text) >= 0 else None


def _near_cpus(address: str | None) -> tuple[int, ...]:
    """The CPUs of the device's NUMA node that this process may use; all that it may use if none is near."""
    allowed = os.sched_getaffinity(0)
    near = set(parse_cpus(_sysfs(address, "local_cpulist") or "")) & allowed
    return tuple(sorted(near or allowed))
