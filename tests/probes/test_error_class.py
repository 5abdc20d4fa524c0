"""What an exception says of the device: only what its library lays to it."""

from __future__ import annotations

import re

import pytest

from pytest_accel.probes.device import error_class
from pytest_accel.probes.device.error_class import Unmeasurable, WrongResult


class AcceleratorError(RuntimeError): ...


class OutOfMemoryError(RuntimeError): ...


class DistBackendError(RuntimeError): ...


NCCL = "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
SYSTEM = f"{NCCL}unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n"
BOUND = "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 2 'out of memory'."
LT = "CUDA error: {} when calling `cublasLtMatmul(ltHandle, ...)`"

ERRORS: list[tuple[Exception, str, bool]] = [
    # -- the device
    (AcceleratorError("CUDA error: uncorrectable ECC error encountered"), "device", True),
    (RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might"), "device", True),
    (RuntimeError("CUDA error: unknown error"), "device", True),
    (RuntimeError("HIP error: unspecified launch failure"), "device", True),
    (RuntimeError(LT.format("CUBLAS_STATUS_EXECUTION_FAILED")), "device", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\nCuda failure 214 'uncorrectable ECC error'"), "device", True),
    (WrongResult("stream.copy: the arrays do not hold the expected result"), "device", False),
    # -- what does not fit, or is lacking
    (AcceleratorError("CUDA error: no kernel image is available for execution on the device"), "need", False),
    (RuntimeError("HIP error: invalid device function"), "need", False),
    (RuntimeError("CUDA error: system not yet initialized"), "need", False),
    (RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"), "need", False),
    (RuntimeError("CUDA error: out of memory"), "need", False),
    (RuntimeError("CUDA error: peer mapping resources exhausted"), "need", False),
    (RuntimeError("CUDA error: MPS server is not ready to accept new MPS client requests"), "need", False),
    (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "need", False),
    (RuntimeError(LT.format("CUBLAS_STATUS_ALLOC_FAILED")), "need", False),
    (
        DistBackendError(
            f"{SYSTEM}Last error:\nError while creating shared memory segment /dev/shm/nccl-a (size 9637888)"
        ),
        "need",
        True,
    ),
    (DistBackendError(f"{NCCL}internal error - please report this issue to the NCCL developers"), "need", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\nCuda failure 2 'out of memory'"), "need", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\nLast error:\nHIP failure 'invalid device ordinal'"), "need", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\nHIP failure: 'invalid device pointer'"), "need", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\nhipIpcOpenMemHandle failed: uncorrectable error"), "device", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\n{BOUND}\nThis is usually caused"), "external", True),
    (DistBackendError(f"{NCCL}unhandled cuda error\n{BOUND[:27]}: 'uncorrectable ECC error'"), "device", True),
    (RuntimeError("Failed to initialize NCCL communicator: unhandled cuda error (run with NCCL_DEBUG"), "need", True),
    (Unmeasurable("the probe needs 12.9 GB of memory"), "need", False),
    # -- what a library has no kernel for
    (RuntimeError(LT.format("CUBLAS_STATUS_NOT_SUPPORTED")), "not_applicable", False),
    # -- a probe's own
    (ValueError("invalid argument"), "bug", False),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "bug", False),
]


@pytest.mark.parametrize(("error", "kind", "lost"), ERRORS, ids=lambda each: str(each)[-40:])
def test_a_device_is_blamed_for_what_its_library_lays_to_it(error: Exception, kind: str, lost: bool) -> None:
    """`lost`: the process has to begin anew; of a collective, since its group is broken."""
    assert (error_class.trouble_kind_of(error), error_class.context_is_lost(error)) == (kind, lost)


@pytest.mark.parametrize(
    ("text", "either"),
    [
        ("CUDA error: an illegal memory access was encountered", True),
        ("HIP error: unspecified launch failure", True),
        (LT.format("CUBLAS_STATUS_EXECUTION_FAILED"), True),
        (f"{NCCL}unhandled cuda error\nCuda failure 700 'an illegal memory access was encountered'", True),
        ("CUDA error: uncorrectable ECC error encountered", False),
        ("an illegal memory access, after an uncorrectable ECC error", False),
        ("CUDA error: out of memory", False),
    ],
)
def test_an_error_that_a_faulty_kernel_causes_as_well_is_known(text: str, either: bool) -> None:
    """By NVIDIA's own words on Xids 13 and 31, which come with it."""
    assert error_class.of_programs(RuntimeError(text)) == either


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("unknown error\nCompile with `TORCH_USE_CUDA_DSA`", "^unknown error$"),
        ("", "^DistBackendError$"),
        (
            f"{NCCL}unhandled cuda error\n{BOUND}\nThis is",
            r"^Failed to bind NVLink SHARP .*memory': usually the fabric",
        ),
        (f"{NCCL}unhandled cuda error\nCuda failure 214 'uncorrectable ECC error'", "^Cuda failure 214 'uncorr"),
    ],
)
def test_an_error_is_told_by_the_line_that_names_its_cause(text: str, told: str) -> None:
    assert re.search(told, error_class.main_line(DistBackendError(text)))
