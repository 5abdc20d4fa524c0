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
from pathlib import Path
from typing import Any

import pytest
from support import as_user, fleet_nights, known_good_nodes

from pytest_accel.cli import main
from pytest_accel.core.run import Circumstances, Objection, Run
from pytest_accel.core.verdict import Closing, Status
from pytest_accel.fleet.nights import database, extract
from pytest_accel.fleet.nights.night import look
from pytest_accel.fleet.nights.night_store import nights
from pytest_accel.fleet.nights.queries import StoredNights
from pytest_accel.run.record import seal

COMMAND = [f"{as_user.BIN}/pytest-accel", "store", "add"]
KEPT = "SELECT metric, node, name, value, status FROM figures"
"""What adding more records does not change of a figure."""


def saved(folder: Path, *runs: Run) -> Path:
    """Write records into a folder, and return it."""
    for each in runs:
        fleet_nights.save(each, folder)
    return folder


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Three nodes of one night."""
    return saved(tmp_path / "records", *map(fleet_nights.record, range(3)))


class Store:
    """The command `store` and what it says, over a store in a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self._capsys = folder / "store", capsys

    def __call__(self, command: str, *words: object, place: Path | None = None) -> tuple[int, str]:
        """Return the exit status and what is said, its errors first; of the store, or of the one at another place."""
        status = main.main(["store", command, str(place or self.place), *map(str, words)])
        told = self._capsys.readouterr()
        return status, told.err + told.out

    def rows(self, query: str = "SELECT * FROM figures ORDER BY ALL") -> list[tuple[Any, ...]]:
        """Ask the files of the store as a user would."""
        with contextlib.closing(database.connect()) as connection:
            for name, files in (("figures", "night=*/figures"), ("runs", "night=*/runs")):
                call = f"read_parquet('{self.place}/{files}.parquet', hive_partitioning = false)"
                connection.execute(f"CREATE VIEW {name} AS FROM {call}")
            return connection.execute(query).fetchall()


@pytest.fixture
def store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Store:
    return Store(tmp_path, capsys)


def test_adding_again_changes_nothing_and_more_records_are_merged(store: Store, records: Path) -> None:
    assert store("add", records) == (0, "2026-11-01: 3 runs added\n")
    files = {path: path.read_bytes() for path in store.place.rglob("*.parquet")}
    assert len(store.rows()) == 3 * (3 * 8 + 1)
    assert store("add", records) == (0, "3 runs already there\n")
    assert {path: path.read_bytes() for path in store.place.rglob("*.parquet")} == files
    before = store.rows(f"{KEPT} ORDER BY ALL")
    saved(records, fleet_nights.record(7))
    status, told = store("add", records)
    assert (status, "1 run added\n3 runs already there" in told) == (0, True)
    assert store.rows(f"{KEPT} WHERE node <> 'rack7-n07' ORDER BY ALL") == before
    assert len(store.rows()) == 4 * (3 * 8 + 1)
    assert not list(store.place.glob(".adding-*"))


def test_a_copy_of_a_record_adds_nothing(store: Store, tmp_path: Path, records: Path) -> None:
    """Nor does a link to it, or the folder named twice."""
    shutil.copytree(records, tmp_path / "copy")
    (tmp_path / "link").symlink_to(records)
    told = store("add", records, tmp_path / "copy", tmp_path / "link", records)
    assert told == (0, "2026-11-01: 3 runs added\n3 runs already there\n")
    figures = store.rows()
    assert len(figures) == len(set(figures)) == 3 * 25


@pytest.mark.nightly
def test_a_run_is_in_one_night_alone(store: Store, tmp_path: Path, records: Path) -> None:
    """Also if another night is named; one that had not ended is replaced in the night that holds it."""
    whole = fleet_nights.record(7)
    early = saved(tmp_path / "early", replace(whole, state="running", closing=Closing()))
    assert store("add", records, early)[0] == 0
    later, new = saved(tmp_path / "later", whole), saved(tmp_path / "new", fleet_nights.record(0, 3))
    told = "2026-11-01: 1 run added\n2026-11-20: 1 run added\n3 runs already there\n"
    assert store("add", records, later, new, "--night=2026-11-20") == (0, told)
    held = store.rows("SELECT night::VARCHAR, state, count(*) FROM runs GROUP BY ALL ORDER BY ALL")
    assert held == [("2026-11-01", "finished", 4), ("2026-11-20", "finished", 1)]
    assert store.rows("SELECT count(*), count(DISTINCT night) FROM figures") == [(5 * 25, 2)]


