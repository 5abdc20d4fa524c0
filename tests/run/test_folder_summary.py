"""The summary of the run in a folder: from either file, and never from what is no such file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import data_files, fleet_nights, known_good_nodes
from support.rows import each_row

from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import earlier_records, folder_summary, record
from pytest_accel.run.options import Refused

TABLES = data_files.tables("run/folder_summary")
SUMMARY, RECORD = TABLES["summary"], TABLES["record"]
OF_RECORD = RECORD["closing"]["line"]


def line_of(folder: Path, **files: Any) -> str | None:
    """The closing line that is read from a folder with these files; texts are written as they are."""
    for name, content in files.items():
        if name == "record" and isinstance(content, dict):
            content = {**content, "sha256": record.seal(content)}  # noqa: PLW2901
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text)
    found = folder_summary.of_folder(folder)
    return found.line if found else None


@each_row(
    "summary", ['{"started":', "[]", {**SUMMARY, "started": "tomorrow"}, " " * (folder_summary.SUMMARY_BYTES + 1)]
)
def test_a_damaged_summary_is_made_up_for_by_the_record(tmp_path: Path, summary: Any) -> None:
    assert line_of(tmp_path, summary=SUMMARY, record=RECORD) == "of the summary"
    assert line_of(tmp_path, summary=summary, record=RECORD) == OF_RECORD
    with pytest.raises(BadFile, match=r"^[^/]*/summary.json is damaged$"):
        line_of(tmp_path, record="")


def test_a_record_alone_is_enough_and_a_folder_without_files_holds_no_run(tmp_path: Path) -> None:
    assert line_of(tmp_path) is None
    assert line_of(tmp_path / "nowhere") is None
    assert line_of(tmp_path, record=RECORD) == OF_RECORD


def test_a_summary_that_was_not_replaced_at_the_end_is_made_up_for_by_its_record(tmp_path: Path) -> None:
    begun = {**SUMMARY, "state": "running", "line": ""}
    ended = {**RECORD, "state": "finished"}
    assert line_of(tmp_path, summary=begun, record=ended) == OF_RECORD
    assert line_of(tmp_path, record={**ended, "state": "running"}) == ""
    assert line_of(tmp_path, record={**ended, "info": {"host": "n", "started": "2026-11-19T01:00:00+00:00"}}) == ""
    assert line_of(tmp_path, record="damaged") == ""
    (tmp_path / "record.json").unlink()
    assert line_of(tmp_path) == ""


def test_a_record_whose_time_is_none_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(BadFile):
        line_of(tmp_path, record={**RECORD, "info": {"host": "n", "started": "yesterday"}})


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps(SUMMARY))
    folder = tmp_path / "n"
    folder.mkdir()
    (folder / "summary.json").symlink_to(tmp_path / "other.json")
    with pytest.raises(BadFile):
        folder_summary.of_folder(folder)


def test_a_rehearsal_and_a_run_on_hardware_read_records_of_their_own_kind_alone(tmp_path: Path) -> None:
    """By what the record and its summary say; the names of their folders decide nothing."""
    real = fleet_nights.record(0)
    rehearsed = replace(real, info={**real.info, "simulated": {"node": "node.yaml"}})
    for name, run in (("simulated", real), ("real", rehearsed)):
        file, simulated = known_good_nodes.save(run, tmp_path / name), name == "real"
        assert record.read(file, rehearsal=simulated).simulated == simulated
        assert folder_summary.of_folder(file.parent, rehearsal=simulated) is not None
        with pytest.raises(record.OtherKind, match="was simulated, and this" if simulated else "is hardware, and this"):
            record.read(file, rehearsal=not simulated)
        with pytest.raises(record.OtherKind):
            folder_summary.of_folder(file.parent, rehearsal=not simulated)
        with pytest.raises(Refused, match=r"--accel-baseline: .*: the node (was simulated|is hardware), and this is"):
            earlier_records.baseline_runs(str(file), rehearsal=not simulated)
