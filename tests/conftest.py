"""Settings of our own tests: `scripts/test.sh` selects by these markers."""

from __future__ import annotations

import gc
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support import real_devices

from pytest_accel.run.options import is_acceptance_run

pytest_plugins = ["pytester"]

MARKERS = (
    "slow: full products, builds, end-to-end cases (make test-slow)",
    "devices: measures this machine's own processors, so it runs serially",
    "nightly: more of what other tests show (make test-nightly)",
    "cuda_build: torch's CUDA build over a stand-in for CUDA's runtime (make test-cuda)",
)

PROGRAMS = (
    *("as", "awk", "basename", "bash", "cat", "chmod", "cp", "cut", "date", "dirname", "env", "expr", "find"),
    *("g++", "git", "grep", "gzip", "head", "id", "kill", "ld", "ln", "ls", "make", "mkdir", "mkfifo", "mktemp"),
    *("mount", "mv", "nice", "nohup", "nvidia-smi", "openssl", "ps", "readlink", "realpath", "rm", "sed", "seq"),
    *("setpriv", "setsid", "sh", "sha256sum", "sleep", "sort", "ssh-keygen", "stat", "tail", "tar", "tee", "timeout"),
    *("touch", "tr", "true", "umount", "uname", "uniq", "unshare", "wc", "xargs"),
)
"""The programs of this machine that quick tests find on PATH, so that others that are installed change nothing.

nvidia-smi is for tests that are skipped where there is a GPU.
"""
OF_A_JOB = ("CUDA_", "HIP_", "ROCR_", "NCCL_", "SLURM")
"""How variables begin that a scheduler sets in a job; quick tests do not see them."""
FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and turn warnings into errors.

    pytest reads this file in an acceptance run from the checkout too; a warning there is not an error.
    """
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if not is_acceptance_run(config.option):
        config.addinivalue_line("filterwarnings", "error")
        folder = tempfile.TemporaryDirectory(prefix="programs-")
        config.add_cleanup(folder.cleanup)
        config.stash[FOLDER] = folder.name
        for name in PROGRAMS:
            if found := shutil.which(name):
                Path(folder.name, name).symlink_to(found)
    if hasattr(config, "workerinput"):  # two workers on two processors: more threads wait for each other
        with suppress(ImportError):
            importlib.import_module("torch").set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a quick test and its fixtures find `PROGRAMS` on PATH and no other, and no variable of a job."""
    with pytest.MonkeyPatch.context() as patch:
        if FOLDER in item.config.stash and not any(map(item.get_closest_marker, ("slow", "nightly", "cuda_build"))):
            patch.setenv("PATH", item.config.stash[FOLDER])
            for name in [name for name in os.environ if name.startswith(OF_A_JOB)]:
                patch.delenv(name)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a test as skipped that failed because nothing is simulated beside real accelerators."""
    report = yield
    if report.failed and real_devices.refused(report.longreprtext):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {real_devices.WHY}")
    return report


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


@pytest.fixture
def fast() -> Iterator[None]:
    """Simulated time, in this process, runs as fast as it can."""
    pytest.importorskip("torch")
    with importlib.import_module("support.in_process").fast():
        yield
