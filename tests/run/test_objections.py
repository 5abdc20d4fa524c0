"""A record is judged anew where it is read: by its hash, its own measurements and limits, and its closing line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku_types import Limit, Source, Spread
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.run import record
from pytest_accel.run.record import FILE, TELEMETRY

Edit = Callable[[dict[str, Any]], object]

SOURCE = Source("measured", "us", "2026-11")
SPREAD = Spread(SOURCE, between_devices=0.001, between_runs=0.001, runs=10)
DEVICES = [Device(f"GPU-{place}", place, "nvidia", "Part", serial=f"16{place}") for place in range(5)]
LIMIT = Limit("stream.copy", "GB/s", floor=2500.0, source=SOURCE, origin="part.yaml:7")
VALUES = {"GPU-0": [2900.0], "GPU-1": [2000.0, 2010.0], "GPU-2": [2900.0], "GPU-3": [2900.0], "GPU-4": [2860.0]}


def rejected(tmp_path: Path) -> Path:
    """The folder of a run of five devices: gpu1 is below the floor, gpu4 behind its neighbours by a known spread."""
    figures = [(uuid, value) for uuid, values in VALUES.items() for value in values]
    measured = [Measurement("stream.copy", uuid, "GB/s", value, (value,) * 4) for uuid, value in figures]
    attempts = RunAttempts.of(measured, DEVICES, spread_of=lambda metric: SPREAD)
    verdicts = [attempts.verdict(place, LIMIT) for place in attempts.by_key]
    around = Circumstances(
        required=[verdict.key for verdict in verdicts],
        names={device.uuid: device.name for device in DEVICES},
        expected_devices=5,
    )
    folder = tmp_path / "rec"
    folder.mkdir()
    (folder / TELEMETRY).write_text('{"uuid": "GPU-0"}\n')
    run = Run(
        info={"started": "2026-11-24T03:00:00+00:00", "level": "quick", "platform": "single"},
        sku={"spread": {"stream.copy": SPREAD}},
        devices=DEVICES,
        measurements=measured,
        verdicts=verdicts,
        telemetry={"file": TELEMETRY, "sha256": untrusted.sha256(folder / TELEMETRY)},
        state="finished",
        circumstances=around,
        closing=close(verdicts, around),
    )
    record.write(run, folder)
    return folder


def edited(folder: Path, edit: Edit, *, sealed: bool = True) -> list[str]:
    """The objections after an edit; by default of somebody who computes the hash of the record anew."""
    raw = json.loads((folder / FILE).read_text())
    edit(raw)
    if sealed:
        raw["sha256"] = record.seal(raw)
    (folder / FILE).write_text(json.dumps(raw))
    return [*record.read(folder / FILE).objections]


def put(path: str, value: object) -> Edit:
    """Put `value` at a path such as "verdicts.1.status"."""

    def edit(raw: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = raw
        for key in way:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value

    return edit


def accepted(raw: dict[str, Any]) -> None:
    raw["closing"] = {"line": "ACCEPTED 5/5 devices", "exit": 0, "result": "ACCEPTED"}


def cut(raw: dict[str, Any]) -> None:
    accepted(raw)
    del raw["verdicts"][1]


CHANGED = data_files.tables("run/objections")["changed"]
EDITS: dict[str, tuple[Edit, str]] = {
    **{name: (put(place, value), says) for name, (place, value, says) in CHANGED.items()},
    "no measurement": (lambda raw: raw["measurements"].pop(0), "gpu0 stream.copy is PASS at 2900 .* and UNMEASURED at"),
    "the result": (accepted, "it closed as 'ACCEPTED 5/5 devices' with exit status 0, .* closes as 'REJ"),
    "a verdict and the result": (cut, "holds closes as 'NOT JUDGED 4/4 limits hold; no verdict on gpu1"),
}


def test_the_record_of_a_run_is_believed(tmp_path: Path) -> None:
    folder = rejected(tmp_path)
    assert record.read(folder / FILE).objections == ()
    (folder / TELEMETRY).unlink()
    assert record.read(folder / FILE).objections == (), "it may be sent without its telemetry"


@each_row(("edit", "says"), EDITS.values())
def test_a_change_that_is_not_carried_through_is_named(tmp_path: Path, edit: Edit, says: str) -> None:
    found = edited(rejected(tmp_path), edit)
    assert any(re.search(says, objection) for objection in found), found


def test_what_has_another_hash_than_the_record_states(tmp_path: Path) -> None:
    folder = rejected(tmp_path)
    (changed,) = edited(folder, put("notes", ["it was fine"]), sealed=False)
    assert changed.startswith("the record was changed after it was written: its hash is ")
    (unsealed,) = edited(folder, lambda raw: raw.pop("sha256"), sealed=False)
    assert unsealed.endswith("it states none")
    (folder / TELEMETRY).write_text("{}\n{}\n")
    (telemetry,) = edited(folder, lambda raw: None)
    assert telemetry == f"{folder / TELEMETRY} was changed: it has another hash than the record states"


def test_the_command_tells_the_hash_and_that_nobody_signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = rejected(tmp_path)
    stated = json.loads((folder / FILE).read_text())["sha256"]
    assert main(["judge", str(folder)]) == 1
    assert f"sha256: {stated}, unsigned\n" in capsys.readouterr().out


def test_the_command_ends_with_a_status_that_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither an acceptance nor a rejection follows from such a record, and nothing is written from it."""
    folder = rejected(tmp_path)
    edited(folder, put("verdicts.1.status", "PASS"))
    assert main(["judge", str(folder), "--output", str(tmp_path / "new")]) == 6
    assert (
        "JUDGED AGAIN NOT JUDGED the record is not believed: gpu1 stream.copy is PASS at 2010"
        in capsys.readouterr().out
    )
    assert not (tmp_path / "new").exists()


def test_judged_from_a_record_that_has_changed_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = rejected(tmp_path)
    main(["judge", str(folder), "--output", str(tmp_path / "new")])
    assert main(["judge", str(tmp_path / "new")]) == 1
    raw = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps(raw))
    assert main(["judge", str(tmp_path / "new")]) == 6
    assert f"not believed: {folder / FILE} was changed" in capsys.readouterr().out


def test_no_view_tells_the_result_of_a_record_that_is_not_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rejected(tmp_path)
    edited(folder, accepted)
    assert main(["report", str(folder)]) == 0
    assert "NOT JUDGED the record is not believed: it closed as" in capsys.readouterr().out


@each_row("place", [7, -1, True, "0", 0.5, [], {}])
def test_a_limit_that_the_record_does_not_hold(tmp_path: Path, place: object) -> None:
    with pytest.raises(record.BadRecord, match=r"verdicts\[1\].limit is .*, not an index of 'limits'"):
        edited(rejected(tmp_path), put("verdicts.1.limit", place))


def test_a_run_that_goes_on_is_not_judged_yet(tmp_path: Path) -> None:
    folder = rejected(tmp_path)
    record.write(replace(record.read(folder / FILE), state="running"), folder)
    (said,) = edited(folder, put("verdicts.1.status", "PASS"))
    assert said == "it has a result, and the run has not ended"
    assert edited(folder, lambda raw: raw.pop("closing")) == []
