"""What the nights of a fleet show: outliers, trends, updates, repeat offenders, limits."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import fleet_nights
import known_good_nodes
import pytest

from pytest_accel.cli import main
from pytest_accel.core.verdict import Status, Waiver
from pytest_accel.fleet.nights import database, queries, store
from pytest_accel.fleet.nights.findings import (
    FigureKind,
    Fired,
    Group,
    Pace,
    SpeedTrend,
    Subject,
    Update,
    outlier,
    speed_trend,
)
from pytest_accel.fleet.nights.queries import StoredNights

KIND = FigureKind("h100-sxm", "hgx8", "quick", "stream.triad", "GB/s", "ab12cd34")
TIME = FigureKind("h100-sxm", "hgx8", "quick", "ddp.step_ms", "ms", "ab12cd34")
SUBJECT = Subject("GPU-1", "n1", "gpu0")
DAY = date(2026, 11, 1)


def group(kind: FigureKind = KIND, *, count: int = 800, nodes: int = 100, mad: float = 5.0) -> Group:
    return Group(kind, "580.95", count, nodes, 2950.0, mad)


def test_an_outlier_is_as_far_behind_as_no_healthy_device() -> None:
    """Six robust deviations: 5 GB/s of MAD are 7.4 GB/s, and 6 of them 44.5 GB/s."""
    assert outlier(SUBJECT, 2950 - 46, "PASS", group())
    assert outlier(SUBJECT, 2950 - 43, "PASS", group()) is None
    assert outlier(SUBJECT, 2950 + 400, "PASS", group()) is None
    slow = outlier(SUBJECT, 3300.0, "PASS", group(TIME))
    assert slow
    assert slow.behind == pytest.approx(1 - 2950 / 3300)


def test_devices_that_hardly_differ_have_a_floor_on_their_spread() -> None:
    """A tenth of a percent is far behind if all others are equal to the last digit, and costs nobody anything."""
    assert outlier(SUBJECT, 2950 * 0.995, "PASS", group(mad=0.0)) is None
    assert outlier(SUBJECT, 2950 * 0.985, "PASS", group(mad=0.0))


def test_few_devices_or_nodes_tell_no_outlier() -> None:
    assert group().enough
    assert not group(count=19).enough
    assert not group(count=24, nodes=3).enough


def trend(values: Sequence[float], kind: FigureKind = KIND, shared: float = 0.0) -> SpeedTrend | None:
    """What the nights of a device show, the line through which is that of the store."""
    rows = ", ".join(f"(DATE '{DAY + timedelta(days=at)}', {value!r}::FLOAT)" for at, value in enumerate(values))
    with contextlib.closing(database.connect()) as connection:
        nights = f"SELECT *, epoch(night) / 86400 AS day, ln(value) AS y FROM (VALUES {rows}) f(night, value)"  # noqa: S608
        query = f"SELECT nights, since, days, first, pace, error FROM (SELECT {queries.PACE} FROM ({nights}))"  # noqa: S608
        (found,) = connection.execute(query).fetchall()
    return speed_trend(Pace(kind, SUBJECT, "580.95", "96.00", *found), shared)


def drawn(nights: int, slope: float = 0.0, seed: int = 18) -> list[float]:
    noise = random.Random(seed)  # noqa: S311
    return [2950.0 * (1 + slope * each + noise.gauss(0, 0.003)) for each in range(nights)]


def test_a_device_that_loses_speed_every_night_is_found() -> None:
    found = trend(drawn(30, -0.001))
    assert found
    assert found.loss == pytest.approx(0.029, abs=0.004)
    assert found.last == pytest.approx(found.first * (1 - found.loss))
    assert trend([1 / each for each in drawn(30, -0.001)], TIME)


def test_noise_and_a_gain_are_no_trend() -> None:
    assert not [seed for seed in range(200) if trend(drawn(30, seed=seed))]
    assert trend(drawn(30, 0.002)) is None
    assert trend(drawn(10, -0.01))


def test_a_loss_that_the_whole_fleet_shares_is_not_the_device_s() -> None:
    assert trend(drawn(30, -0.001), shared=-0.001) is None


def test_one_bad_night_is_no_trend() -> None:
    pace = drawn(30)
    pace[-1] *= 0.8
    assert trend(pace) is None


def fired(failing: int = 0, marginal: int = 0, margin: float | None = 0.05, since: int = 0) -> Fired:
    counts = (100, 800, failing, marginal, since or failing)
    return Fired("h100-sxm", "hgx8", "quick", "stream.triad", 2700.0, None, *counts, margin)


def test_limits_that_fire_on_too_many_nodes_or_never() -> None:
    assert fired(31).too_often
    assert not fired(30).too_often
    assert fired(margin=0.2).never
    for other in (fired(margin=0.05), fired(marginal=1, margin=0.2), fired(since=1, margin=0.2), fired(margin=None)):
        assert not other.never


def test_a_change_with_an_update_has_to_be_certain_and_large() -> None:
    def update(change: float, mad: float = 0.002, devices: int = 80) -> Update:
        return Update(KIND, "driver", "570", "580", devices, 10, 2950.0, 2950 * (1 + change), change, mad)

    assert update(-0.03).found
    assert update(-0.03).slower
    assert not update(0.03).slower
    assert not update(-0.005).found, "nothing that costs anybody anything"
    assert not update(-0.03, mad=0.05, devices=8).found, "within what single devices change"
    assert not update(-0.03, devices=2).found


# -- from records to what is shown


def run(*words: object) -> int:
    return main.main(["store", *map(str, words)])


@pytest.mark.slow
def test_a_waived_failure_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node that is accepted with a waiver night after night is no repeat offender."""
    serial = fleet_nights.record(1).devices[2].serial
    waiver = Waiver("stream.triad", "known", "owner", date(2027, 1, 1))
    for night in range(2):
        made = fleet_nights.record(1, night, statuses={(2, "stream.triad"): Status.FAIL}, accepts=True)
        verdicts = [replace(each, waiver=waiver if each.status is Status.FAIL else None) for each in made.verdicts]
        fleet_nights.save(known_good_nodes.closed(replace(made, verdicts=verdicts)), tmp_path / "records")
    run("add", tmp_path / "store", tmp_path / "records")
    capsys.readouterr()
    assert run("show", tmp_path / "store") == 0
    assert "1 WAIVED" in capsys.readouterr().out
    assert run("device", tmp_path / "store", serial) == 0
    assert "2026-11-02  WAIVED  stream.triad" in capsys.readouterr().out
    with contextlib.closing(StoredNights(tmp_path / "store", store.nights(tmp_path / "store"))) as fleet:
        (limit,) = (each for each in fleet.limits() if each.metric == "stream.triad")
    assert (limit.failing_nodes, limit.fails_since) == (0, 2), "it fired, so it is no limit that finds nothing"


