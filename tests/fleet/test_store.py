"""The store of a fleet: what `store add` keeps, what it refuses, and that nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import as_user
import fleet_nights
import known_good_nodes
import pytest

from pytest_accel.cli import main
from pytest_accel.core.run import Circumstances
from pytest_accel.core.verdict import Closing, Status
from pytest_accel.fleet.nights import database, extract, store
from pytest_accel.fleet.nights.night import look
from pytest_accel.fleet.nights.queries import StoredNights
from pytest_accel.run.record import seal

COMMAND = [f"{as_user.BIN}/pytest-accel", "store", "add"]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Three nodes of one night."""
    for node in range(3):
        fleet_nights.save(fleet_nights.record(node), tmp_path / "records")
    return tmp_path / "records"


def run(*words: object) -> int:
    return main.main(["store", *map(str, words)])


def rows(folder: Path, query: str = "SELECT * FROM figures ORDER BY ALL") -> list[tuple[Any, ...]]:
    """Ask the files of a store as a user would."""
    with contextlib.closing(database.connect()) as connection:
        for name, files in (("figures", "night=*/figures"), ("runs", "night=*/runs")):
            call = f"read_parquet('{folder}/{files}.parquet', hive_partitioning = false)"
            connection.execute(f"CREATE VIEW {name} AS FROM {call}")
        return connection.execute(query).fetchall()


