"""NVIDIA GPUs, through NVML and torch.cuda."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.diagnostic_report import Diagnostic, Program
from pytest_accel.drivers.vendor import DISPLAY_3D, VGA, TorchKind, Vendor, importing
from pytest_accel.drivers.vendors.nvidia import dcgmi
from pytest_accel.drivers.visibility import Visibility

CUDA = "CUDA_VISIBLE_DEVICES"
QUEUES, MOST_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS", 32
"""The number of work queues of a context: 8 by default, at most 32. Copies on streams that share a queue wait for each
other (CUDA programming guide, environment variables), and a process that copies between all devices at once has two
streams per device and peer. Training scripts set it to 1, so no worker inherits it."""


class CudaVisibility(Visibility):
    """Selection by UUID; the environment may name devices by index or UUID."""

    variables = (CUDA,)

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        """Return the environment in which CUDA shows only these devices, with enough queues to copy between them."""
        selection = {CUDA: ",".join(device.uuid for device in group), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {**selection, QUEUES: str(MOST_QUEUES) if len(group) > 1 else None}

    def mistaken(self, properties: Any, device: Device) -> str | None:
        """Compare the UUIDs; NVML's has "GPU-" before it."""
        uuid = str(getattr(properties, "uuid", "")).lower()
        return uuid if uuid and uuid not in device.uuid.lower() else None


VENDOR = Vendor(
    name="nvidia",
    title="NVIDIA",
    make_driver=importing("pytest_accel.drivers.vendors.nvidia.driver", "NvidiaDriver"),
    library="pynvml",
    install="pip install nvidia-ml-py",
    pci_vendor="0x10de",
    pci_classes=(VGA, DISPLAY_3D),
    nodes=("nvidia[0-9]*",),
    kernel_module="nvidia",
    unseen=True,
    visibility=CudaVisibility(),
    torch=TorchKind("cuda", "nccl"),
    equal_rates=False,
    diagnostic=Diagnostic(
        Program("dcgmi", "install NVIDIA DCGM (datacenter-gpu-manager-4-cuda12 or -cuda13)"),
        dcgmi.arguments,
        dcgmi.read,
        bug_report=Program("nvidia-bug-report.sh", "it comes with the driver", "nvidia-bug-report.log.gz"),
    ),
)
