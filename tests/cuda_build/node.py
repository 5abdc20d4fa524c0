"""A node of GPUs that are not there: processes of torch's CUDA build over the stand-in for CUDA's runtime.

What these tests show is "executed on torch's CUDA build over a stand-in for the runtime; never on a GPU".

Settings of the stand-in, as environment variables STANDIN_...:

=====================  ================================================================================================
GPUS, UUID, NAME, SMS  devices, their UUID but for its last digit, their name, their number of multiprocessors;
                       CAPABILITY (90 is 9.0), L2_BYTES, TOTAL_BYTES
MEMORY_GBS             bytes per second of a kernel that moves memory, in GB/s; H2D_GBS, D2H_GBS (pinned), PEER_GBS, and
                       BUS_GBS (busbw of a collective) likewise
TFLOPS_BF16            rate of a product of that number type; FP64, FP32, TF32, FP8, FP4, INT8 likewise
SM_MHZ, LAUNCH_US      clock that the spinning kernel counts; time that each launch takes on the device
COMPUTED_BYTES         largest data of an operation that is computed; see inside/standing.py
FLIP                   "all_reduce": one bit of the sum on the first rank is wrong, from the third call on
TAKEN_BYTES            memory that is free as CUDA tells, and cannot be had
FIRST_PRODUCT_S        time that the first product of a process takes on the host
ECC, ECC_AFTER         UUID of a device that reports an uncorrectable error after so many waits
NO_MULTICAST           NCCL cannot bind NVLink SHARP
MICROVM, MIG           what NVML tells: one SXM module passed through to a microVM; devices in MIG mode
PART, PROGRAMS         the simulated NVML's part; programs other than ours that get both
=====================  ================================================================================================
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TORCH = os.environ.get("CUDA_TORCH", "2.13.0")
H100: Mapping[str, object] = {
    "PART": "h100", "NAME": "NVIDIA H100 80GB HBM3", "TOTAL_BYTES": 85520809984, "L2_BYTES": 50 << 20,
    "MEMORY_GBS": 3050, "PEER_GBS": 392, "BUS_GBS": 478, "H2D_GBS": 55.4, "D2H_GBS": 55.0, "SM_MHZ": 1755,
    "TFLOPS_BF16": 780, "TFLOPS_FP8": 1420, "TFLOPS_TF32": 400, "TFLOPS_FP32": 52, "TFLOPS_FP64": 60,
    "TFLOPS_INT8": 1480,
}  # fmt: skip
H200: Mapping[str, object] = {
    **H100, "PART": "h200", "NAME": "NVIDIA H200", "TOTAL_BYTES": 150754820096, "L2_BYTES": 60 << 20, "MEMORY_GBS": 4300
}  # fmt: skip
"""Rates that a healthy part could have. They are stated, not measured."""


WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gwe")[-1]
UUID = os.environ.get("STANDIN_UUID", f"GPU-8932f937-d72c-4106-c12f-20bd9faed{WORKER}f")
"""UUID of the devices but for its last digit. Each process of pytest has its own, since a run locks its devices."""


def uuid(place: int) -> str:
    """Return the UUID of a device, in the simulated NVML as in the stand-in."""
    return f"{UUID}{place:x}"


@dataclass(frozen=True)
class Build:
    """An environment with torch's CUDA build, the stand-in, and our package as it is published."""

    folder: Path
    package: Path

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self.folder / "venv/bin/python"

    def environment(self, settings: Mapping[str, object]) -> dict[str, str]:
        """Return the environment of a process on the stand-in with these settings."""
        inherited = {
            key: each for key, each in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV", "CUDA"))
        }
        return {
            **inherited,
            "LD_LIBRARY_PATH": str(self.folder / "lib"),
            "LD_PRELOAD": str(self.folder / "lib/libstandin.so"),
            "PYTHONPATH": os.pathsep.join(map(str, (HERE / "inside", self.package, HERE, HERE.parent))),
            **{f"STANDIN_{name}": str(each) for name, each in settings.items()},
        }


@dataclass
class Ran:
    """The result of a run of the packaged suite."""

    status: int
    out: str
    seconds: float
    folder: Path
    values: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """Return its record."""
        found: dict[str, Any] = json.loads((self.folder / "record.json").read_text(encoding="utf-8"))
        return found

    @property
    def closing(self) -> str:
        """Return its closing line."""
        words = ("ACCEPTED", "HELD", "REJECTED", "NOT JUDGED")
        return next(line for line in self.out.splitlines() if line.startswith(words))


@dataclass(frozen=True)
class Node:
    """A number of devices of one part, with settings that replace those of the part."""

    build: Build
    part: Mapping[str, object]
    gpus: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)

    def start(
        self, command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program on the node, with more variables of the environment."""
        environment = {
            **self.build.environment({"GPUS": self.gpus, "UUID": UUID, **self.part, **self.settings}),
            **(environ or {}),
        }
        return subprocess.Popen(
            [str(each) for each in command], cwd=folder, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def suite(self, folder: Path, *options: str, environ: Mapping[str, str] | None = None, limit: float = 900.0) -> Ran:
        """Run the packaged suite at level quick, and wait for its end."""
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        command: list[str | Path] = [self.build.python, "-m", "pytest", "-q", "-c", "pytest.ini"]
        began = time.monotonic()
        command += ["--accel-level=quick", f"--accel-output={folder / 'out'}", *options]
        process = self.start(command, folder, environ)
        out, _ = process.communicate(timeout=limit)
        return Ran(process.returncode, out, time.monotonic() - began, folder / "out")
