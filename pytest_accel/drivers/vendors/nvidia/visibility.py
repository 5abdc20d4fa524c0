"""The environment variables of CUDA. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.visibility import Visibility, entries

CUDA = "CUDA_VISIBLE_DEVICES"
QUEUES, MOST_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS", 32
"""Work queues of a context, 8 unless this says another number up to 32: copies whose streams share one wait for each
other (CUDA programming guide, environment variables). Training scripts set it to 1, and it is inherited by none; a
process that copies between all devices at once has twice as many streams a device as there are others."""


class CudaVisibility(Visibility):
    """CUDA chooses by index or UUID."""

    def narrowing(self, found: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:  # noqa: ARG002
        return {CUDA: entries(environment[CUDA])} if CUDA in environment else {}

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        chosen = {CUDA: ",".join(device.uuid for device in group), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {**chosen, QUEUES: str(MOST_QUEUES) if len(group) > 1 else None}

    def mistaken(self, properties: Any, device: Device) -> str | None:
        """Compare the UUIDs; NVML's has "GPU-" before it."""
        uuid = str(getattr(properties, "uuid", "")).lower()
        return uuid if uuid and uuid not in device.uuid.lower() else None
