"""Reasons for a clock below the highest: the bits of NVML's clock event reasons, which telemetry uses for all vendors.

The values are those of nvml.h (nvmlClocksEventReason*, formerly nvmlClocksThrottleReason*).
"""

from __future__ import annotations

from enum import IntFlag


class ClockEvent(IntFlag):
    """One reason, or several in a mask."""

    GPU_IDLE = 0x001
    """nvmlClocksEventReasonGpuIdle: nothing runs."""
    APPLICATION_CLOCKS = 0x002
    """nvmlClocksEventReasonApplicationsClocksSetting: somebody set application clocks."""
    SW_POWER_CAP = 0x004
    """nvmlClocksEventReasonSwPowerCap: the power limit, as is normal under full load."""
    HW_SLOWDOWN = 0x008
    """nvmlClocksEventReasonHwSlowdown: heat, power brake or a fast change of the load, by the device itself."""
    SYNC_BOOST = 0x010
    """nvmlClocksEventReasonSyncBoost: the clock follows that of other GPUs."""
    SW_THERMAL = 0x020
    """nvmlClocksEventReasonSwThermalSlowdown: heat, by the driver."""
    HW_THERMAL = 0x040
    """nvmlClocksEventReasonHwThermalSlowdown: heat, by the device itself."""
    HW_POWER_BRAKE = 0x080
    """nvmlClocksEventReasonHwPowerBrakeSlowdown: the power brake of the board."""
