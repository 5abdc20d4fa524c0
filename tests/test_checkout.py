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
TESTS = """#!/bin/sh
echo "$VENV $PYTHON $*" >>ran
test "$VENV" != "$RED"
"""


def pythons(folder: Path, *here: str, red: str = "") -> subprocess.CompletedProcess[str]:
    """Run scripts/test_pythons.sh where these versions are installed and the tests fail in the environment `red`."""
    for name in ("scripts", "bin", "pyenv/versions/3.13.1/bin"):
        (folder / name).mkdir(parents=True)
    for name in ("pyproject.toml", "scripts/test_pythons.sh"):
        shutil.copy(CHECKOUT / name, folder / name)
    programs = {"scripts/test.sh": TESTS, "bin/python3.14": PYTHON.format(127)}  # a shim of pyenv that starts nothing
    programs |= {f"bin/python{version}": PYTHON.format(0) for version in here if version != "3.13"}
    programs |= {"pyenv/versions/3.13.1/bin/python3": PYTHON.format(0)} if "3.13" in here else {}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYENV_ROOT": str(folder / "pyenv"), "RED": red}
    line = [str(folder / "scripts/test_pythons.sh"), "-k", "judge"]
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_oldest_and_the_newest_python_are_tested(tmp_path: Path) -> None:
    done = pythons(tmp_path, "3.10", "3.11", "3.13")
    newest = tmp_path / "pyenv/versions/3.13.1/bin/python3"
    ran = [".venv-3.10 python3.10 fast -k judge", f".venv-3.13 {newest} fast -k judge"]
    assert (tmp_path / "ran").read_text().splitlines() == ran
    assert done.stderr.splitlines()[-1] == "pythons: ran on 3.10 3.13; failed on none; not found: 3.12 3.14"
    assert done.returncode == 0


def test_a_test_that_fails_on_one_python_fails_the_call_after_the_other_was_tested(tmp_path: Path) -> None:
    done = pythons(tmp_path / "red", "3.10", "3.12", red=".venv-3.10")
    assert "ran on 3.10 3.12; failed on 3.10; not found: 3.11 3.13 3.14" in done.stderr
    assert done.returncode == 1
    assert pythons(tmp_path / "none").returncode == 4
