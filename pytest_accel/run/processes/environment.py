"""The environment of child processes: which settings of the user reach them, and which would change what is measured.

The variables that choose among devices are set by `drivers/visibility.py`, whatever the user has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

KEPT = {
    "NCCL_CONF_FILE": "names a file of settings, which the record holds",
    "NCCL_DEBUG*": "only what is logged",
    "NCCL_GRAPH_FILE": "describes the machine",
    "NCCL_HOSTID": "describes the machine",
    "NCCL_IB_*": "chooses the network, which one node does not use",
    "NCCL_NET*": "chooses the network, which one node does not use",
    "NCCL_SOCKET_*": "chooses the network that the ranks meet in",
    "NCCL_TOPO_*": "describes a virtual machine whose own description is wrong, as cloud providers require it",
    "NCCL_TUNER_*": "a plugin of a cloud provider chooses the algorithm",
    "CUDA_MPS_LOG_DIRECTORY": "tells where the MPS daemon logs",
    "CUDA_MPS_PIPE_DIRECTORY": "tells where the MPS daemon is, without which an exclusive device cannot be opened",
    "HIP_FORCE_DEV_KERNARG": "advised by AMD's tuning guide",
    "HSA_NO_SCRATCH_RECLAIM": "advised by AMD's tuning guide",
    "HSA_OVERRIDE_GFX_VERSION": "without it some cards have no kernels",
    "LD_PRELOAD": "processes may not start without it",
    "TORCH_BLAS_PREFER_*": "chooses the library of the products",
}
"""Settings that reach the workers although they may change what is measured, and why. The record names them."""

CLEARED = {
    "NCCL_*": "chooses paths and algorithms of collectives (NCCL user guide, environment variables)",
    "RCCL_*": "chooses paths and algorithms of collectives",
    "TORCH_NCCL_*": "makes collectives block, or times them",
    "CUDA_MPS_*": "gives a process a share of the device",
    "CUDA_AUTO_BOOST": "keeps to lower clocks",
    "CUDA_DISABLE_PERF_BOOST": "since driver 580.105: the device keeps to lower clocks",
    "CUDA_FORCE_PTX_JIT": "compiles kernels anew",
    "CUDA_DISABLE_PTX_JIT": "refuses kernels that have to be compiled",
    "CUDA_CACHE_DISABLE": "compiles kernels anew",
    "CUDA_LAUNCH_BLOCKING": "waits for every kernel",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "makes a process wait instead of ending",
    "CUDA_INJECTION64_PATH": "loads a profiler",
    "CUBLAS_WORKSPACE_CONFIG": "takes memory from the products",
    "CUBLASLT_WORKSPACE_SIZE": "takes memory from the products",
    "CUBLAS_*EMULAT*": "computes fp32 and fp64 by products of fewer bits (cuBLAS, floating point emulation)",
    "NVIDIA_TF32_OVERRIDE": "changes the precision of products",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "changes the precision of products",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "allocates memory for every operation",
    "PYTORCH_NO_HIP_MEMORY_CACHING": "allocates memory for every operation",
    "PYTORCH_CUDA_ALLOC_CONF": "changes how memory is allocated",
    "PYTORCH_ALLOC_CONF": "its newer name (PyTorch, c10/core/AllocatorConfig.h)",
    "PYTORCH_HIP_ALLOC_CONF": "its name for ROCm",
    "HSA_*": "chooses queues, copy engines and units of the device (ROCR runtime, environment variables)",
    "ROC_*": "chooses queues and units of the device",
    "HIP_LAUNCH_BLOCKING": "waits for every kernel",
    "AMD_SERIALIZE_*": "waits for every kernel or copy",
    "GPU_MAX_HW_QUEUES": "changes how many kernels run at a time",
    "OMP_*": "chooses threads and cores of the processor",
    "KMP_*": "chooses threads and cores of the processor",
    "GOMP_*": "chooses threads and cores of the processor",
    "MKL_NUM_THREADS": "chooses threads of the processor",
    "MKL_DYNAMIC": "chooses threads of the processor",
    "MKL_CBWR": "chooses instructions of the processor",
    "MKL_ENABLE_INSTRUCTIONS": "chooses instructions of the processor",
    "DNNL_*": "chooses instructions of the processor",
    "ONEDNN_*": "chooses instructions of the processor",
    "ATEN_CPU_CAPABILITY": "chooses instructions of the processor",
}
"""Settings that would change what is measured, and how. Child processes do not inherit them, except those of KEPT."""


LAUNCHER = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_*",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_*",
    "PYTEST_ACCEL_FABRIC_SECRET",
)
"""The variables by which torch joins the process group of a job, and an agent its fabric run. Child processes do not
inherit them: their group is that of the node."""


def found(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the user's settings that are cleared, and those that are kept and may matter; each by name."""
    kept = {name: text for name, text in environment.items() if _matches(name, KEPT)}
    cleared = {name: text for name, text in environment.items() if name not in kept and _matches(name, CLEARED)}
    return cleared, kept


def notes(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for the record on the settings that are cleared, and one on those that are kept."""
    cleared, kept = (", ".join(f"{name}={text}" for name, text in each.items()) for each in found(environment))
    texts = {"settings of the user that the workers do not inherit": cleared, "settings of the user in force": kept}
    return [f"{title}: {listed}" for title, listed in texts.items() if listed]


def of_child(extra: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of a child: that of this process without what would change measurements, and `extra`.

    A variable that is None in `extra` is not inherited. PYTHONPATH begins with the folder that holds this package if
    that is not installed, and lacks empty entries, since they mean the current folder.
    """
    home = str(Path(__file__).parents[3])
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(None, ["" if home.endswith("-packages") else home, *entries]))
    of_launcher = (name for name in os.environ if _matches(name, LAUNCHER))
    left_out = {*found(os.environ)[0], *of_launcher, *extra}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    given = {name: value for name, value in extra.items() if value is not None}
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **given}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Return True if one of the patterns matches the name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
