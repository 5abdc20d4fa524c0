"""The past of one device, read from the files of weeks or from the nights: the same, whatever happened between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fleet_nights
import pytest

from pytest_accel.cli import main

SUNDAY, WEEK, LAST = 0, range(1, 8), 8
"""The nights of the drawn fleet: a Sunday, the week after it, and the Monday of the next one."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Nine nights of one node, in three weeks."""
    for night in (SUNDAY, *WEEK, LAST):
        fleet_nights.save(fleet_nights.record(0, night), tmp_path / "records")
    assert main.main(["store", "add", str(tmp_path / "store"), str(tmp_path / "records")]) == 0
    return tmp_path / "store"


def weeks(store: Path) -> list[str]:
    return sorted(each.name[:8] for each in (store / "by-device").iterdir())


def past(store: Path, capsys: pytest.CaptureFixture[str], *options: str, node: int = 0) -> Any:
    """The past of a device of a node, as `store device` tells it."""
    capsys.readouterr()
    uuid = fleet_nights.record(node).devices[1].uuid
    assert main.main(["store", "device", str(store), uuid, "--format", "json", *options]) == 0
    return json.loads(capsys.readouterr().out)[0]["entries"]


def test_weeks_that_are_over_tell_the_same_as_the_nights(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert weeks(store) == ["2026-W44", "2026-W45"]
    asked: list[tuple[str, ...]] = [(), ("--metric", "stream.triad"), ("--nights", "4")]
    told = [past(store, capsys, *options) for options in asked]
    assert [len({each["night"] for each in some}) for some in told] == [9, 9, 4]
    assert {each["metric"] for each in told[1]} == {"stream.triad"}
    next((store / "by-device").glob("2026-W45*")).write_text("damaged")
    assert [past(store, capsys, *options) for options in asked] == told
    shutil.rmtree(store / "by-device")
    assert [past(store, capsys, *options) for options in asked] == told


def test_the_file_of_a_week_follows_its_nights(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = fleet_nights.save(fleet_nights.record(1, WEEK[2]), tmp_path / "late")
    assert main.main(["store", "add", str(store), str(late)]) == 0
    assert weeks(store) == ["2026-W44", "2026-W45"]
    assert {each["night"] for each in past(store, capsys, node=1)} == {"2026-11-04"}
    assert main.main(["store", "prune", str(store), "--keep-nights", "3", "--yes"]) == 0
    assert weeks(store) == []
    assert len({each["night"] for each in past(store, capsys)}) == 3


def test_a_night_that_was_removed_or_put_back_by_hand_is_read_as_it_is(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "night=2026-11-04").rename(tmp_path / "kept")
    assert "2026-11-04" not in {each["night"] for each in past(store, capsys)}
    records = [str(each) for each in (tmp_path / "records").iterdir() if not each.name.startswith("2026-11-04")]
    assert main.main(["store", "add", str(store), *records]) == 0  # makes the file of the week that has one night less
    (tmp_path / "kept").rename(store / "night=2026-11-04")
    assert len({each["night"] for each in past(store, capsys)}) == 9
