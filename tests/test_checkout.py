"""The commands of a checkout: an acceptance run is not held to the rules of our tests, which find few programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import as_user
import pytest

CHECKOUT = Path(__file__).parent.parent
NOISY = """
import warnings

def pytest_collection_finish(session):
    warnings.warn("a library of the node is old")
"""


@pytest.mark.slow
def test_a_warning_on_the_node_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    options = ("-p", "noisy", "--accel-simulate=h100-sxm", "--collect-only", "-q")
    env = {"PYTHONPATH": str(tmp_path)}
    ran = as_user.pytest(CHECKOUT, *options, sku=None, paths=(), output=tmp_path / "out", env=env)

    assert ran.exit == 0, ran.out
    assert "test_matmul" in ran.out
    assert "UserWarning: a library of the node is old" in ran.out


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"PYTHON": "nosuch"}, "no 'nosuch' here"),
        ({"VENV": "/proc/nowhere"}, "'/proc/nowhere' cannot be written to"),
        ({"VENV": "tests"}, "'tests' is there and was not made by this script"),
    ],
)
def test_a_wrong_setting_is_no_rejected_node(setting: dict[str, str], said: str) -> None:
    """Automation returns hardware on exit status 1."""
    done = accept(**setting)

    assert done.returncode == 4, done.stderr
    assert said in done.stderr


@pytest.mark.slow
def test_a_failed_installation_is_no_rejected_node(tmp_path: Path) -> None:
    done = accept(VENV=str(tmp_path / "venv"), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))

    assert done.returncode == 3, done.stderr
    assert "pip failed; its words are above" in done.stderr


def accept(**more: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/accept.sh with some settings."""
    env = {**os.environ, "PYTHON": sys.executable, **more}
    script = CHECKOUT / "scripts" / "accept.sh"
    return subprocess.run([script], env=env, capture_output=True, text=True, timeout=120, check=False)


# -- our own tests


def test_a_quick_test_finds_no_program_that_not_every_machine_has() -> None:
    """Slurm or a monitoring agent would be asked by what is tested."""
    (folder,) = os.environ["PATH"].split(os.pathsep)
    assert {"bash", "cat", "sleep"} <= {path.name for path in Path(folder).iterdir()}
    assert [name for name in ("apt-get", "dpkg", "dnf", "lspci", "python3", "systemctl") if shutil.which(name)] == []


PYTHON = "#!/bin/sh\nexit {}\n"
