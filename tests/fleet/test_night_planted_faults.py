"""Every planted fault of a drawn fleet is found through the files of its store, and none is invented."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.fleet.nights import database
from pytest_accel.fleet.nights.night import Night, look, window
from pytest_accel.fleet.nights.queries import StoredNights

pytestmark = pytest.mark.nightly

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
NODES, NIGHTS = 120, 14


def number(row: dict[str, Any]) -> int:
    """The number of a device of the benchmark, which its serial number tells."""
    return int(row["serial"][3:]) + 1


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], Night]]:
    """A fleet of the benchmark with what was planted, and what its last night shows."""
    sys.path.insert(0, str(BENCHMARKS))
    bench: Any = importlib.import_module("fleet_store")
    bench.LOST = 0.15  # over fourteen nights; the benchmark has thirty
    folder = tmp_path_factory.mktemp("fleet") / "store"
    planned = bench.plan(NODES, NIGHTS)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.closing(database.connect()) as connection:
        bench.draw(connection, folder, planned)
    with contextlib.closing(StoredNights(folder, window(folder, None, NIGHTS))) as fleet:
        yield planned, look(fleet)
    sys.path.remove(str(BENCHMARKS))


def test_devices_that_are_slow_and_those_that_lose_speed(drawn: tuple[dict[str, Any], Night]) -> None:
    planned, night = drawn
    sick, drifting = set(planned["sick"].items()), set(planned["drifting"].items())
    behind, losses = night.anomalies["behind"], night.anomalies["losses"]
    found = {(number(one), metric) for one in behind for metric in (one["metric"], *one["also"])}
    assert sick <= found <= sick | drifting
    assert {(number(each), each["metric"]) for each in losses} == drifting
    assert not night.anomalies["drifts"]
    assert not any(night.anomalies[each] for each in ("moved", "unlike", "absent"))


def test_repeat_offenders(drawn: tuple[dict[str, Any], Night]) -> None:
    planned, night = drawn
    assert set(map(number, night.anomalies["failed_again"])) == set(planned["failing"])
    assert set(map(number, night.anomalies["marginal_again"])) == set(planned["marginal"])


def test_an_update_and_the_limits(drawn: tuple[dict[str, Any], Night]) -> None:
    _, night = drawn
    changed = [(each["sku"], each["metric"], each["old"], each["new"]) for each in night.anomalies["updates"]]
    assert changed == [("mi300x", "matmul.bf16", "6.3.0", "6.4.1")]
    assert night.anomalies["updates"][0]["change"] == pytest.approx(-0.04, abs=0.003)
    assert [(each["sku"], each["metric"]) for each in night.anomalies["doubtful_limits"]] == [
        ("h100-sxm", "matmul.fp64")
    ]
