"""The marks of a simulated node that no real one has, so that its record cannot pass for one of hardware."""

from __future__ import annotations

from pytest_accel.core.measurement import Device

SERIAL = "SIM"
"""The beginning of the serial numbers of simulated devices."""
UUID = "51000000-"
"""The first group of their UUIDs, which NVIDIA's begin with "GPU-" before."""
HOST = "the host is not simulated"
"""The reason why a fact of the host is absent on a simulated node."""


def is_simulated(device: Device) -> bool:
    """Return True for a device with the identity of a simulated one."""
    return (device.serial or "").startswith(SERIAL) or device.uuid.startswith((UUID, f"GPU-{UUID}"))
