"""The names of software and firmware in a record, by which a limit states the versions that it was validated on."""

from __future__ import annotations

import importlib.util
import runpy
from collections.abc import Sequence
from pathlib import Path

from pytest_accel.core.measurement import Device

OF_DEVICES = {
    "driver": "driver_version",
    "management_library": "library_version",
    "cuda_driver": "cuda_version",
    "rocm": "rocm_version",
    "vbios": "vbios",
    "gsp_firmware": "gsp_firmware",
    "firmware_bundle": "firmware_bundle",
}
"""The names whose version the management library states, and the facts of a device that hold it."""

MEANINGS = {
    "driver": "the kernel driver of the devices",
    "management_library": "NVML or amdsmi",
    "cuda_driver": "the newest CUDA that the driver supports",
    "rocm": "ROCm, as amdsmi states it",
    "vbios": "the VBIOS",
    "gsp_firmware": "the firmware of the GPU System Processor",
    "firmware_bundle": "the firmware bundle (PLDM) of an AMD GPU",
    "torch": "PyTorch",
    "cuda": "the CUDA that torch was built with",
    "hip": "the HIP that torch was built with",
    "cudnn": "cuDNN or MIOpen, as torch numbers it",
    "cublas": "cuBLAS or hipBLAS, as loaded",
    "nccl": "NCCL, or RCCL on AMD GPUs, as torch was built with it",
    "python": "Python",
    "kernel": "the kernel of the host",
    "pytest_accel": "pytest_accel",
}
"""Every name with its meaning. A package through which torch drives devices (torch_npu) is one more."""


def torch_version() -> str | None:
    """Return the version of the torch that an import would find, None if it is not known. It loads nothing of torch."""
    try:
        spec = importlib.util.find_spec("torch")
        # Where `torch.__version__` comes from, so that it is what a worker states. The metadata of a wheel may lack the
        # label of its build: a package index has "2.13.0" for what calls itself "2.13.0+cu130".
        namespace = runpy.run_path(str(Path(spec.origin).with_name("version.py"))) if spec and spec.origin else {}
    except (ImportError, OSError):
        return None
    return namespace.get("__version__")


def versions_of(devices: Sequence[Device]) -> dict[str, str]:
    """Return the versions that all devices of a node share, by name. One that differs between devices is left out."""
    table = {name: {device.facts.get(fact) for device in devices} for name, fact in OF_DEVICES.items()}
    return {name: str(*versions) for name, versions in table.items() if len(versions) == 1 and None not in versions}
