"""Healthy nodes are not rejected: the small version of benchmarks/healthy_nodes.py, whose result is in docs/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks/healthy_nodes.py"
LIMITS_ON_RATES = 11 * 8 + 1
"""Of eight H100 at level quick: of each matmul 3, stream 3, host copy 2, peer copy, soak 2; of the node all-reduce."""


def judged(*args: str) -> Any:
    done = subprocess.run([sys.executable, SCRIPT, *args], capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


def test_healthy_nodes_with_three_times_the_usual_noise_are_not_rejected() -> None:
    found = judged("--nodes", "150", "--link-cv", "0.01")
    assert found["rejected_by"] == {}
    assert found["verdicts_by_judge"] == 150 * LIMITS_ON_RATES


def test_nodes_that_are_not_healthy_are() -> None:
    """The count could be another: with ten times the noise it is."""
    assert judged("--nodes", "5", "--cv", "0.3", "--drift", "0.3")["rejected"] > 0
