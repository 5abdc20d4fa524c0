"""The one-call session on torch's CUDA build: its steps run, and its summary has the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from node import H100, H200, HERE, Build, Node

pytestmark = pytest.mark.cuda_build

SESSION = HERE.parents[1] / "benchmarks/gpu_session.py"
PROGRAMS = {"PROGRAMS": "verify.py compare.py machine.py"}


def test_the_summary_has_the_verdict_of_the_suite_and_the_figures_of_the_part(build: Build, tmp_path: Path) -> None:
    command: list[str | Path] = [build.python, SESSION, tmp_path, "--platform", "single", "--steps", "quick", "V2"]
    process = Node(build, H100, 1, PROGRAMS).start(command, tmp_path)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert "* quick: `ACCEPTED 1/1 devices as h100-sxm at quick (" in (tmp_path / "session/session.md").read_text()
    found = json.loads((tmp_path / "session/session.json").read_text())
    (row,) = found["steps"]["V2"]["rows"]
    assert row["found"]["burst TFLOPS"] == pytest.approx(float(str(H100["TFLOPS_BF16"])), rel=0.01)
    assert "burst TFLOPS 769 to 798" in row["predicted"]


@pytest.mark.nightly
def test_the_whole_session_of_a_microvm_ends_in_nine_minutes_and_no_step_breaks(build: Build, tmp_path: Path) -> None:
    process = Node(build, H200, 1, {**PROGRAMS, "MICROVM": 1}).start(
        [build.python, SESSION, tmp_path, "--platform", "single"], tmp_path
    )
    out, _ = process.communicate(timeout=540)
    summary = (tmp_path / "session/session.md").read_text()
    assert "Steps: 14 ran to their end, 0 broke, 0 stopped" in summary, out
    assert (tmp_path / "session.tar.gz").stat().st_size < 2**20
