"""Anomalies in the nights of a fleet, from figures and from records."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import fleet_nights, known_good_nodes

from pytest_accel.cli import main
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Closing, Status, Waiver
from pytest_accel.fleet.nights import database, night_store, questions
from pytest_accel.fleet.nights.night import Night, look
from pytest_accel.fleet.nights.queries import LOCATIONS, StoredNights
from pytest_accel.judging.verdicts.distance import RULES

FIRST = date(2026, 11, 1)
METRICS = {
    "stream.triad": ("GB/s", 2950.0, 0.002),
    "matmul.bf16": ("TFLOPS", 715.0, 0.01),
    "ddp.step_ms": ("ms", 31.0, 0.002),
}
Drawn = dict[str, Any]
"""A figure as a row of figures.parquet."""


def figures(nodes: int, nights: int, change: Callable[[Drawn, int, int], Any], devices: int = 8) -> list[Drawn]:
    """Draw the figures of some nights. `change` gets each, the night and the node; with False it is left out."""
    drawn = random.Random(18)  # noqa: S311
    own = {(node, place, metric): drawn.gauss(1, spread) for metric, (_, _, spread) in METRICS.items()
           for node in range(nodes) for place in range(devices)}  # fmt: skip
    rows = []
    for night in range(nights):
        for node in range(nodes):
            for place in range(devices):
                for metric, (unit, centre, _) in METRICS.items():
                    row = {
                        "run": f"{night}/{node}", "night": FIRST + timedelta(night), "node": f"n{node:03}",
                        "uuid": f"GPU-{node:03}-{place}", "serial": f"165{node:03}{place}", "name": f"gpu{place}",
                        "slot": "", "model": "m", "vbios": "96.00", "metric": metric, "unit": unit, "method": "ab12",
                        "value": centre * own[node, place, metric] * drawn.gauss(1, 0.001), "status": "PASS",
                        "floor": None, "ceiling": None, "code": "", "sku": "h100-sxm", "platform": "hgx8",
                        "level": "quick", "driver": "580",
                    }  # fmt: skip
                    if change(row, night, node) is not False:
                        rows.append(row)
    return rows


def found_in(folder: Path, rows: list[Drawn], places: str = "") -> Night:
    """Write a store of these figures, with a run for each node and night, and look at its last night."""
    place = folder / "store"
    place.mkdir(parents=True)
    (place / night_store.ABOUT).write_text(json.dumps({"schema": 1, "simulated": False}))
    if places:
        (place / LOCATIONS).write_bytes(places.encode())
    connection = database.connect()
    lines = folder / "rows.jsonl"
    lines.write_text("\n".join(json.dumps(each, default=str) for each in rows))
    connection.execute(f"CREATE TABLE rows AS FROM read_json('{lines}')")
    floats = "CAST(floor AS FLOAT) AS floor, CAST(ceiling AS FLOAT) AS ceiling, CAST(value AS FLOAT) AS value"
    for night in sorted({each["night"] for each in rows}):
        where = night_store.folder_of(place, night.isoformat())
        where.mkdir()
        tonight = f"SELECT * REPLACE ({floats}) FROM rows WHERE night = DATE '{night}'"  # noqa: S608
        database.write(connection, f"FROM ({tonight}) {night_store.SORTED}", where / night_store.FIGURES)
        runs = f"""
            SELECT any_value(run) AS id, '' AS content, 'r.json' AS record, any_value(night) AS night, node,
                   '{night}T02:00:00+00:00' AS started, '' AS ended, 'finished' AS state, 'ACCEPTED' AS result,
                   'ACCEPTED' AS line, 0 AS exit, any_value(sku) AS sku, 'hgx8' AS platform, 'quick' AS level,
                   any_value(driver) AS driver, '' AS torch, '' AS version, false AS simulated,
                   string_agg(DISTINCT uuid, ' ') AS uuids
            FROM ({tonight}) GROUP BY node
        """  # noqa: S608
        database.write(connection, runs, where / night_store.RUNS)
    connection.close()
    with contextlib.closing(StoredNights(place, night_store.nights(place))) as fleet:
        return look(fleet)


def told(night: Night, *but: str) -> dict[str, list[Any]]:
    """What a night shows, by question: place and metric of each."""
    keys = ("location", "node", "name", "night", "nodes")
    return {
        name: [(next((row[key] for key in keys if row.get(key)), ""), row.get("metric")) for row in rows]
        for name, rows in night.anomalies.items()
        if rows and name not in but
    }


def loses(share: float, metric: str = "stream.triad") -> Callable[[Drawn], None]:
    def change(row: Drawn) -> None:
        if row["metric"] == metric:
            row["value"] *= 1 / (1 - share) if row["unit"] == "ms" else 1 - share

    return change


RACKS = "node,rack,feed\n" + "".join(f"n{node:03},r{node // 3},f{node // 12}\n" for node in range(24))


def test_the_columns_of_a_list_of_places_may_stand_apart(tmp_path: Path) -> None:
    assert told(found_in(tmp_path, figures(4, 1, lambda *_: None), "rack, node\nr1,n001\n")) == {}


def test_nothing_is_found_in_a_healthy_fleet(tmp_path: Path) -> None:
    assert told(found_in(tmp_path, figures(24, 12, lambda *_: None), RACKS)) == {}


@pytest.mark.parametrize("metric", METRICS)
def test_a_device_far_behind_its_like_since_a_night(metric: str, tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> None:
        if node == 5 and row["name"] == "gpu3" and night >= 8:
            loses(0.1, metric)(row)

    night = found_in(tmp_path, figures(24, 12, change))
    assert told(night) == {"behind": [("n005 gpu3", metric)], "losses": [("n005 gpu3", metric)]}
    (row,) = night.anomalies["behind"]
    assert row["since"] == date(2026, 11, 9)
    assert row["lost"] == pytest.approx(0.1, abs=0.03)
    assert night.anomalies["losses"][0]["step"]
    assert night.exit == 1


def test_a_rack_that_is_slow_is_one_anomaly_and_says_since_when(tmp_path: Path) -> None:
    """Three percent of a product whose devices differ by one: no device alone is an outlier."""

    def change(row: Drawn, night: int, node: int) -> None:
        if node // 3 == 2 and night >= 4:
            loses(0.03, "matmul.bf16")(row)

    night = found_in(tmp_path, figures(24, 12, change), RACKS)
    (row,) = night.anomalies["behind"]
    assert (row["what"], row["location"], row["metric"], row["since"]) == (
        "rack",
        "r2",
        "matmul.bf16",
        date(2026, 11, 5),
    )
    assert told(night, "behind") == {}, "the rack explains its devices"


def test_a_node_whose_devices_are_all_slow_is_one_finding(tmp_path: Path) -> None:
    night = found_in(tmp_path, figures(24, 1, lambda row, _, node: loses(0.03)(row) if node == 7 else None))
    assert told(night) == {"behind": [("n007", "stream.triad")]}


def test_a_device_that_is_worse_than_its_slow_rack_is_told_beside_it(tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> None:
        if node // 3 == 2:
            loses(0.3 if (node, row["name"]) == (6, "gpu1") else 0.04)(row)

    assert told(found_in(tmp_path, figures(24, 1, change), RACKS)) == {
        "behind": [("n006 gpu1", "stream.triad"), ("r2", "stream.triad")]
    }


@pytest.mark.nightly
def test_a_slow_loss_is_found_and_one_that_the_fleet_shares_is_the_fleet_s(tmp_path: Path) -> None:
    def one(row: Drawn, night: int, node: int) -> None:
        if node == 5 and row["name"] == "gpu3":
            loses(0.002 * night)(row)

    night = found_in(tmp_path / "one", figures(24, 14, one))
    assert "losses" in told(night)
    assert not night.anomalies["losses"][0]["step"]
    night = found_in(tmp_path / "all", figures(24, 14, lambda row, night, _: loses(0.002 * night)(row)))
    assert list(told(night)) == ["drifts"]


def test_one_bad_night_is_no_loss_over_the_nights(tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> None:
        if node == 5 and row["name"] == "gpu3" and night == 11:
            loses(0.2)(row)

    assert list(told(found_in(tmp_path, figures(24, 12, change)))) == ["behind"]


def test_few_devices_tell_their_own_losses_alone(tmp_path: Path) -> None:
    """Twelve devices are too few to say that the fleet loses, or who is behind."""
    night = found_in(tmp_path, figures(3, 14, lambda row, night, _: loses(0.004 * night)(row), devices=4))
    assert list(told(night)) == ["losses"]
    assert len(night.anomalies["losses"]) == 12


def test_a_series_ends_with_an_update_of_its_driver(tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> None:
        if night >= 8:
            row["driver"] = "590"
            loses(0.04)(row)

    night = found_in(tmp_path, figures(24, 14, change))
    assert list(told(night)) == ["updates"]
    (row,) = night.anomalies["updates"]
    assert (row["metric"], row["old"], row["new"], row["devices"]) == ("stream.triad", "580", "590", 192)
    assert row["change"] == pytest.approx(-0.04, abs=0.002)


def test_boards_that_moved_values_unlike_all_others_and_what_is_missing(tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> Any:
        if (node, row["name"]) in ((1, "gpu1"), (2, "gpu2")) and night >= 6:  # swapped
            row["uuid"], row["serial"] = ("GPU-002-2", "1650022") if node == 1 else ("GPU-001-1", "1650011")
        if node == 3 and row["metric"] == "stream.triad":
            row["unit"], row["value"] = "MB/s", row["value"] * 1000
        if node == 4 and row["metric"] == "matmul.bf16":
            row["value"] *= 1000
        if (node, row["name"]) == (8, "gpu0"):
            row["serial"] = "1650090"  # that of n009 gpu0
        return night != 4 and not (node == 10 and night > 8)

    night = found_in(tmp_path, figures(24, 12, change))
    found = {name: night.anomalies[name] for name in told(night)}
    assert set(found) == {"moved", "unlike", "absent", "missing_nights", "doubled"}
    assert [(row["location"], row["was"], row["since"]) for row in found["moved"]] == [
        ("n001 gpu1", "n002 gpu2", date(2026, 11, 7)),
        ("n002 gpu2", "n001 gpu1", date(2026, 11, 7)),
    ]
    assert [(row["node"], row["what"]) for row in found["unlike"]] == [("n003", "another unit"), ("n004", "too fast")]
    assert [(row["last_seen"], row["nodes"]) for row in found["absent"]] == [(date(2026, 11, 9), ["n010"])]
    assert [row["night"] for row in found["missing_nights"]] == [date(2026, 11, 5)]
    assert [(row["what"], row["nodes"]) for row in found["doubled"]] == [("serial", ["n008 gpu0", "n009 gpu0"])]


def test_a_fleet_of_which_each_night_examines_a_part_misses_no_node(tmp_path: Path) -> None:
    night = found_in(tmp_path, figures(14, 21, lambda _, night, node: node % 7 == night % 7, devices=1))
    assert not night.anomalies["absent"]


def test_what_is_marginal_or_fails_every_third_night(tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> None:
        if night % 3 == 0 and row["metric"] == "stream.triad" and row["name"] == "gpu3" and node in (5, 6):
            row["status"] = "MARGINAL" if node == 5 else "FAIL"

    night = found_in(tmp_path, figures(24, 12, change))
    assert told(night) == {"failed_again": [("n006 gpu3", None)], "marginal_again": [("n005 gpu3", "stream.triad")]}


def test_a_limit_that_fires_on_too_many_nodes_is_doubted_and_makes_no_repeat_offender(tmp_path: Path) -> None:
    def change(row: Drawn, night: int, node: int) -> None:
        if row["metric"] == "matmul.bf16" and row["name"] == "gpu0" and node < 8:
            row["status"] = "FAIL"

    night = found_in(tmp_path, figures(24, 2, change))
    assert list(told(night)) == ["doubtful_limits"]


def test_the_views_leave_every_row_that_the_comparison_may_find() -> None:
    for rule in RULES["fleet"].values():
        assert rule.sigmas >= 4
        assert rule.min_loss >= 0.01
    row = {"metric": "stream.triad", "unit": "GB/s", "like_it": 20, "spread": 0.003, "step_lost": None, "lost": 0.02}
    assert questions.is_behind(row)
    assert not questions.is_behind({**row, "lost": 0.018}), "six standard deviations"
    assert not questions.is_behind({**row, "spread": 0.0, "lost": 0.009}), "nothing that costs anybody anything"


@pytest.mark.nightly
def test_the_sql_that_is_printed_answers_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found_in(tmp_path, figures(24, 3, lambda row, _, node: loses(0.03)(row) if node // 3 == 2 else None), RACKS)
    capsys.readouterr()
    assert main.main(["store", "sql", str(tmp_path / "store")]) == 0
    printed = capsys.readouterr().out
    with contextlib.closing(database.connect()) as connection:
        connection.execute(printed)
        assert ("rack", "r2") in connection.execute("SELECT what, location FROM behind").fetchall()
        names = [
            name for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        ]
        assert {each.view for each in questions.QUESTIONS.values()} <= set(names)
        for name in names:
            connection.execute(f"FROM {name}").fetchall()


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ("host,rack\nn001,r1\n", "locations.csv:1: has no column 'node'"),
        ("node,rack\nn001\rn002,r1\n", "locations.csv:2: the line is not CSV"),
    ],
)
def test_a_list_of_places_that_cannot_be_used_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], places: str, why: str
) -> None:
    with pytest.raises(BadFile, match=why):
        found_in(tmp_path, figures(4, 1, lambda *_: None), places)
    assert main.main(["store", "show", str(tmp_path / "store")]) == 4
    assert why in capsys.readouterr().err


# -- from records to what is shown


def run(*words: object) -> int:
    return main.main(["store", *map(str, words)])


@pytest.mark.nightly
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
    assert "repeated failures (" not in capsys.readouterr().out
    broken = replace(fleet_nights.record(1, 2), state="running", closing=Closing())
    run("add", place, fleet_nights.save(broken, tmp_path / "broken"))
    capsys.readouterr()
    assert run("show", place) == 1
    assert "repeated failures (1)" in capsys.readouterr().out
