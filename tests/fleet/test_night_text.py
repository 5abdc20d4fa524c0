"""A night of a store as text, JSON and metrics, from records to what a reader sees."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import fleet_nights, known_good_nodes

from pytest_accel.cli import main
from pytest_accel.core.verdict import Status

NODES, NIGHTS = 4, 3
HOSTILE = '"><script>alert(1)</script>\x1b[2J\u202e'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nights of four nodes: a slow device, one that fails twice, one that is MARGINAL twice, a hostile name."""
    folder = tmp_path_factory.mktemp("fleet")
    for night in range(NIGHTS):
        for node in range(NODES):
            statuses = {}
            if node == 1 and night:
                statuses = {(2, "stream.triad"): Status.FAIL, (5, "matmul.bf16"): Status.MARGINAL}
            made = fleet_nights.record(node, night, statuses=statuses, short={3: 0.13} if node == 2 else None)
            if node == 3:
                made = replace(made, info={**made.info, "host": HOSTILE})
            known_good_nodes.save(made, folder / "records" / f"{night}-{node}")
    assert main.main(["store", "add", str(folder / "store"), str(folder / "records")]) == 0
    return folder / "store"


def shown(store: Path, form: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main.main(["store", "show", str(store), "--format", form, *words]) == 1
    return capsys.readouterr().out


def test_the_text_tells_the_worst_first(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(store, "text", capsys)
    lines = text.splitlines()
    assert lines[0] == "2026-11-03: 4 nodes, 32 devices; compared with 2 nights from 2026-11-01 on"
    assert lines[1] == "runs: 2 HELD, 2 REJECTED"
    assert len(lines) <= 60
    outlier = next(line for line in lines if line.startswith("  rack7-n02 gpu3"))
    assert re.search(r" of \d+ GB/s  -1\d\.\d%  FAIL; also ", outlier)
    assert "16500023" in outlier
    assert any(line.startswith("  rack7-n02 gpu3") and "3 runs" in line and "host_copy.h2d" in line for line in lines)
    assert any(line.startswith("  rack7-n01 gpu5") and "2 of 3 nights" in line for line in lines)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_json_is_complete(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(store, "json", capsys))
    assert found["exit"] == 1
    (behind,) = found["anomalies"]["behind"]
    assert (behind["location"], behind["serial"]) == ("rack7-n02 gpu3", "16500023")
    assert sorted([behind["metric"], *behind["also"]]) == ["host_copy.h2d", "matmul.bf16", "stream.triad"]
    assert len(found["runs"]) == NODES


def test_one_night_and_an_earlier_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "repeated failures (" not in shown(store, "text", capsys, "--nights", "1")
    assert shown(store, "text", capsys, "--night", "2026-11-01").startswith(
        "2026-11-01: 4 nodes, 32 devices; no night before it"
    )
    assert main.main(["store", "show", str(store), "--night", "2026-12-01"]) == 4
    assert "holds no night 2026-12-01" in capsys.readouterr().err


def test_the_metrics_have_few_labels(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    families = {each.name: each for each in text_string_to_metric_families(shown(store, "prometheus", capsys))}
    assert {each.labels["kind"]: each.value for each in families["accel_fleet_anomalies_by_kind"].samples}[
        "behind"
    ] == 1
    medians = {each.labels["metric"]: each.value for each in families["accel_fleet_median_bytes_per_second"].samples}
    assert medians["stream.triad"] == pytest.approx(2.95e12, rel=0.01)
    (lost,) = families.pop("accel_fleet_lost_ratio").samples
    assert (lost.labels["kind"], lost.labels["location"], lost.labels["node"]) == (
        "behind",
        "rack7-n02 gpu3",
        "rack7-n02",
    )
    assert lost.value == pytest.approx(0.15, abs=0.03)
    labels = {label for each in families.values() for sample in each.samples for label in sample.labels}
    assert not labels & {"node", "device", "uuid", "serial"}
