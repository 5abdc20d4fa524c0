"""The one-call session on torch's CUDA build: its steps run, and its summary has the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from node import H100, H200, HERE, Build, Node

pytestmark = pytest.mark.cuda_build

SESSION = HERE.parents[1] / "benchmarks/gpu_session.py"
PROGRAMS = {"PROGRAMS": "verify.py compare.py machine.py answers.py"}


def session(node: Node, folder: Path, *options: str, limit: float = 600.0) -> tuple[dict[str, Any], str]:
    """Return what a session on a node found, and its summary."""
    process = node.start([node.build.python, SESSION, folder, *options], folder)
    out, _ = process.communicate(timeout=limit)
    assert process.returncode == 0, out
    found = json.loads((folder / "session/session.json").read_text())
    return found, (folder / "session/session.md").read_text()


@pytest.mark.nightly
def test_the_summary_has_the_verdict_of_the_suite_and_the_figures_of_the_part(build: Build, tmp_path: Path) -> None:
    found, summary = session(Node(build, H100, 1, PROGRAMS), tmp_path, "--steps", "quick", "V2")

    assert "* quick: `ACCEPTED 1/1 devices as h100-sxm at quick (" in summary
    (row,) = found["steps"]["V2"]["rows"]
    assert row["found"]["burst TFLOPS"] == pytest.approx(float(str(H100["TFLOPS_BF16"])), rel=0.01)
    assert "burst TFLOPS 769 to 798" in row["predicted"]
    assert row["details"]["mhz_burst"] == pytest.approx(float(str(H100["SM_MHZ"])), rel=0.01), "no launch counts"


@pytest.mark.nightly
@pytest.mark.parametrize("part", [H100, H200], ids=["H100", "H200"])
def test_every_metric_of_standard_is_judged_and_none_fails(
    part: Mapping[str, object], build: Build, tmp_path: Path
) -> None:
    """In a virtual machine with one device. The stand-in computes only small data; larger results count as right."""
    found, summary = session(Node(build, part, 1, {**PROGRAMS, "MICROVM": 1}), tmp_path, "--steps", "every")

    step = found["steps"]["every"]
    assert step["result"] == "ended with 0", summary
    assert step["closing"].startswith("ACCEPTED 1/1 devices"), summary
    assert {one["status"] for one in step["verdicts"]} <= {"MARGINAL"}, summary
    assert " PASS" in step["record"], summary


@pytest.mark.nightly
def test_the_whole_session_of_a_microvm_ends_in_seven_minutes_and_no_step_breaks(build: Build, tmp_path: Path) -> None:
    """How many of the predictions fit depends on this machine: what is worth more comes first."""
    found, summary = session(Node(build, H200, 1, {**PROGRAMS, "MICROVM": 1}), tmp_path, limit=420)

    assert " 0 broke, 0 stopped" in summary
    assert all(found["steps"][name]["result"].startswith("ended with") for name in ("quick", "every", "soak"))
    assert (tmp_path / "session.tar.gz").stat().st_size < 2**20
    answers = (tmp_path / "session/answers.jsonl").read_text()
    assert '"ask": "nvmlDeviceGetName", "answer": "NVIDIA H200"' in answers
