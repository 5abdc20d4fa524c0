"""Fixtures of the tests on torch's CUDA build: `make test-cuda`. Without its environment they are skipped."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from node import TORCH, Build
from support import wheels

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The environment that scripts/cuda_build.sh has made, with the wheel of this checkout."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-accel/cuda-build"
    folder = Path(os.environ.get("PYTEST_ACCEL_CUDA_BUILD") or default) / f"torch-{TORCH}"
    if not (folder / "complete").exists():
        pytest.skip(f"no environment with the CUDA build of torch {TORCH}: make test-cuda makes it")
    ready = subprocess.run([ROOT / "scripts/cuda_build.sh", TORCH], capture_output=True, text=True, check=False)
    assert ready.returncode == 0, ready.stderr  # it compiles the stand-in anew where its sources have changed
    package = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheels.only(wheels.build(package), "*.whl")) as wheel:
        wheel.extractall(package / "installed")
    return Build(folder, package / "installed")
