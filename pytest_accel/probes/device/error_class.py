"""Reasons why a probe has no result, and the classification of exceptions as fault, missing requirement or bug. Pure.

Only errors that the library attributes to the device fail it, whatever the message begins with. Missing software,
memory or permissions make the metric UNMEASURED; a product that the library does not support does not apply.
"""

from __future__ import annotations

from collections.abc import Sequence


class Unmeasurable(Exception):
    """Raised if a requirement of the measurement is missing; the text names it."""


class NotApplicable(Exception):
    """Raised if the metric cannot exist on this device; the text says why."""


class WrongResult(Exception):
    """Raised if the device computed or delivered wrong data; the text says which."""


SOFTWARE = (
    "too old",
    "no NVIDIA driver",
    "display driver",
    "not yet initialized",
    "compatibility",
    "not compiled",
    "libcudart",
    "invalid device function",
    "no kernel image",
    "kernel image is invalid",
    "unsupported toolchain",
    "MPS ",
)
"""Messages of CUDA or HIP when driver, toolkit, torch, fabric manager or MPS do not fit together (cudaGetErrorString,
35, 98, 200, 209, 222, 802 to 808). The device is not at fault."""
LACKING = (
    "out of memory",
    "busy or unavailable",
    "operation not permitted",
    "operation not supported",
    "peer mapping resources exhausted",
    "invalid argument",
    "STATUS_ALLOC_FAILED",
    "STATUS_NOT_INITIALIZED",
    "STATUS_INVALID_VALUE",
    "STATUS_ARCH_MISMATCH",
)
"""Messages when a resource is missing that another process may hold, or when an operation is not supported. A faulty
device gives other messages, and fails operations that need few resources."""
REFUSED = "STATUS_NOT_SUPPORTED"
"""Message of cuBLAS and hipBLAS for a product that they have no kernel for (pytorch issue 106840: int8 on H100)."""
UNSTARTED = "Failed to initialize NCCL communicator"
"""Beginning of the error of torch 2.15 when ranks cannot meet. It lacks NCCL's own words, and with them the cause."""
COLLECTIVE = ("NCCL error", "RCCL error", UNSTARTED)
"""Beginnings of the errors of collectives."""
DEVICE_FAILED_COLLECTIVE = ("unhandled cuda error", "Cuda failure", "CUDA error", "HIP failure", "uncorrectable")
"""Messages of NCCL when a device fails. Its other errors (ncclGetErrorString: system, internal, usage, remote) mostly
mean that /dev/shm is full (NCCL issues 328, 1683) or that another rank has ended."""
PEER_MEMORY = ("invalid device ordinal", "invalid device pointer", "peer access is not supported", "IpcOpenMemHandle")
"""Messages when a collective cannot open the memory of a peer: the process does not see it (modelscope/ms-swift PR
9627), its driver does not allow it, or the library mixed up the handle (ROCm/rocm-systems issue 8178). They contain
"unhandled cuda error" or "HIP failure" too, but no device is at fault."""
UNCORRECTABLE = "uncorrectable ECC error"
"""Message of CUDA and HIP for a memory error that destroyed data (cudaGetErrorString, 214)."""
OF_PROGRAMS = (
    "illegal memory access",
    "unspecified launch failure",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "device-side assert",
    "unknown error",
    "STATUS_EXECUTION_FAILED",
    "STATUS_INTERNAL_ERROR",
)
"""Messages that a kernel with a fault causes as well as a faulty device. Of the Xids that come with them NVIDIA says:
"Typically these are application-level bugs, but can also be driver bugs or hardware bugs" (Xid errors, 31; 13 alike);
of a launch failure: "can be caused by multiple reasons" (cuBLAS, cublasStatus_t)."""
NVLS = "Failed to bind NVLink SHARP"
"""Beginning of NCCL's message when the switches take no memory for reductions in the network: "This is usually caused
by a system or configuration error in the Fabric Manager or NVSwitches" (src/transport/nvls.cc)."""
NVLS_MEANS = "usually the fabric and not the GPU: see `systemctl status nvidia-fabricmanager`"
LIBRARY_ERRORS = ("CUDA error", "HIP error", *COLLECTIVE, "BLAS_STATUS")


def trouble_kind_of(error: BaseException, *, other: bool = False, words: Sequence[str] = ()) -> str:
    """Return the kind of trouble (`measurement.Trouble`) that an exception is.

    `other` is True for a device that is driven by a library other than CUDA, whose errors cannot be attributed to the
    device, unless they contain one of the `words` that its vendor declares for this.
    """
    if isinstance(error, (Unmeasurable, ImportError)):
        return "need"
    if isinstance(error, NotApplicable):
        return "not_applicable"
    if isinstance(error, WrongResult):
        return "device"
    if not _of_library(error, words):
        return "need" if other and isinstance(error, RuntimeError) else "bug"
    if REFUSED in str(error):
        return "not_applicable"  # the library has no kernel for the product
    if NVLS in str(error) and UNCORRECTABLE not in str(error):
        return "external"  # usually the fabric and not the GPU
    return "need" if _blames_nobody(error) else "device"


def of_programs(error: BaseException) -> bool:
    """Return True for an error of a library that a fault of a program may have caused."""
    return UNCORRECTABLE not in str(error) and any(words in str(error) for words in OF_PROGRAMS)


def main_line(error: BaseException) -> str:
    """Return the line of an error that names its cause, the first one by default, or its type if it has no message."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    # NCCL names some causes further below
    line = next((candidate for candidate in lines if UNCORRECTABLE in candidate or NVLS in candidate), lines[0])
    return f"{line.rstrip('.')}: {NVLS_MEANS}" if NVLS in line else line


def context_is_lost(error: BaseException, words: Sequence[str] = ()) -> bool:
    """Return True for an error after which every later call of this process would fail too."""
    if type(error).__name__ == "OutOfMemoryError" or not _of_library(error, words):
        return False
    return _collective(error) or not (REFUSED in str(error) or _blames_nobody(error))


def _of_library(error: BaseException, vendors: Sequence[str]) -> bool:
    """Return True for an error of the libraries that drive devices; `vendors` are the words of the device's vendor."""
    names = ("AcceleratorError", "OutOfMemoryError", "DistBackendError")
    return type(error).__name__ in names or any(words in str(error) for words in (*LIBRARY_ERRORS, *vendors))


def _collective(error: BaseException) -> bool:
    """Return True for an error of a collective."""
    return type(error).__name__ == "DistBackendError" or any(words in str(error) for words in COLLECTIVE)


def _blames_nobody(error: BaseException) -> bool:
    """Return True for a library's error that does not attribute the fault to the device."""
    text = str(error)
    if type(error).__name__ == "OutOfMemoryError" or any(words in text for words in (*SOFTWARE, *LACKING)):
        return True
    if not _collective(error):
        return False
    unseen = any(words in text for words in (*PEER_MEMORY, UNSTARTED)) and "uncorrectable" not in text
    return unseen or not any(words in text for words in DEVICE_FAILED_COLLECTIVE)
