"""Healthy nodes are not rejected: the small version of benchmarks/healthy_nodes.py, whose result is in docs/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/healthy_nodes.py"
FILE = """
sku: known-h100
extends: h100-sxm
limits:
  matmul.bf16: &own
    {floor: %s, healthy: [690, 700], reference: 695, unit: TFLOPS, levels: [quick, standard],
     source: {kind: measured, by: a test, date: 2026-11, devices: 24, nodes: 3}}
  soak.rate: {<<: *own, floor: derived}
  stream.triad: {<<: *own, floor: derived, healthy: [2950, 3050], reference: 3000, unit: GB/s}
platforms:
  hgx8:
    limits:
      host_copy.h2d: &host {<<: *own, floor: derived, healthy: [54.6, 55.4], reference: 55, unit: GB/s}
      host_copy.d2h: *host
      peer_copy.one_way: {<<: *own, floor: derived, healthy: [395, 397.5], reference: 396, unit: GB/s}
      all_reduce.busbw@8GiB:
        {<<: *own, floor: derived, healthy: [475, 480], reference: 478, unit: GB/s, ranks: 8, algorithm: nvls}
"""


def drawn(folder: Path, *args: str, floor: str = "derived") -> str:
    """What the tool prints about nodes of a SKU whose limits may reject, whatever stands in the shipped files."""
    file = folder / "known.yaml"
    file.write_text(FILE % floor)
    command = [sys.executable, str(SCRIPT), "--sku", str(file), "--level", "quick", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def cells(text: str, row: int) -> list[str]:
    """The cells of a table's first row; `row` counts the rows of all tables that begin with the SKU."""
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [each.strip() for each in rows[row].strip("|").split("|")]


def test_healthy_nodes_are_accepted_and_a_short_part_is_found(tmp_path: Path) -> None:
    text = drawn(tmp_path, "--nodes", "20")
    assert "20 healthy nodes, 0 rejected" in text
    _, _, _, _, host, peers, collectives = cells(text, 1)[1:]
    assert {host, peers, collectives} == {"100% / 100%"}


@pytest.mark.slow
def test_a_floor_above_what_is_published_as_healthy_rejects(tmp_path: Path) -> None:
    """The population is not made of the floors that it tests: it shows a wrong one."""
    text = drawn(tmp_path, "--nodes", "10", floor="688")
    assert "FAIL | `matmul.bf16`" in text
    assert "10 healthy nodes, 0 rejected" not in text


@pytest.mark.slow
def test_nodes_that_are_not_healthy_are_rejected(tmp_path: Path) -> None:
    """The count could be another: with ten times the noise it is."""
    assert "10 healthy nodes, 0 rejected" not in drawn(tmp_path, "--nodes", "10", "--noise", "10")