@pytest.mark.nightly
def test_the_name_of_a_folder_above_the_store_is_no_column(store: Store, tmp_path: Path, records: Path) -> None:
    store.place = tmp_path / "level=prod" / "run=7" / "sku=other" / "store"
    assert store("add", records)[0] == 0
    saved(records, fleet_nights.record(7))
    assert store("add", records)[0] == 0
    assert store.rows("SELECT DISTINCT sku, level FROM figures") == [("h100-sxm", "standard")]
    assert store.rows("SELECT count(DISTINCT id) FROM runs") == [(4,)]
    status, told = store("device", "16500003", "--format=json")
    assert (status, {each["level"] for each in json.loads(told)[0]["entries"]}) == (0, {"standard"})


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_added(store: Store, records: Path) -> None:
    torn, other = records / "torn" / "record.json", records / "other" / "record.json"
    torn.parent.mkdir()
    torn.write_text((records / "2026-11-01-rack7-n00" / "record.json").read_text()[:2000])
    other.parent.mkdir()
    other.write_text('{"schema": 1, "run": []}')
    status, told = store("add", records)
    assert (status, "3 runs added" in told) == (6, True)
    assert f"not added: {torn}" in told
    assert f"not added: {other}: is damaged or of another version: limits is null, not a list" in told


def test_filtered_and_rejudged_records_do_not_count(store: Store, records: Path) -> None:
    saved(
        records, replace(fleet_nights.record(8), circumstances=Circumstances(against=[Objection("filter", "-k gpu3")]))
    )
    saved(records, replace(fleet_nights.record(9), judged_from={"record": "elsewhere"}))
    status, told = store("add", records)
    assert (status, "3 runs added" in told, "a filtered run" in told, "judged again" in told) == (0, True, True, True)


@pytest.mark.nightly
def test_simulated_nodes_have_a_store_of_their_own(store: Store, tmp_path: Path, records: Path) -> None:
    made = fleet_nights.record(5)
    made.info["simulated"] = {"source": "h100-sxm"}
    made.circumstances = replace(made.circumstances or Circumstances(), simulated=True)
    made.devices = [replace(each, serial=f"SIM{each.serial}") for each in made.devices]
    made.measurements = [replace(each, simulated=True) for each in made.measurements]
    alone, other = saved(tmp_path / "alone", known_good_nodes.closed(made)), tmp_path / "other"
    status, told = store("add", records, alone)
    assert (status, "the node was simulated, and this is no rehearsal" in told) == (6, True)
    assert len(store.rows("SELECT * FROM runs")) == 3
    assert store("add", alone, "--simulated")[0] == 4
    assert store("add", alone, "--simulated", place=other)[0] == 0
    assert store("show", place=other)[1].startswith("SIMULATED 2026-11-01")
    device = str(made.devices[0].serial)
    status, told = store("device", device, place=other)
    assert (status, told.startswith("SIMULATED NVIDIA H100")) == (0, True)
    status, told = store("device", device, "--format=json", place=other)
    assert (status, json.loads(told)[0]["simulated"]) == (0, True)


@pytest.mark.nightly
def test_a_device_that_moves_keeps_its_past(store: Store, tmp_path: Path) -> None:
    """Also one whose serial number could not be read in one of the nights."""
    one, moved = fleet_nights.record(1), fleet_nights.record(2, 1)
    board, records = one.devices[3], saved(tmp_path / "records", one)
    path = fleet_nights.save(moved, records)
    raw = json.loads(path.read_text().replace(moved.devices[5].uuid, board.uuid))
    raw["devices"][5]["serial"] = None
    path.write_text(json.dumps({**raw, "sha256": seal(raw)}))
    store("add", records)
    status, told = store("device", board.serial)
    assert (status, "2 nights" in told) == (0, True)
    assert "2026-11-01 to 2026-11-01  rack7-n01 gpu3  0000:03:00.0, driver 580.95.05" in told
    assert "2026-11-02 to 2026-11-02  rack7-n02 gpu5" in told
    status, told = store("device", "1650000\x1b[2J")
    assert (status, "\x1b" in told) == (4, False)


