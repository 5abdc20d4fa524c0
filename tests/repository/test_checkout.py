"""The commands of a checkout: an acceptance run is not held to the rules of our tests, which find few programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import small_wheels
from support import as_user

CHECKOUT = Path(__file__).parents[2]
ACCEPT = CHECKOUT / "scripts" / "accept.sh"
NOISY = """
import warnings

def pytest_collection_finish(session):
    warnings.warn("a library of the node is old")
"""


@pytest.mark.nightly
def test_a_warning_on_the_node_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    options = ("-p", "noisy", "--accel-simulate=h100-sxm", "--collect-only", "-q")
    env = {"PYTHONPATH": str(tmp_path)}
    ran = as_user.pytest(CHECKOUT, *options, sku=None, paths=(), output=tmp_path / "out", env=env)

    assert ran.exit == 0, ran.out
    assert "test_matmul" in ran.out
    assert "UserWarning: a library of the node is old" in ran.out


@pytest.mark.parametrize(
    ("setting", "said", "again"),
    [
        ({"PYTHON": "nosuch"}, "no 'nosuch' here", "PYTHON=/path/to/python3 {}"),
        ({"VENV": "/proc/nowhere"}, "'/proc/nowhere' cannot be written to", "VENV=DIR PYTHON={python} {}"),
        ({"VENV": "tests"}, "'tests' is there and was not made by this script", "VENV=DIR PYTHON={python} {}"),
    ],
)
def test_a_wrong_setting_is_no_rejected_node(setting: dict[str, str], said: str, again: str) -> None:
    """Automation returns hardware on exit status 1. The hint is the command that was typed, with another setting."""
    done = accept("-k", "gpu3 or gpu4", **setting)
    typed = f"{ACCEPT} -k gpu3\\ or\\ gpu4"

    assert done.returncode == 4, done.stderr
    assert said in done.stderr
    assert done.stderr.endswith(f": {again.format(typed, python=sys.executable)}\n")


@pytest.mark.nightly
def test_whoever_typed_make_reads_make() -> None:
    done = ran(["make", "-C", CHECKOUT, "lint", "PYTHON=nosuch"])
    assert "Name a Python 3.10 or newer: make lint PYTHON=/path/to/python3\n" in done.stderr


@pytest.mark.nightly
def test_a_failed_installation_is_no_rejected_node(tmp_path: Path) -> None:
    done = accept(**index(tmp_path))

    assert done.returncode == 3, done.stderr
    assert "pip failed; its words are above" in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("build", "free", "said"),
    [
        ("2.13.0", 6_000, "7.4 GB are needed on the disk of {venv}, 6.0 GB are free: VENV=DIR "),
        ("2.13.0", 7_000, "pip failed"),
        ("2.13.0+cpu", 300, "1.2 GB are needed on the disk of {venv}, 0.3 GB are free: VENV=DIR "),
        ("2.13.0+cpu", 1_300, "pip failed"),
    ],
)
def test_a_disk_without_room_for_torch_is_seen_before_the_download(
    tmp_path: Path, build: str, free: int, said: str
) -> None:
    """A build for CPUs is small; a disk that is nearly large enough is tried."""
    settings = index(tmp_path, torch=build)
    df = tmp_path / "df"
    df.write_text(f"#!/bin/sh\necho size of the file system\necho /dev/a 0 0 {free}000 0% /\n")
    df.chmod(0o755)
    done = accept(**settings, PATH=f"{tmp_path}:{os.environ['PATH']}")

    assert done.returncode == 3, done.stderr
    assert said.format(venv=settings["VENV"]) in done.stderr
    assert Path(settings["VENV"]).exists() == (said == "pip failed")


@pytest.mark.nightly
def test_the_tools_of_development_are_in_an_environment_of_their_own(tmp_path: Path) -> None:
    """It has no second torch, and no plugin of it is loaded by an acceptance run."""
    copy = tmp_path / "copy"
    shutil.copytree(CHECKOUT / "scripts", copy / "scripts")
    (copy / "constraints.txt").write_text("torch==2\n")
    shutil.copy(small_wheels.__file__, copy)
    backend = '[build-system]\nrequires = []\nbuild-backend = "small_wheels"\nbackend-path = ["."]\n'
    (copy / "pyproject.toml").write_text(backend)
    program = "import sys, torch\ndef main():\n    print(sys.prefix, torch.__file__, sep='\\n')\n"
    command = "[console_scripts]\npytest = pytest:main\n"
    small_wheels.wheel(tmp_path, "torch", {"torch/__init__.py": "", "torch/version.py": "__version__ = '2'"})
    small_wheels.wheel(tmp_path, "tools", {"tools.py": ""})
    small_wheels.wheel(tmp_path, "pytest", {"pytest.py": program, "pytest-2.dist-info/entry_points.txt": command})
    settings = {**index(tmp_path), "VENV": ""}

    developing = ran([copy / "scripts" / "test.sh", "fast"], **settings)
    assert developing.returncode == 0, developing.stderr
    accepting = ran([copy / "scripts" / "accept.sh"], **settings)

    assert accepting.returncode == 0, accepting.stderr
    assert "making" not in accepting.stderr
    assert accepting.stdout.splitlines()[0] == str(copy / ".venv")
    assert not list((copy / ".venv").rglob("tools.py"))
    assert list((copy / ".venv-dev").rglob("tools.py"))
    assert not list((copy / ".venv-dev").rglob("torch"))
    tests = ran([copy / ".venv-dev" / "bin" / "pytest"])
    assert tests.stdout.splitlines() == [str(copy / ".venv-dev"), accepting.stdout.splitlines()[1]]


def index(folder: Path, torch: str = "") -> dict[str, str]:
    """Return settings under which pip reaches no index but a folder, which names one build of torch."""
    if torch:
        (folder / f"torch-{torch}-py3-none-any.whl").touch()
    return {"VENV": str(folder / "venv"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def accept(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/accept.sh with some settings."""
    return ran([ACCEPT, *words], **{"PYTHON": sys.executable, **more})


def ran(command: Sequence[str | Path], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command with some settings, and none that a run of these tests by make has."""
    env = {name: value for name, value in os.environ.items() if name not in ("TYPED", "VENV", "PYTHON", "MAKEFLAGS")}
    return subprocess.run(command, env={**env, **more}, capture_output=True, text=True, timeout=120, check=False)


# -- our own tests


def test_a_quick_test_finds_no_program_that_not_every_machine_has() -> None:
    """Slurm or a monitoring agent would be asked by what is tested."""
    (folder,) = os.environ["PATH"].split(os.pathsep)
    assert {"bash", "cat", "sleep"} <= {path.name for path in Path(folder).iterdir()}
    assert [name for name in ("apt-get", "dpkg", "dnf", "lspci", "python3", "systemctl") if shutil.which(name)] == []
