"""Prepare the processes of a run on the stand-in: the sensor has a simulated NVML, and workers have `standing`.

Python imports this file when it starts. Programs that work without our processes are named in STANDIN_PROGRAMS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def nvml() -> None:
    """Put a simulated NVML below pynvml, with as many GPUs as the stand-in has."""
    from pytest_accel.simulate.libraries import nvml as simulated

    part, count = os.environ["STANDIN_PART"], int(os.environ.get("STANDIN_GPUS", "1"))
    gpus = [getattr(simulated, part)(place) for place in range(count)]
    for place, gpu in enumerate(gpus):
        if "STANDIN_UUID" in os.environ:
            gpu.answers["nvmlDeviceGetUUID"] = f"{os.environ['STANDIN_UUID']}{place:x}".encode()
        if os.environ.get("STANDIN_MICROVM"):
            of_microvm(gpu, simulated)
        if os.environ.get("STANDIN_MIG"):
            gpu.answers["nvmlDeviceGetMigMode"] = (1, 1)
    simulated.install(simulated.NvmlLibrary(gpus))


def of_microvm(gpu, simulated) -> None:  # type: ignore[no-untyped-def]
    """One SXM module passed through, as tests/real/inventories has an H200: its fabric is completed, without a cluster.

    NVLinks are down, and their counters refuse; no slot, no application clocks (driver 580), persistence off.
    """
    import pynvml

    for name in (
        "nvmlDeviceGetClock", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetNvLinkErrorCounter",
    ):  # fmt: skip
        gpu.answers.pop(name, None)
    nothing = {"clusterUuid": bytes(16), "cliqueId": 0, "healthMask": 0, "healthSummary": 0}
    gpu.answers["nvmlDeviceGetGpuFabricInfoV"] = simulated.fabric(**nothing)
    gpu.answers["nvmlDeviceGetVirtualizationMode"] = pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH
    gpu.answers["nvmlDeviceGetPersistenceMode"] = 0
    gpu.answers["nvmlDeviceGetNvLinkState"] = dict.fromkeys(range(18), 0)
    gpu.fields[pynvml.NVML_FI_DEV_NVLINK_GET_STATE] = (1, 0)
    for name in ("GET_SPEED", "ERROR_DL_REPLAY", "ERROR_DL_RECOVERY", "ERROR_DL_CRC"):
        gpu.fields.pop(getattr(pynvml, f"NVML_FI_DEV_NVLINK_{name}"), None)


def computed() -> None:
    """Compute what the stand-in does not."""
    import standing

    standing.install()


if "STANDIN_PART" in os.environ:
    words = getattr(sys, "orig_argv", [])
    own = os.environ.get("STANDIN_PROGRAMS", "").split()
    if "pytest_accel.drivers.sensor" in words:
        nvml()
    elif "pytest_accel.probes.device.worker" in words:
        computed()
    elif any(Path(word).name in own for word in words):
        computed()
        nvml()
