"""Queries on power, clocks and temperatures: settings, limits and current values."""

from __future__ import annotations

from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.drivers.library_query import LIMITS_THAT_CHANGE, Answerer, LibraryCall, Table, part, scaled
from pytest_accel.drivers.vendors.nvidia.query import Field

_SLOWDOWN_FIELDS: tuple[tuple[tuple[int, int], tuple[int, ...]], ...] = (
    ((580, 82), (269, 270, 271)),
    ((580, 66), ()),  # the ids changed in one of these versions
    ((575, 0), (251, 252, 253)),
)
"""Field ids of the nanosecond counters for software thermal, hardware thermal and power brake, by the first driver
version that has them.

They changed within release 580: nvidia-ml-py 12.575.51 and 13.580.65 have 251, 13.580.82 and later have 269, and each
uses the other's ids for power smoothing. So the ids in the installed pynvml may belong to other fields of the driver.
"""


def _process(process: Any) -> dict[str, int | None]:
    """Return pid and memory of a process; inside a container NVML may report None for either."""
    return {"pid": process.pid, "memory_bytes": process.usedGpuMemory}


def _clock(kind: str, target: str) -> tuple[Answerer, ...]:
    """Return the queries for an application clock, the newest first; that of the graphics domain is the last one."""
    # a later pynvml will drop the older ones, and drivers from 595 on call some of them deprecated
    names = {"TARGET": "nvmlDeviceGetApplicationsClock", "DEFAULT": "nvmlDeviceGetDefaultApplicationsClock"}
    return (
        LibraryCall("nvmlDeviceGetClock", (kind, f"NVML_CLOCK_ID_APP_CLOCK_{target}")),
        LibraryCall(names[target], (kind,)),
        LibraryCall("nvmlDeviceGetClock", ("NVML_CLOCK_GRAPHICS", f"NVML_CLOCK_ID_APP_CLOCK_{target}")),
    )


def _threshold(name: str) -> Answerer:
    return LibraryCall("nvmlDeviceGetTemperatureThreshold", (f"NVML_TEMPERATURE_THRESHOLD_{name}",))


LIMITS: Table = {
    "power_limit_w": LibraryCall("nvmlDeviceGetEnforcedPowerLimit", read=scaled(1e-3)),
    "power_limit_requested_w": LibraryCall("nvmlDeviceGetPowerManagementLimit", read=scaled(1e-3)),
    "power_limit_default_w": LibraryCall("nvmlDeviceGetPowerManagementDefaultLimit", read=scaled(1e-3)),
    "power_limit_min_w": LibraryCall("nvmlDeviceGetPowerManagementLimitConstraints", read=lambda pair: pair[0] * 1e-3),
    "power_limit_max_w": LibraryCall("nvmlDeviceGetPowerManagementLimitConstraints", read=lambda pair: pair[1] * 1e-3),
    "clock_max_mhz": LibraryCall("nvmlDeviceGetMaxClockInfo", ("NVML_CLOCK_SM",)),
    "memory_clock_max_mhz": LibraryCall("nvmlDeviceGetMaxClockInfo", ("NVML_CLOCK_MEM",)),
    "clock_application_mhz": _clock("NVML_CLOCK_SM", "TARGET"),
    "clock_application_default_mhz": _clock("NVML_CLOCK_SM", "DEFAULT"),
    "shutdown_c": _threshold("SHUTDOWN"),
    "slowdown_c": _threshold("SLOWDOWN"),
    "gpu_max_c": _threshold("GPU_MAX"),
    "target_c": _threshold("ACOUSTIC_CURR"),
    "memory_max_c": _threshold("MEM_MAX"),
    "shutdown_margin_c": Field("NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT"),
    "slowdown_margin_c": Field("NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT"),
    "gpu_max_margin_c": Field("NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT"),
    "memory_max_margin_c": Field("NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT"),
}
"""Temperatures are in C up to Ampere; from Hopper on also as the margin that is left when each limit is reached."""

CHANGING = part(LIMITS, (*LIMITS_THAT_CHANGE, "clock_application_mhz", "clock_application_default_mhz"))
"""The settings of power and clock that are read again while the node runs."""


def _processes(kind: str) -> LibraryCall:
    name = f"nvmlDeviceGet{kind}RunningProcesses"
    return LibraryCall(name, read=lambda processes: [_process(process) for process in processes])


PROCESSES: Table = {"processes": _processes("Compute")}
GRAPHICS: Table = {"graphics": _processes("Graphics")}
"""Processes that draw, such as those of a desktop."""


CLOCK_CHANGES_S = 1.0
"""The time after which a change of the clock is over. Chosen: the ceiling of soak.throttle.hw_slowdown."""


def unnamed_slowdown(reasons: int | None) -> bool:
    """Return True for a hardware slowdown that neither heat nor the power brake explains.

    NVML reports it for a moment while a healthy device changes its clock (nvml.h), as when discovery wakes it up.
    """
    mask = ClockEvent(reasons or 0)
    return bool(mask & ClockEvent.HW_SLOWDOWN) and not mask & (ClockEvent.HW_THERMAL | ClockEvent.HW_POWER_BRAKE)


def reading(driver: str) -> Table:
    """Return the queries of one telemetry reading for a driver version.

    Names ending in `_s` are the seconds spent under a throttle reason since the driver was loaded.
    """
    names = ("sw_thermal_s", "hw_thermal_s", "hw_power_brake_s")
    return {
        "clock_mhz": LibraryCall("nvmlDeviceGetClockInfo", ("NVML_CLOCK_SM",)),
        "memory_clock_mhz": LibraryCall("nvmlDeviceGetClockInfo", ("NVML_CLOCK_MEM",)),
        "power_w": LibraryCall("nvmlDeviceGetPowerUsage", read=scaled(1e-3)),
        "energy_j": LibraryCall("nvmlDeviceGetTotalEnergyConsumption", read=scaled(1e-3)),
        "temperature_c": (
            LibraryCall("nvmlDeviceGetTemperatureV", ("NVML_TEMPERATURE_GPU",)),
            LibraryCall("nvmlDeviceGetTemperature", ("NVML_TEMPERATURE_GPU",)),
        ),
        "margin_c": LibraryCall(
            "nvmlDeviceGetMarginTemperature", read=lambda answer: getattr(answer, "marginTemperature", answer)
        ),
        "reasons": (
            LibraryCall("nvmlDeviceGetCurrentClocksEventReasons"),
            LibraryCall("nvmlDeviceGetCurrentClocksThrottleReasons"),
        ),
        "pcie_gen": LibraryCall("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_width": LibraryCall("nvmlDeviceGetCurrPcieLinkWidth"),
        "memory_temperature_c": Field("NVML_FI_DEV_MEMORY_TEMP"),
        "sw_power_cap_s": Field("NVML_FI_DEV_PERF_POLICY_POWER", read=scaled(1e-9)),
        **{name: Field(id_, read=scaled(1e-9)) for name, id_ in zip(names, slowdown_fields(driver), strict=False)},
    }


def slowdown_fields(driver: str) -> tuple[int, ...]:
    """Return the field ids of the slowdown counters for a driver ("580.95.05"); empty before 575, which has none."""
    version = tuple(int(part) if part.isdigit() else 0 for part in driver.split(".")[:2])
    return next((fields for start, fields in _SLOWDOWN_FIELDS if version >= start), ())
