"""Settings of our own tests: `scripts/test.sh` selects by these markers."""

from __future__ import annotations

import gc
import importlib
import re
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_accel.run.options import is_acceptance_run

pytest_plugins = ["pytester"]

MARKERS = (
    "slow: full products, builds, end-to-end cases (make test-slow)",
    "devices: measures this machine's own processors, so it runs serially",
    "nightly: more of what other tests show (make test-nightly)",
    "cuda_build: torch's CUDA build over a stand-in for CUDA's runtime (make test-cuda)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and turn warnings into errors.

    pytest reads this file in an acceptance run from the checkout too; a warning there is not an error.
    """
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if not is_acceptance_run(config.option):
        config.addinivalue_line("filterwarnings", "error")
    if hasattr(config, "workerinput"):  # two workers on two processors: more threads wait for each other
        with suppress(ImportError):
            importlib.import_module("torch").set_num_threads(1)


def pytest_collection_finish() -> None:
    """Take the modules and the items out of the garbage collector's sight: it would look at two million objects.

    Probes collect garbage before they allocate, and so does pytest after some tests.
    """
    gc.freeze()


def pytest_unconfigure() -> None:
    """Show them to it again: DuckDB calls a module leaked that is frozen when the process ends."""
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file that names no marker which `-m "slow and devices"` asks for: importing all files takes 15 s."""
    asked = re.findall(r"(?<!not )\b(slow|devices|nightly|cuda_build)\b", config.option.markexpr)
    if not asked or " or " in config.option.markexpr or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if all(f"pytest.mark.{each}" in text for each in asked) else True