@pytest.mark.nightly
def test_a_run_that_ended_replaces_what_was_known_of_it_before(store: Store, tmp_path: Path) -> None:
    whole = fleet_nights.record(1)
    first = saved(tmp_path / "a", replace(whole, state="running", closing=Closing()))
    second = saved(tmp_path / "b", whole)
    for path, states, figures in ((first, ["running"], 0), (second, ["finished"], 25), (first, ["finished"], 25)):
        assert store("add", path)[0] == 0
        assert [state for (state,) in store.rows("SELECT state FROM runs")] == states
        assert len(store.rows()) == figures


@pytest.mark.nightly
def test_the_night_is_that_of_the_start_in_utc_or_the_one_that_is_named(store: Store, tmp_path: Path) -> None:
    made = fleet_nights.record(1)
    path = saved(tmp_path / "late", replace(made, info={**made.info, "started": "2026-11-23T20:30:00-05:00"}))
    store("add", path)
    store("add", path, "--night=2026-11-22", place=tmp_path / "two")
    assert (nights(store.place), nights(tmp_path / "two")) == (["2026-11-24"], ["2026-11-22"])


def test_a_query_that_takes_seconds_draws_no_bar_into_the_output() -> None:
    """It would stand before the JSON of `store show`."""
    with contextlib.closing(database.connect()) as connection:
        connection.execute("SELECT current_setting('enable_progress_bar')")
        assert connection.fetchall() == [(False,)]


