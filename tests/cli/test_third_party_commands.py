"""Subcommands that other packages bring by the entry points `pytest_accel_commands`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import as_user

MODULE = """
DESCRIPTION = "Order spare parts."

def add(parser):
    parser.add_argument("--part", required=True)

def run(chosen):
    print(f"ordered {chosen.part}")
    return 0
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder in which a package is installed that brings the commands order, broken, and one that is ours already."""
    (tmp_path / "acme_order.py").write_text(MODULE)
    (tmp_path / "acme_broken.py").write_text("import no_such_module\n")
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pytest_accel_commands]\norder = acme_order\nbroken = acme_broken\njudge = acme_broken\n"
    )
    return tmp_path


def command(site: Path, *words: str) -> tuple[int, str]:
    env = as_user.environment({"PYTHONPATH": str(site)})
    line = [str(as_user.BIN / "pytest-accel"), *words]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_command_of_another_package_is_listed_and_run(site: Path) -> None:
    assert command(site, "order", "--part=fan") == (0, "ordered fan\n")
    assert "of acme" in command(site, "--help")[1]
    status, said = command(site, "order")
    assert status == 4
    assert "pytest-accel order: error: the following arguments are required: --part" in said


def test_one_that_cannot_be_imported_is_named_with_its_package(site: Path) -> None:
    assert command(site, "broken") == (
        4, "broken of acme cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'\n"
    )  # fmt: skip


def test_none_takes_the_place_of_ours(site: Path) -> None:
    assert "record.json" in command(site, "judge", "--help")[1]