def test_adding_again_changes_nothing_and_more_records_are_merged(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store"
    assert run("add", place, records) == 0
    assert capsys.readouterr().out == "2026-11-01: 3 runs added\n"
    files = {path: path.read_bytes() for path in place.rglob("*.parquet")}
    assert len(rows(place)) == 3 * (3 * 8 + 1)
    assert run("add", place, records) == 0
    assert capsys.readouterr().out == "3 runs already there\n"
    assert {path: path.read_bytes() for path in place.rglob("*.parquet")} == files
    before = rows(place, "SELECT metric, node, name, value, status FROM figures ORDER BY ALL")
    fleet_nights.save(fleet_nights.record(7), records)
    assert run("add", place, records) == 0
    assert "1 run added\n3 runs already there" in capsys.readouterr().out
    after = rows(place, "SELECT metric, node, name, value, status FROM figures WHERE node <> 'rack7-n07' ORDER BY ALL")
    assert after == before
    assert len(rows(place)) == 4 * (3 * 8 + 1)
    assert not list(place.glob(".adding-*"))


def test_a_copy_of_a_record_adds_nothing(tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does a link to it, or the folder named twice."""
    shutil.copytree(records, tmp_path / "copy")
    (tmp_path / "link").symlink_to(records)
    assert run("add", tmp_path / "store", records, tmp_path / "copy", tmp_path / "link", records) == 0
    assert capsys.readouterr().out == "2026-11-01: 3 runs added\n3 runs already there\n"
    figures = rows(tmp_path / "store")
    assert len(figures) == len(set(figures)) == 3 * 25


@pytest.mark.slow
def test_a_run_is_in_one_night_alone(tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if another night is named; one that had not ended is replaced in the night that holds it."""
    place, whole = tmp_path / "store", fleet_nights.record(7)
    fleet_nights.save(replace(whole, state="running", closing=Closing()), tmp_path / "early")
    assert run("add", place, records, tmp_path / "early") == 0
    later = fleet_nights.save(whole, tmp_path / "later")
    fleet_nights.save(fleet_nights.record(0, 3), tmp_path / "new")
    capsys.readouterr()
    assert run("add", place, "--night", "2026-11-20", records, later, tmp_path / "new") == 0
    told = "2026-11-01: 1 run added\n2026-11-20: 1 run added\n3 runs already there\n"
    assert capsys.readouterr().out == told
    held = rows(place, "SELECT night::VARCHAR, state, count(*) FROM runs GROUP BY ALL ORDER BY ALL")
    assert held == [("2026-11-01", "finished", 4), ("2026-11-20", "finished", 1)]
    assert rows(place, "SELECT count(*), count(DISTINCT night) FROM figures") == [(5 * 25, 2)]


@pytest.mark.slow
def test_the_name_of_a_folder_above_the_store_is_no_column(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "level=prod" / "run=7" / "sku=other" / "store"
    assert run("add", place, records) == 0
    fleet_nights.save(fleet_nights.record(7), records)
    assert run("add", place, records) == 0
    capsys.readouterr()
    assert rows(place, "SELECT DISTINCT sku, level FROM figures") == [("h100-sxm", "standard")]
    assert rows(place, "SELECT count(DISTINCT id) FROM runs") == [(4,)]
    assert run("device", place, "16500003", "--format", "json") == 0
    assert {each["level"] for each in json.loads(capsys.readouterr().out)[0]["entries"]} == {"standard"}


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_added(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = records / "torn" / "record.json"
    torn.parent.mkdir()
    torn.write_text((records / "2026-11-01-rack7-n00" / "record.json").read_text()[:2000])
    other = records / "other" / "record.json"
    other.parent.mkdir()
    other.write_text('{"schema": 1, "run": []}')
    assert run("add", tmp_path / "store", records) == 6
    printed = capsys.readouterr()
    assert "3 runs added" in printed.out
    assert f"not added: {torn}" in printed.err
    assert f"not added: {other}: is damaged or of another version: limits is null, not a list" in printed.err


def test_filtered_and_rejudged_records_do_not_count(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = fleet_nights.record(8)
    fleet_nights.save(replace(made, circumstances=Circumstances(filtered=["-k gpu3"])), records)
    fleet_nights.save(replace(fleet_nights.record(9), judged_from={"record": "elsewhere"}), records)
    assert run("add", tmp_path / "store", records) == 0
    printed = capsys.readouterr().out
    assert "3 runs added" in printed
    assert "a filtered run" in printed
    assert "judged again" in printed


@pytest.mark.slow
def test_simulated_nodes_have_a_store_of_their_own(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = fleet_nights.record(5)
    made.run["simulated"] = {"source": "h100-sxm"}
    made.circumstances = replace(made.circumstances or Circumstances(), simulated=True)
    made.devices = [replace(each, serial=f"SIM{each.serial}") for each in made.devices]
    made.measurements = [replace(each, simulated=True) for each in made.measurements]
    alone = fleet_nights.save(known_good_nodes.closed(made), tmp_path / "alone")
    assert run("add", tmp_path / "store", records, alone) == 6
    assert "the node was simulated, and this is no rehearsal" in capsys.readouterr().err
    assert len(rows(tmp_path / "store", "SELECT * FROM runs")) == 3
    assert run("add", "--simulated", tmp_path / "store", alone) == 4
    assert run("add", "--simulated", tmp_path / "other", alone) == 0
    capsys.readouterr()
    run("show", tmp_path / "other")
    assert capsys.readouterr().out.startswith("SIMULATED 2026-11-01")
    device = str(made.devices[0].serial)
    assert run("device", tmp_path / "other", device) == 0
    assert capsys.readouterr().out.startswith("SIMULATED NVIDIA H100")
    assert run("device", tmp_path / "other", device, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["simulated"] is True


@pytest.mark.slow
def test_a_device_that_moves_keeps_its_past(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one whose serial number could not be read in one of the nights."""
    one, moved = fleet_nights.record(1), fleet_nights.record(2, 1)
    board = one.devices[3]
    fleet_nights.save(one, tmp_path / "records")
    path = fleet_nights.save(moved, tmp_path / "records")
    raw = json.loads(path.read_text().replace(moved.devices[5].uuid, board.uuid))
    raw["devices"][5]["serial"] = None
    path.write_text(json.dumps({**raw, "sha256": seal(raw)}))
    run("add", tmp_path / "store", tmp_path / "records")
    capsys.readouterr()
    assert run("device", tmp_path / "store", board.serial) == 0
    printed = capsys.readouterr().out
    assert "2 nights" in printed
    assert "2026-11-01 to 2026-11-01  rack7-n01 gpu3  0000:03:00.0, driver 580.95.05" in printed
    assert "2026-11-02 to 2026-11-02  rack7-n02 gpu5" in printed
    assert run("device", tmp_path / "store", "1650000\x1b[2J") == 4
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_ended_replaces_what_was_known_of_it_before(tmp_path: Path) -> None:
    whole = fleet_nights.record(1)
    unfinished = replace(whole, state="running", closing=Closing())
    first, second = (fleet_nights.save(each, tmp_path / name) for each, name in ((unfinished, "a"), (whole, "b")))
    place = tmp_path / "store"
    for path, states, figures in ((first, ["running"], 0), (second, ["finished"], 25), (first, ["finished"], 25)):
        assert run("add", place, path) == 0
        assert [state for (state,) in rows(place, "SELECT state FROM runs")] == states
        assert len(rows(place)) == figures


@pytest.mark.slow
def test_the_night_is_that_of_the_start_in_utc_or_the_one_that_is_named(tmp_path: Path) -> None:
    made = fleet_nights.record(1)
    late = replace(made, run={**made.run, "started": "2026-11-23T20:30:00-05:00"})
    path = fleet_nights.save(late, tmp_path)
    run("add", tmp_path / "one", path)
    run("add", "--night", "2026-11-22", tmp_path / "two", path)
    assert store.nights(tmp_path / "one") == ["2026-11-24"]
    assert store.nights(tmp_path / "two") == ["2026-11-22"]


@pytest.mark.slow
def test_prune_removes_old_nights_only_when_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for night in range(3):
        fleet_nights.save(fleet_nights.record(0, night), tmp_path / "records")
    place = tmp_path / "store"
    run("add", place, tmp_path / "records")
    capsys.readouterr()
    assert run("prune", place, "--keep-nights", 1) == 0
    printed = capsys.readouterr().out
    assert "would remove 2026-11-01" in printed
    assert "would remove 2026-11-03" not in printed
    assert len(store.nights(place)) == 3
    assert run("prune", place, "--keep-nights", 1, "--yes") == 0
    assert store.nights(place) == ["2026-11-03"]
    assert run("prune", tmp_path, "--keep-nights", 1, "--yes") == 4


def test_a_query_that_takes_seconds_draws_no_bar_into_the_output() -> None:
    """It would stand before the JSON of `store show`."""
    with contextlib.closing(database.connect()) as connection:
        connection.execute("SELECT current_setting('enable_progress_bar')")
        assert connection.fetchall() == [(False,)]


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run("add", tmp_path / "store", records) == 4
    assert "pip install 'pytest-accel[fleet]'" in capsys.readouterr().err


def _write(task: tuple[int, str]) -> None:
    number, folder = task
    made = fleet_nights.record(number % 60)
    named = replace(made, run={**made.run, "host": f"n{number:04}"})
    fleet_nights.save(named, Path(folder))


@pytest.mark.nightly
def test_a_thousand_writers_lose_nothing(tmp_path: Path) -> None:
    """64 at a time; the records are added while the last of them are written, and again afterwards."""
    folder, place = tmp_path / "records", tmp_path / "store"
    with Pool(64) as pool:
        written = pool.map_async(_write, [(number, str(folder)) for number in range(1000)])
        while not list(folder.glob("*/record.json")):
            time.sleep(0.05)
        subprocess.run([*COMMAND, str(place), str(folder)], check=True, capture_output=True)
        written.get(300)
    subprocess.run([*COMMAND, str(place), str(folder)], check=True, capture_output=True)
    assert rows(place, "SELECT count(*), count(DISTINCT node) FROM runs") == [(1000, 1000)]
    assert rows(place, "SELECT count(*) FROM figures") == [(25_000,)]
    assert not [each for each in folder.rglob(".*") if each.is_file()]


@pytest.mark.slow
def test_two_adders_of_one_night_wait_for_each_other(tmp_path: Path) -> None:
    for node in range(20):
        fleet_nights.save(fleet_nights.record(node), tmp_path / str(node % 4))
    place = tmp_path / "store"
    adders = [subprocess.Popen([*COMMAND, str(place), str(tmp_path / str(each))]) for each in range(4)]
    assert [each.wait(60) for each in adders] == [0] * 4
    assert rows(place, "SELECT count(*) FROM runs") == [(20,)]
    assert len(rows(place)) == 20 * 25


@pytest.mark.slow
def test_whoever_is_killed_while_adding_loses_nothing(tmp_path: Path) -> None:
    """At random moments: every file can be read, what was there is there, and adding again completes it."""
    place, first, second = tmp_path / "store", tmp_path / "first", tmp_path / "second"
    for node in range(60):
        fleet_nights.save(fleet_nights.record(node), first if node < 20 else second)
    subprocess.run([*COMMAND, str(place), str(first)], check=True, capture_output=True)
    before = rows(place, "SELECT node, metric, name, value, status FROM figures ORDER BY ALL")
    start = time.monotonic()
    subprocess.run([*COMMAND, str(tmp_path / "timed"), str(second)], check=True, capture_output=True)
    whole = time.monotonic() - start
    drawn, killed = random.Random(18), 0  # noqa: S311  the same moments every time
    for _ in range(8):
        adder = subprocess.Popen([*COMMAND, str(place), str(second)], stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(whole * drawn.uniform(0.4, 1.0))
        os.killpg(adder.pid, signal.SIGKILL)
        in_time = adder.wait() == -signal.SIGKILL
        killed += in_time
        whole *= 1.0 if in_time else 0.7  # the one that was timed had less of the machine
        held = rows(place, "SELECT node, metric, name, value, status FROM figures ORDER BY ALL")
        assert set(before) <= set(held)
        assert len(held) in (len(before), 60 * 25)
        assert rows(place, "SELECT count(*) FROM runs")[0][0] in (20, 60)
    assert killed
    subprocess.run([*COMMAND, str(place), str(second)], check=True, capture_output=True)
    assert rows(place, "SELECT count(*) FROM runs") == [(60,)]
    assert len(rows(place)) == len(set(rows(place))) == 60 * 25
    leftovers = [each.name for each in place.rglob(".*") if each.name != ".lock"]
    assert not leftovers


def test_what_is_kept_of_a_figure(tmp_path: Path) -> None:
    """The worst verdict on a metric, its value, and the hash of the method by which figures are compared."""
    path = fleet_nights.save(fleet_nights.record(1), tmp_path)
    raw = json.loads(path.read_text())
    first, stricter = raw["verdicts"][0], {"floor": 3300.0, "origin": "own.yaml:1"}
    raw["limits"].append({**raw["limits"][first["limit"]], **stricter})
    raw["verdicts"] += [{**first, "status": "FAIL", "limit": len(raw["limits"]) - 1, "floor": stricter["floor"]}]
    raw["closing"] = {"line": "REJECTED", "word": "REJECTED", "exit": 1}
    raw["verdicts"] += [{"metric": "health.state", "subject": "node", "status": "UNMEASURED", "value": "nan"}]
    raw["measurements"] += [{"metric": "health.state", "subject": "node", "unit": "1", "value": "nan"}]
    path.write_text(json.dumps({**raw, "sha256": seal(raw)}))
    _, figures = extract.read(path)
    worst = [each for each in figures if (each.metric, each.uuid) == ("stream.triad", raw["devices"][0]["uuid"])]
    assert [(each.status, len(each.method)) for each in worst] == [("FAIL", 8)]
    assert [(each.value, each.method) for each in figures if each.metric == "health.state"] == [(None, "")]


def test_a_crash_between_the_two_files_of_a_night_neither_loses_nor_doubles(tmp_path: Path) -> None:
    """The file of figures was replaced, and that of runs was not: what adding leaves if it is killed just then."""
    place = tmp_path / "store"
    run("add", place, fleet_nights.save(fleet_nights.record(0), tmp_path / "first"))
    runs = next(place.rglob("runs.parquet"))
    before = runs.read_bytes()
    for node in (1, 2):
        fleet_nights.save(fleet_nights.record(node), tmp_path / "second")
    run("add", place, tmp_path / "second")
    whole = rows(place, "SELECT metric, node, name, value, status FROM figures ORDER BY ALL")
    runs.write_bytes(before)
    run("add", place, fleet_nights.save(fleet_nights.record(3), tmp_path / "third"))
    assert len(rows(place)) == 2 * 25
    run("add", place, tmp_path / "second")
    nodes = "node IN ('rack7-n00', 'rack7-n01', 'rack7-n02')"
    assert rows(place, f"SELECT metric, node, name, value, status FROM figures WHERE {nodes} ORDER BY ALL") == whole  # noqa: S608
    assert rows(place, "SELECT count(*), count(DISTINCT (run, uuid, metric)) FROM figures") == [(100, 100)]
    assert rows(place, "SELECT count(*), count(DISTINCT id) FROM runs") == [(4, 4)]


def test_a_file_of_the_store_that_is_damaged_is_named(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store"
    run("add", place, records)
    for name in ("figures.parquet", "runs.parquet"):
        file = next(place.rglob(name))
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        assert run("show", place) == 4
        assert str(file) in capsys.readouterr().err
        file.write_bytes(whole)
    assert run("show", tmp_path) == 4
    assert "holds no night" in capsys.readouterr().err


def nights_of(place: Path, records: Path, count: int) -> None:
    """Add one run of each of some nights, in a row."""
    for night in range(count):
        fleet_nights.save(fleet_nights.record(0, night), records)
    assert run("add", place, records) == 0


def damage(place: Path, night: str, name: str) -> Path:
    """Cut off the end of a file of a night."""
    file = place / f"night={night}" / name
    file.write_bytes(file.read_bytes()[:-40])
    return file


@pytest.mark.parametrize("name", ["runs.parquet", "figures.parquet"])
def test_a_damaged_night_is_named_and_added_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Nothing is added to it, shown or lost until its folder is removed; then its records are added again."""
    place, records = tmp_path / "store", tmp_path / "records"
    nights_of(place, records, 3)
    file = damage(place, "2026-11-02", name)
    before = file.read_bytes()
    fleet_nights.save(fleet_nights.record(1, 1), records)
    capsys.readouterr()
    assert run("add", place, records) == 4
    printed = capsys.readouterr().err
    assert f"{file}: cannot be read, or is damaged" in printed
    assert f"remove {file.parent} and add the records of that night again" in printed
    assert file.read_bytes() == before
    assert run("show", place) == 4
    assert f"{file}: cannot be read, or is damaged" in capsys.readouterr().err
    shutil.rmtree(file.parent)
    assert run("add", place, records) == 0
    assert capsys.readouterr().out == "2026-11-02: 2 runs added\n2 runs already there\n"
    assert rows(place, "SELECT count(*) FROM figures") == [(4 * 25,)]


def test_a_run_from_the_future_is_named_and_hides_no_night(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = fleet_nights.record(9)
    tomorrow = (datetime.now(timezone.utc) + timedelta(hours=12)).isoformat(timespec="seconds")
    ahead = replace(made, run={**made.run, "started": tomorrow})
    path, place = fleet_nights.save(ahead, tmp_path / "ahead"), tmp_path / "store"
    assert run("add", place, records, path) == 6
    assert f"began at {tomorrow}, in the future: its node's clock is wrong" in capsys.readouterr().err
    assert store.nights(place) == ["2026-11-01"]
    assert run("add", place, path, "--night", "2999-11-23") == 4
    assert run("add", place, path, "--night", "2026-11-02") == 0
    assert store.nights(place) == ["2026-11-01", "2026-11-02"]


def test_a_night_that_has_not_begun_is_not_the_last_one(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever added it had a wrong clock."""
    place = tmp_path / "store"
    assert run("add", place, records) == 0
    shutil.copytree(place / "night=2026-11-01", place / "night=2999-11-23")
    capsys.readouterr()
    assert run("show", place) == 0
    assert capsys.readouterr().out.startswith("2026-11-01: 3 nodes")
    assert run("show", place, "--night", "2999-11-23") == 0


def test_one_run_hides_no_rejection_of_the_nights_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The clock of its node is ahead, or it was measured again by hand; nor does a run that did not end.

    A run that accepts lifts the rejection.
    """
    place, records = tmp_path / "store", tmp_path / "records"
    failed = {(2, "stream.triad"): Status.FAIL}
    for node in range(3):
        fleet_nights.save(fleet_nights.record(node, statuses=failed if node else None), records)
    fleet_nights.save(fleet_nights.record(0, 1), records)
    fleet_nights.save(replace(fleet_nights.record(2, 1), state="running", closing=Closing()), records)
    assert run("add", place, records) == 0
    capsys.readouterr()
    assert run("show", place) == 1
    told = capsys.readouterr().out
    assert "rejected in the nights before, and not judged since (2)\n  rack7-n01  2026-11-01  REJECTED" in told
    accepted = fleet_nights.record(1, accepts=True)
    accepted.run["started"] = "2026-11-01T05:00:00+00:00"
    later = fleet_nights.record(2, 1, accepts=True)
    again = [fleet_nights.save(each, tmp_path / "again") for each in (accepted, later)]
    assert run("add", place, *again) == 0
    capsys.readouterr()
    assert run("show", place) == 6, "it has no run tonight"
    assert (
        "rejected in the nights before, and not judged since" in capsys.readouterr().out.partition("nothing found")[2]
    )


def test_one_device_on_two_nodes_is_told_and_has_no_past_in_that_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, records = tmp_path / "store", tmp_path / "records"
    made = [fleet_nights.record(1, night) for night in range(3)]
    copied = replace(made[1], run={**made[1].run, "host": "rack7-n02"})
    for each in (*made, copied):
        fleet_nights.save(each, records)
    assert run("add", place, records) == 0
    capsys.readouterr()
    assert run("show", place, "--night", "2026-11-02") == 6
    assert "GPU-0001-3-aa55  rack7-n01 and rack7-n02" in capsys.readouterr().out
    assert run("show", place) == 0, "tonight each is on one"
    with contextlib.closing(StoredNights(place, store.nights(place))) as fleet:
        look(fleet)
        assert len(fleet.rows("SELECT DISTINCT night FROM figures WHERE name = 'gpu3'")) == 2
    capsys.readouterr()
    assert run("device", place, "16500013", "--metric", "stream.triad") == 6
    printed = capsys.readouterr().out
    assert "2026-11-02  on rack7-n01 and rack7-n02: which one it is in is not known" in printed
    assert [each[:5] for each in re.findall(r"\d\d-\d\d \d+", printed.partition(" in GB/s")[2])] == ["11-01", "11-03"]


def test_two_nodes_of_one_host_name_are_two_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither stands for the other: not tonight, not in its past, and not after a rejection."""
    place, records = tmp_path / "store", tmp_path / "records"
    failed = {(2, "stream.triad"): Status.FAIL}
    for number, night in ((1, 0), (2, 0), (1, 1), (2, 1), (2, 2)):
        made = fleet_nights.record(number, night, statuses=failed if (number, night) == (1, 1) else None)
        made.run["host"] = "localhost"
        known_good_nodes.save(made, records / f"{number}-{night}")
    assert run("add", place, records) == 0
    capsys.readouterr()
    assert run("show", place, "--night", "2026-11-02") == 1
    told = capsys.readouterr().out
    assert told.startswith("2026-11-02: 2 nodes, 16 devices;")
    assert "verdicts: 1 FAIL, 49 PASS" in told
    assert "in two places in this night (" not in told
    assert run("show", place, "--format", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["gone"], [each["node"] for each in found["findings"]["rejected_before"]]) == (
        ["localhost"],
        ["localhost"],
    )
    collectives = rows(place, "SELECT DISTINCT uuid FROM figures WHERE name = 'node'")
    assert len(collectives) == 2


def test_a_node_with_an_exchanged_board_is_the_same_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its acceptance lifts the rejection that the old board was the reason for."""
    place, records = tmp_path / "store", tmp_path / "records"
    fleet_nights.save(fleet_nights.record(1, statuses={(0, "stream.triad"): Status.FAIL}), records)
    path = fleet_nights.save(fleet_nights.record(1, 1, accepts=True), records)
    raw = json.loads(path.read_text().replace("GPU-0001-0-aa55", "GPU-new"))
    path.write_text(json.dumps({**raw, "sha256": seal(raw)}))
    assert run("add", place, records) == 0
    capsys.readouterr()
    assert run("show", place) == 0
    assert "rejected in the nights before" in capsys.readouterr().out.partition("nothing found")[2]


def test_prune_removes_the_night_that_is_named(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store"
    assert run("add", place, records, "--night", "2026-11-02") == 0
    assert run("add", place, fleet_nights.save(fleet_nights.record(9), tmp_path / "other")) == 0
    assert run("prune", place, "--night", "2026-11-03") == 4
    assert run("prune", place, "--night", "2026-11-02", "--yes") == 0
    assert "removed 2026-11-02" in capsys.readouterr().out
    assert store.nights(place) == ["2026-11-01"]


@pytest.mark.slow
def test_a_node_without_a_run_tonight_is_named_in_the_first_such_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """But not a node that is examined now and then."""
    place, records = tmp_path / "store", tmp_path / "records"
    for night in range(5):
        for node in (0, 1, 2):
            if (node, night) not in ((1, 3), (1, 4), (2, 1), (2, 3)):
                fleet_nights.save(fleet_nights.record(node, night), records)
    assert run("add", place, records) == 0
    for tonight, gone in (("2026-11-03", []), ("2026-11-04", ["rack7-n01"]), ("2026-11-05", [])):
        capsys.readouterr()
        assert run("show", place, "--night", tonight, "--format", "json") == (6 if gone else 0)
        assert json.loads(capsys.readouterr().out)["gone"] == gone
    assert run("show", place, "--night", "2026-11-04") == 6
    assert "without a run tonight (1)\n  last seen 2026-11-03  1 node  rack7-n01\n" in capsys.readouterr().out