def test_a_device_that_is_gone_is_no_repeat_offender(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless its node has a run tonight that did not end, which may be its doing."""
    for night in range(2):
        failing = fleet_nights.record(1, night, statuses={(2, "stream.triad"): Status.FAIL})
        fleet_nights.save(failing, tmp_path / "records")
    fleet_nights.save(fleet_nights.record(2, 2), tmp_path / "records")
    place = tmp_path / "store"
    run("add", place, tmp_path / "records")
    assert run("show", place, "--night", "2026-11-02") == 1
    capsys.readouterr()
    assert run("show", place) == 1  # since the node was rejected in the night before, and not judged since
    assert "failed again (" not in capsys.readouterr().out
    broken = replace(fleet_nights.record(1, 2), state="running", closing={})
    run("add", place, fleet_nights.save(broken, tmp_path / "broken"))
    capsys.readouterr()
    assert run("show", place) == 1
    assert "failed again (1)" in capsys.readouterr().out


def test_a_device_with_two_drivers_is_one_of_the_devices_that_get_slower(tmp_path: Path) -> None:
    """Twelve devices are too few to say that the fleet does, however often their driver changed."""
    place = tmp_path / "store"
    run("add", place, fleet_nights.save(fleet_nights.record(1), tmp_path / "records"))
    connection = database.connect()
    for night in range(20):
        folder = place / f"night=2026-12-{night + 1:02}"
        folder.mkdir()
        shutil.copy(place / "night=2026-11-01" / "runs.parquet", folder)
        drawn = f"""
            SELECT f.* REPLACE (number::VARCHAR AS uuid, DATE '{folder.name[6:]}' AS night,
                                {night // 10}::VARCHAR AS driver, (100 - {night % 10})::FLOAT AS value)
            FROM read_parquet('{place}/night=2026-11-01/figures.parquet') f, range(1, 13) t(number)
            WHERE f.metric = 'stream.triad' AND f.name = 'gpu0'
        """  # noqa: S608
        connection.execute(f"COPY ({drawn}) TO '{folder}/figures.parquet'")
    connection.close()
    with contextlib.closing(StoredNights(place, store.nights(place)[1:])) as fleet:
        found, drifts = fleet.trends()
    assert len(found) == 12
    assert not drifts


@pytest.mark.slow
def test_only_a_series_that_reaches_tonight_loses_speed(tmp_path: Path) -> None:
    """Two devices lose speed for eleven nights; one of them is gone, or has another driver, on the last."""
    for night in range(11):
        for node in (1, 2, 3):
            driver = "590.1" if night == 10 and node == 2 else "580.95.05"
            made = fleet_nights.record(node, night, short={0: 0.015 * night})
            kept = replace(made, software={**made.software, "driver": driver})
            if node != 3 or night < 10:
                fleet_nights.save(kept, tmp_path / "records")
    place = tmp_path / "store"
    run("add", place, tmp_path / "records")
    with contextlib.closing(StoredNights(place, store.nights(place))) as fleet:
        assert {each.subject.node for each in fleet.trends()[0]} == {"rack7-n01"}
    with contextlib.closing(StoredNights(place, store.nights(place)[:-1])) as fleet:
        assert {each.subject.node for each in fleet.trends()[0]} == {"rack7-n01", "rack7-n02", "rack7-n03"}
