"""A series of runs (--accel-hours) on the nodes of a fleet: its own result counts, not that of one of its runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support import fleet_nights, known_good_nodes
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core import structured
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Result, Status
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, FleetRequest, save
from pytest_accel.fleet.nights import extract
from pytest_accel.run import summaries

ASKED = FleetRequest(
    "1",
    "2026-11-01T00:00:00+00:00",
    "0",
    ("--accel-hours=72",),
    60,
    level="standard",
    expected=(ExpectedNode("rack7-n00"),),
)
STOPPED = "NOT JUDGED 747/748 limits hold; node series.run_2: UNMEASURED, began and did not end"


def of_series(number: int, *, rejects: bool = False) -> Run:
    """Return the record of one run of a series on the first node."""
    statuses = {(2, "stream.triad"): Status.FAIL} if rejects else {}
    made = fleet_nights.record(0, number, accepts=True, statuses=statuses)
    made.info["follows"] = "none"
    return made


def series(folder: Path, word: str, line: str, *, rejects: bool = False) -> Path:
    """Write a series of two runs, the last of which may reject, with this result; return its folder."""
    node = folder / "rack7-n00"
    for number in (1, 2):
        made = of_series(number, rejects=rejects and number == 2)
        known_good_nodes.save(made, node / f"run-{number}")
    status = {"ACCEPTED": 0, "REJECTED": 1}.get(word, 6)
    told = replace(
        summaries.summary(of_series(2)),
        result=Result(word),
        line=line,
        exit=status,
        figures={},
        rejected=["x"] * (status == 1),
    )
    (node / "summary.json").write_text(json.dumps(structured.plain(told)))
    (node / "series.json").write_text("{}")
    return node


@pytest.mark.parametrize(("word", "counts"), [("ACCEPTED", "ACCEPTED"), ("NOT JUDGED", "NOT JUDGED")])
def test_a_run_accepts_in_the_store_what_its_series_accepts(word: str, counts: str, tmp_path: Path) -> None:
    node = series(tmp_path, word, STOPPED if word == "NOT JUDGED" else "ACCEPTED 8/8 devices; 2 runs")
    kept, figures = extract.read(node / "run-2/record.json")
    assert (kept.result, kept.exit) == (counts, 0 if counts == "ACCEPTED" else 6)
    assert figures, "its figures are those of any run"
    (node / "summary.json").unlink()
    assert extract.read(node / "run-2/record.json")[0].result == "NOT JUDGED", (
        "a series without a result accepts nothing"
    )


def test_a_run_that_rejects_does_so_whatever_its_series_says(tmp_path: Path) -> None:
    node = series(tmp_path, "ACCEPTED", "ACCEPTED 8/8 devices; 2 runs", rejects=True)
    assert extract.read(node / "run-2/record.json")[0].result == "REJECTED"


@each_row("in_run", [False, True])
@each_row(
    ("word", "why"),
    [("ACCEPTED", "as stated by the supplier, unsigned"), ("NOT JUDGED", "told by the series")],
)
def test_a_delivery_accepts_no_run_of_a_series_that_is_not_judged(
    word: str, why: str, in_run: bool, tmp_path: Path
) -> None:
    """Also in the folder of a fleet's run, whose report counts the series."""
    series(tmp_path, word, f"{word} told by the series")
    if in_run:
        save(ASKED, tmp_path)
    out = tmp_path / "document.html"
    assert main(["fleet", "report", "--acceptance", str(tmp_path), "--format=html", f"--output={out}"]) == 6
    assert why in out.read_text()
    assert "does not count" not in out.read_text()


@pytest.mark.parametrize(
    ("word", "rejects", "state", "status"),
    [
        ("ACCEPTED", False, "accepted", 0),
        ("NOT JUDGED", False, "not judged", 6),
        ("REJECTED", True, "rejected", 1),
    ],
)
@pytest.mark.usefixtures("no_queue")
def test_a_report_goes_by_the_series_and_by_its_last_record(
    word: str, rejects: bool, state: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series(tmp_path / "run", word, f"{word} told by the series", rejects=rejects)
    save(ASKED, tmp_path / "run")
    assert main(["fleet", "report", str(tmp_path / "run")]) == status
    assert capsys.readouterr().out.startswith(state)


@pytest.fixture
def no_queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_job_of_a_series_ends_it_before_the_job_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"sinfo": "printf 'n1\\037idle\\037(null)\\037all*\\037Unknown\\037none\\n'", "squeue": "true"}
    for name, script in told.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    words = ["fleet", "run", "--sku=h100-sxm", "--dry-run", f"--output={tmp_path / 'run'}"]
    assert main([*words, "--", "--accel-hours=8"]) == 4
    assert "--time: level long needs a time limit of its jobs" in capsys.readouterr().err
    assert main([*words, "--time=600", "--", "--accel-hours=8"]) == 0
    assert f"--accel-hours=8 --accel-time-limit={600 * 60 - 60} --accel-output=" in capsys.readouterr().out
