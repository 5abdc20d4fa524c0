"""pytest-benchmark comes with this package: it is not seen where nobody uses it, and works where somebody does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import as_user

PLAIN = "def test_plain():\n    pass\n"
TIMED = "def test_timed(benchmark):\n    benchmark.pedantic(list)\n"
MARKED = """
import pytest

@pytest.mark.benchmark(group="g")
def test_marked(request):
    request.getfixturevalue("benchmark").pedantic(list)
"""
OURS, THEIRS = "pytest_accel.plugin", "pytest_benchmark.plugin"
HEADER = "benchmark: "
"""The beginning of the line in the header of pytest."""


def run(folder: Path, text: str, *options: str, plugins: tuple[str, ...] = (OURS, THEIRS)) -> list[str]:
    """Run a test file with these plugins in this order, and return the lines that pytest prints."""
    (folder / "test_it.py").write_text(text)
    named = [f"-p{each}" for each in (*plugins, "no:cacheprovider")]
    line = [str(as_user.BIN / "pytest"), *named, *options]
    env = as_user.environment({"PYTHONDONTWRITEBYTECODE": "1"}, autoload=False)
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def left(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def headers(lines: list[str]) -> int:
    return sum(each.startswith(HEADER) for each in lines)


@pytest.mark.parametrize("plugins", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours-first", "theirs-first"])
def test_a_run_that_does_not_use_it_shows_and_leaves_nothing(tmp_path: Path, plugins: tuple[str, ...]) -> None:
    assert headers(run(tmp_path, PLAIN, plugins=plugins)) == 0
    assert left(tmp_path) == ["test_it.py"]


def test_the_help_of_pytest_leaves_nothing(tmp_path: Path) -> None:
    assert any("--benchmark-save" in each for each in run(tmp_path, PLAIN, "--help"))
    assert left(tmp_path) == ["test_it.py"]


@pytest.mark.parametrize(
    ("text", "plugins"), [(TIMED, (OURS, THEIRS)), (MARKED, (THEIRS, OURS))], ids=["fixture", "marker"]
)
def test_a_run_that_uses_it_shows_its_line_and_its_table(tmp_path: Path, text: str, plugins: tuple[str, ...]) -> None:
    lines = run(tmp_path, text, plugins=plugins)
    (place,) = [number for number, each in enumerate(lines) if each.startswith(HEADER)]
    assert lines[place - 1].startswith("collected ")
    assert any("Median" in each for each in lines)


@pytest.mark.parametrize("options", [["--benchmark-disable"], ["-oaddopts=--benchmark-sort=max"]], ids=" ".join)
def test_whoever_gives_one_of_its_options_gets_its_header(tmp_path: Path, options: list[str]) -> None:
    lines = run(tmp_path, PLAIN, *options)
    (place,) = [number for number, each in enumerate(lines) if each.startswith(HEADER)]
    assert place < lines.index("collected 1 item")


def test_what_it_saves_is_compared_and_stays(tmp_path: Path) -> None:
    run(tmp_path, TIMED, "--benchmark-save=first")
    run(tmp_path, TIMED)
    compared = run(tmp_path, TIMED, "--benchmark-compare")
    assert any("0001_first" in each for each in compared)


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".benchmarks").mkdir()
    run(tmp_path, PLAIN)
    assert (tmp_path / ".benchmarks").is_dir()