def test_without_the_package_the_extra_is_named(store: Store, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    status, told = store("add", records)
    assert (status, "pip install 'pytest-accel[fleet]'" in told) == (4, True)


@pytest.mark.nightly
def test_two_adders_of_one_night_wait_for_each_other(store: Store, tmp_path: Path) -> None:
    for node in range(20):
        fleet_nights.save(fleet_nights.record(node), tmp_path / str(node % 4))
    place = store.place
    adders = [subprocess.Popen([*COMMAND, str(place), str(tmp_path / str(each))]) for each in range(4)]
    assert [each.wait(60) for each in adders] == [0] * 4
    assert store.rows("SELECT count(*) FROM runs") == [(20,)]
    assert len(store.rows()) == 20 * 25


@pytest.mark.nightly
def test_whoever_is_killed_while_adding_loses_nothing(store: Store, tmp_path: Path) -> None:
    """At random moments: every file can be read, what was there is there, and adding again completes it."""
    place, first, second = store.place, tmp_path / "first", tmp_path / "second"
    saved(first, *map(fleet_nights.record, range(20)))
    saved(second, *map(fleet_nights.record, range(20, 60)))
    subprocess.run([*COMMAND, str(place), str(first)], check=True, capture_output=True)
    before = store.rows(f"{KEPT} ORDER BY ALL")
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
        held = store.rows(f"{KEPT} ORDER BY ALL")
        assert set(before) <= set(held)
        assert len(held) in (len(before), 60 * 25)
        assert store.rows("SELECT count(*) FROM runs")[0][0] in (20, 60)
    assert killed
    subprocess.run([*COMMAND, str(place), str(second)], check=True, capture_output=True)
    assert store.rows("SELECT count(*) FROM runs") == [(60,)]
    assert len(store.rows()) == len(set(store.rows())) == 60 * 25
    leftovers = [each.name for each in place.rglob(".*") if each.name != ".lock"]
    assert not leftovers


def test_what_is_kept_of_a_figure(tmp_path: Path) -> None:
    """The worst verdict on a metric, its value, and the hash of the method by which figures are compared."""
    path = fleet_nights.save(fleet_nights.record(1), tmp_path)
    raw = json.loads(path.read_text())
    first, stricter = raw["verdicts"][0], {"floor": 3300.0, "origin": "own.yaml:1"}
    raw["limits"].append({**raw["limits"][first["limit"]], **stricter})
    raw["verdicts"] += [{**first, "status": "FAIL", "limit": len(raw["limits"]) - 1, "floor": stricter["floor"]}]
    raw["closing"] = {"line": "REJECTED", "result": "REJECTED", "exit": 1}
    raw["verdicts"] += [{"metric": "health.state", "subject": "node", "status": "UNMEASURED", "value": "nan"}]
    raw["measurements"] += [{"metric": "health.state", "subject": "node", "unit": "1", "value": "nan"}]
    path.write_text(json.dumps({**raw, "sha256": seal(raw)}))
    _, figures = extract.read(path)
    worst = [each for each in figures if (each.metric, each.uuid) == ("stream.triad", raw["devices"][0]["uuid"])]
    assert [(each.status, len(each.method)) for each in worst] == [("FAIL", 8)]
    assert [(each.value, each.method) for each in figures if each.metric == "health.state"] == [(None, "")]


def test_a_crash_between_the_two_files_of_a_night_neither_loses_nor_doubles(store: Store, tmp_path: Path) -> None:
    """The file of figures was replaced, and that of runs was not: what adding leaves if it is killed just then."""
    store("add", saved(tmp_path / "first", fleet_nights.record(0)))
    runs = next(store.place.rglob("runs.parquet"))
    before = runs.read_bytes()
    second = saved(tmp_path / "second", fleet_nights.record(1), fleet_nights.record(2))
    store("add", second)
    whole = store.rows(f"{KEPT} ORDER BY ALL")
    runs.write_bytes(before)
    store("add", saved(tmp_path / "third", fleet_nights.record(3)))
    assert len(store.rows()) == 2 * 25
    store("add", second)
    assert store.rows(f"{KEPT} WHERE node <> 'rack7-n03' ORDER BY ALL") == whole
    assert store.rows("SELECT count(*), count(DISTINCT (run, uuid, metric)) FROM figures") == [(100, 100)]
    assert store.rows("SELECT count(*), count(DISTINCT id) FROM runs") == [(4, 4)]


@pytest.mark.parametrize("name", ["runs.parquet", "figures.parquet"])
def test_a_damaged_night_is_named_and_added_again(store: Store, tmp_path: Path, name: str) -> None:
    """Nothing is added to it, shown or lost until its folder is removed; then its records are added again."""
    records = saved(tmp_path / "records", *(fleet_nights.record(0, night) for night in range(3)))
    assert store("add", records)[0] == 0
    file = store.place / "night=2026-11-02" / name
    before = file.read_bytes()[:-40]
    file.write_bytes(before)
    saved(records, fleet_nights.record(1, 1))
    status, told = store("add", records)
    assert (status, f"{file}: cannot be read, or is damaged" in told) == (4, True)
    assert f"remove {file.parent} and add the records of that night again" in told
    assert file.read_bytes() == before
    status, told = store("show")
    assert (status, f"{file}: cannot be read, or is damaged" in told) == (4, True)
    shutil.rmtree(file.parent)
    assert store("add", records) == (0, "2026-11-02: 2 runs added\n2 runs already there\n")
    assert store.rows("SELECT count(*) FROM figures") == [(4 * 25,)]
    status, told = store("show", place=tmp_path)
    assert (status, "holds no night" in told) == (4, True)


def test_a_run_from_the_future_is_named_and_hides_no_night(store: Store, tmp_path: Path, records: Path) -> None:
    made = fleet_nights.record(9)
    tomorrow = (datetime.now(timezone.utc) + timedelta(hours=12)).isoformat(timespec="seconds")
    ahead = saved(tmp_path / "ahead", replace(made, info={**made.info, "started": tomorrow}))
    status, told = store("add", records, ahead)
    assert (status, f"began at {tomorrow}, in the future: its node's clock is wrong" in told) == (6, True)
    assert nights(store.place) == ["2026-11-01"]
    assert store("add", ahead, "--night=2999-11-23")[0] == 4
    assert store("add", ahead, "--night=2026-11-02")[0] == 0
    assert nights(store.place) == ["2026-11-01", "2026-11-02"]


def test_a_night_that_has_not_begun_is_not_the_last_one(store: Store, records: Path) -> None:
    """Whoever added it had a wrong clock."""
    assert store("add", records)[0] == 0
    shutil.copytree(store.place / "night=2026-11-01", store.place / "night=2999-11-23")
    status, told = store("show")
    assert (status, told.startswith("2026-11-01: 3 nodes")) == (0, True)
    assert store("show", "--night=2999-11-23")[0] == 0


FAILED = {(2, "stream.triad"): Status.FAIL}
BEFORE = "open rejections of earlier nights"


def test_one_run_hides_no_rejection_of_the_nights_before(store: Store, tmp_path: Path) -> None:
    """The clock of its node is ahead, or it was measured again by hand; nor does a run that did not end.

    A run that accepts lifts the rejection.
    """
    records = saved(
        tmp_path / "records",
        *(fleet_nights.record(node, statuses=FAILED if node else None) for node in range(3)),
        fleet_nights.record(0, 1),
        replace(fleet_nights.record(2, 1), state="running", closing=Closing()),
    )
    assert store("add", records)[0] == 0
    status, told = store("show")
    found = f"{BEFORE} (2)\n  rack7-n01  2026-11-01  REJECTED"
    assert (status, found in told) == (1, True)
    accepted = fleet_nights.record(1, accepts=True)
    accepted.info["started"] = "2026-11-01T05:00:00+00:00"
    assert store("add", saved(tmp_path / "again", accepted, fleet_nights.record(2, 1, accepts=True)))[0] == 0
    status, told = store("show")
    assert status == 6, "it has no run tonight"
    assert BEFORE in told.partition("No anomalies for: ")[2]


def test_one_device_on_two_nodes_is_told_and_has_no_past_in_that_night(store: Store, tmp_path: Path) -> None:
    made = [fleet_nights.record(1, night) for night in range(3)]
    copied = replace(made[1], info={**made[1].info, "host": "rack7-n02"})
    assert store("add", saved(tmp_path / "records", *made, copied))[0] == 0
    status, told = store("show", "--night=2026-11-02")
    assert (status, "GPU-0001-3-aa55  rack7-n01 and rack7-n02" in told) == (6, True)
    assert store("show")[0] == 0, "tonight each is on one"
    with contextlib.closing(StoredNights(store.place, nights(store.place))) as fleet:
        look(fleet)
        assert len(fleet.rows("SELECT DISTINCT night FROM figures WHERE name = 'gpu3'")) == 2
    status, told = store("device", "16500013", "--metric=stream.triad")
    assert (status, "2026-11-02  on rack7-n01 and rack7-n02: which one it is in is not known" in told) == (6, True)
    assert [each[:5] for each in re.findall(r"\d\d-\d\d \d+", told.partition(" in GB/s")[2])] == ["11-01", "11-03"]


def test_two_nodes_of_one_host_name_are_two_nodes(store: Store, tmp_path: Path) -> None:
    """Neither stands for the other: not tonight, not in its past, and not after a rejection."""
    for number, night in ((1, 0), (2, 0), (1, 1), (2, 1), (2, 2)):
        made = fleet_nights.record(number, night, statuses=FAILED if (number, night) == (1, 1) else None)
        made.info["host"] = "localhost"
        known_good_nodes.save(made, tmp_path / "records" / f"{number}-{night}")
    assert store("add", tmp_path / "records")[0] == 0
    status, told = store("show", "--night=2026-11-02")
    assert (status, told.startswith("2026-11-02: 2 nodes, 16 devices;")) == (1, True)
    assert "verdicts: 1 FAIL, 49 PASS" in told
    assert "duplicate devices (" not in told
    status, told = store("show", "--format=json")
    found = json.loads(told)
    rejected = [each["node"] for each in found["anomalies"]["rejected_before"]]
    assert (status, found["gone"], rejected) == (1, ["localhost"], ["localhost"])
    assert len(store.rows("SELECT DISTINCT uuid FROM figures WHERE name = 'node'")) == 2


def test_a_node_with_an_exchanged_board_is_the_same_node(store: Store, tmp_path: Path) -> None:
    """Its acceptance lifts the rejection that the old board was the reason for."""
    records = saved(tmp_path / "records", fleet_nights.record(1, statuses={(0, "stream.triad"): Status.FAIL}))
    path = fleet_nights.save(fleet_nights.record(1, 1, accepts=True), records)
    raw = json.loads(path.read_text().replace("GPU-0001-0-aa55", "GPU-new"))
    path.write_text(json.dumps({**raw, "sha256": seal(raw)}))
    assert store("add", records)[0] == 0
    status, told = store("show")
    assert (status, BEFORE in told.partition("No anomalies for: ")[2]) == (0, True)


@pytest.mark.nightly
def test_a_node_without_a_run_tonight_is_named_in_the_first_such_night(store: Store, tmp_path: Path) -> None:
    """But not a node that is examined now and then."""
    left_out = {(1, 3), (1, 4), (2, 1), (2, 3)}
    examined = [(node, night) for night in range(5) for node in range(3) if (node, night) not in left_out]
    records = saved(tmp_path / "records", *(fleet_nights.record(*each) for each in examined))
    assert store("add", records)[0] == 0
    for tonight, gone in (("2026-11-03", []), ("2026-11-04", ["rack7-n01"]), ("2026-11-05", [])):
        status, told = store("show", f"--night={tonight}", "--format=json")
        assert (status, json.loads(told)["gone"]) == (6 if gone else 0, gone)
    status, told = store("show", "--night=2026-11-04")
    assert (status, "nodes without a run (1)\n  last seen 2026-11-03  1 node  rack7-n01\n" in told) == (6, True)
