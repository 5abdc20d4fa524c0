"""Hooks and fixtures of all our own tests; their settings are in tests/pytest.ini."""

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

SETTINGS = Path(__file__).with_name("pytest.ini")
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


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Begin again with tests/pytest.ini where pytest chose pyproject.toml, as for `pytest` without a path."""
    if config.inipath == SETTINGS or config.option.inifilename or is_acceptance_run(config.option):
        return None
    paths = config.args if config.args_source is pytest.Config.ArgsSource.TESTPATHS else []
    return pytest.main(["-c", str(SETTINGS), *config.invocation_params.args, *paths])


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of programs; pytest reads this file in an acceptance run from the checkout too."""
    if not is_acceptance_run(config.option):
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
        if FOLDER in item.config.stash and not any(map(item.get_closest_marker, ("nightly", "cuda_build"))):
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
    """Leave out a file that names no marker which `-m "nightly and devices"` asks for: importing all takes 15 s."""
    asked = re.findall(r"(?<!not )\b(devices|nightly|cuda_build|fault_kind)\b", config.option.markexpr)
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
