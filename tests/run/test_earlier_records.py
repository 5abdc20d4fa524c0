"""The records beside this one: what a run learns of them, and that nothing there stops or slows it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from pytest_accel.core.measurement import Device, Measurement, Trouble
from pytest_accel.core.run import EarlierRecord, Run
from pytest_accel.core.sku_types import ClassFloor, DeclaredBy, Limit
from pytest_accel.core.verdict import Closing, Result, Verdict
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run import earlier_records
from pytest_accel.run.earlier_records import MOST_RECORDS, MOST_SUMMARIES, rejected_before
from pytest_accel.run.record import FILE, write
from pytest_accel.run.summaries import SUMMARY

GPU = Device(uuid="GPU-0", index=0, driver="nvidia", model="H100", serial="165", facts={"vbios": "96.00"})
CPU = Device(uuid="CPU-0", index=0, driver="cpu", model="EPYC")
REJECTED = Closing(line="REJECTED gpu0: ...", exit=1, result=Result.REJECTED)


def written(folder: Path, **fields: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write(Run(**{"info": {}, **fields}), folder)
    return folder


def verdict(value: float, subject: str = "GPU-0") -> Verdict:
    return judge([Measurement("matmul.bf16", subject, "TFLOPS", value)], Limit("matmul.bf16", "TFLOPS", floor=672.0))


def entries(folder: Path, *, simulated: bool = False) -> list[EarlierRecord]:
    return earlier_records.read(folder / "now", rehearsal=simulated).entries_of(["GPU-0", "GPU-1"])


def test_earlier_attempts_on_the_same_devices_are_found(tmp_path: Path) -> None:
    run = {"started": "2026-11-01"}
    written(tmp_path / "a", info=run, devices=[GPU], state="finished", closing=REJECTED, verdicts=[verdict(600.0)])
    written(tmp_path / "b", info={"started": "2026-11-02"}, devices=[CPU])
    assert entries(tmp_path) == [
        {
            "record": str(tmp_path / "a" / FILE),
            "started": "2026-11-01",
            "state": "finished",
            "line": "REJECTED gpu0: ...",
            "devices": ["GPU-0"],
            "rejected": ["GPU-0"],
        }
    ]


BOTTOM = ClassFloor(400.0, 0.4, 0.6, 0.7, 0.85, ("us",), "row", "a peak", "classes.yaml:1", unit="TFLOPS")


@each_row(
    ("value", "changes", "marks"),
    [
        (600.0, {}, True),
        (600.0, {"declared_by": DeclaredBy.MARKER}, False),
        (600.0, {"declared_by": DeclaredBy.OWN_FILE}, False),
        (600.0, {"overridden": True}, False),
        (600.0, {"overridden": True, "class_floor": BOTTOM}, False),
        (300.0, {"overridden": True, "class_floor": BOTTOM}, True),
    ],
)
def test_a_limit_of_the_users_own_marks_no_board(
    tmp_path: Path, value: float, changes: dict[str, Any], marks: bool
) -> None:
    """Unless the floor of the class, which is shipped, is broken as well."""
    limit = replace(Limit("matmul.bf16", "TFLOPS", floor=672.0), **changes)
    failed = judge([Measurement("matmul.bf16", "GPU-0", "TFLOPS", value)], limit)
    assert failed.rejects
    written(tmp_path / "a", devices=[GPU], verdicts=[failed])
    assert [each["rejected"] for each in entries(tmp_path)] == [["GPU-0"] * marks]


def test_what_a_device_itself_does_marks_its_board_in_a_test_of_the_users_own(tmp_path: Path) -> None:
    limit = Limit("mine", "GB/s", floor=1.0, declared_by=DeclaredBy.MARKER)
    wrong = Measurement("mine", "GPU-0", "GB/s", None, trouble=Trouble("device", "3 bits differ", wrong=True))
    written(tmp_path / "a", devices=[GPU], verdicts=[judge([wrong], limit)])
    assert [each["rejected"] for each in entries(tmp_path)] == [["GPU-0"]]


def test_a_record_without_a_summary_tells_the_same(tmp_path: Path) -> None:
    """Older versions wrote none."""
    folder = written(tmp_path / "a", devices=[GPU], verdicts=[verdict(600.0)])
    by_summary = entries(tmp_path)
    (folder / SUMMARY).unlink()
    assert entries(tmp_path) == by_summary


def test_a_run_is_not_its_own_earlier_attempt(tmp_path: Path) -> None:
    written(tmp_path / "now", devices=[GPU])
    assert entries(tmp_path) == []


def test_a_simulated_record_counts_for_a_simulated_run_alone(tmp_path: Path) -> None:
    written(tmp_path / "a", info={"simulated": {"node": "x.yaml"}}, devices=[GPU])
    assert entries(tmp_path) == []
    assert len(entries(tmp_path, simulated=True)) == 1


def test_who_was_rejected_before_is_named_with_the_last_day(tmp_path: Path) -> None:
    for day, value in ((1, 600.0), (3, 600.0), (5, 700.0)):
        run = {"started": f"2026-11-0{day}T00:00:00+00:00"}
        written(tmp_path / f"r{day}", info=run, devices=[GPU], verdicts=[verdict(value), verdict(1.0, "GPU-9")])
    assert rejected_before(entries(tmp_path), {"GPU-0": "gpu0", "GPU-1": "gpu1"}) == ["gpu0 on 2026-11-03"]


# -- accelerators that have vanished


def run_of(day: int, host: str = "node1") -> dict[str, str]:
    return {"host": host, "started": f"2026-11-{day:02}T00:00:00+00:00"}


def vanished(folder: Path, *records: tuple[dict[str, str], list[Device]]) -> str | None:
    """What is said where the folder holds `records` and this run finds no accelerator."""
    for place, (run, devices) in enumerate(records):
        written(folder / f"r{place}", info=run, devices=devices)
    return earlier_records.read(folder / "now").last_accelerators("node1")


def test_accelerators_do_not_vanish_between_runs(tmp_path: Path) -> None:
    text = vanished(tmp_path, (run_of(1), [GPU]))
    path = tmp_path / "r0" / FILE
    assert text == f"the earlier record {path} holds 1 x H100, but no accelerator is found now"


def test_what_vanished_stays_a_failure_in_every_later_run(tmp_path: Path) -> None:
    """The run that found them gone has a record too, without devices: it must not make the next run green."""
    assert vanished(tmp_path, (run_of(1), [GPU]), (run_of(2), [])) is not None


@each_row(
    "records",
    [
        [],
        [(run_of(1), [CPU])],
        [(run_of(1, "node2"), [GPU])],  # another host's, on a shared file system
        [(run_of(1), [GPU]), (run_of(2), [CPU])],  # somebody measured it as a CPU since
        [(run_of(2), [CPU]), (run_of(1), [GPU])],  # by time, not by the name of the folder
        [({}, [GPU])],
        [({**run_of(1), "simulated": {"node": "x.yaml"}}, [GPU])],
    ],
)
def test_no_accelerator_is_missed_where_none_was(
    tmp_path: Path, records: list[tuple[dict[str, str], list[Device]]]
) -> None:
    assert vanished(tmp_path, *records) is None


# -- whatever else lies there

DEVICE = '{"uuid": "GPU-0", "model": "x", "driver": "nvidia"}'
NOT_RECORDS = [
    "",
    "[]",
    "{}",
    "[" * 100_000,
    '{"devices": [{}], "info": {}}',
    f'{{"devices": [{DEVICE}], "info": null}}',
    f'{{"devices": [{DEVICE}], "info": {{}}, "verdicts": 7}}',
    '{"devices": [], "info": {"host": "\udcff"}}',
]


@each_row("name", [FILE, SUMMARY])
@each_row("text", NOT_RECORDS)
def test_a_file_that_is_no_record_of_ours_is_left_alone_and_said(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / name).write_bytes(text.encode(errors="surrogateescape"))
    earlier = earlier_records.read(tmp_path / "now")
    assert (earlier.entries_of(["GPU-0"]), earlier.last_accelerators("node1")) == ([], None)
    (note,) = earlier.notes()
    assert note.startswith(f"1 earlier record was not read: {tmp_path / 'other' / name}")
    assert len(note) < 400


def test_what_would_block_or_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    for name in ("pipe", "huge", "link", "folder"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / FILE)
    with open(tmp_path / "huge" / SUMMARY, "wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "link" / FILE).symlink_to("/dev/zero")
    (tmp_path / "folder" / SUMMARY).mkdir()
    written(tmp_path / "real", devices=[GPU])
    (tmp_path / "again").symlink_to(tmp_path / "real")
    earlier = earlier_records.read(tmp_path / "now")
    assert [entry["record"] for entry in earlier.entries_of(["GPU-0"])] == [str(tmp_path / "real" / FILE)]
    assert [note.partition(":")[0] for note in earlier.notes()] == ["4 earlier records were not read"]


def test_of_more_records_than_a_run_reads_the_newest_count(tmp_path: Path) -> None:
    for place in range(MOST_RECORDS + 2):
        folder = written(tmp_path / f"r{place}", info=run_of(place + 1), devices=[GPU])
        (folder / SUMMARY).unlink()
        os.utime(folder / FILE, (place, place))
    assert [entry["started"] for entry in entries(tmp_path)] == [
        run_of(place + 1)["started"] for place in range(2, MOST_RECORDS + 2)
    ]
    assert earlier_records.read(tmp_path / "now").notes() == ["2 earlier records were not read: there are too many"]


@pytest.mark.nightly
def test_many_large_records_are_known_at_once(tmp_path: Path) -> None:
    """By their summaries: read whole they would take hundreds of times as long as one of them."""
    large = json.dumps({"devices": [], "info": {}, "notes": ["x" * 100] * 20_000})
    (tmp_path / "large").write_text(large)
    for place in range(MOST_SUMMARIES):
        folder = written(tmp_path / f"r{place}", devices=[GPU])
        (folder / FILE).unlink()
        os.link(tmp_path / "large", folder / FILE)
    began = time.perf_counter()
    json.loads(large)
    one = time.perf_counter() - began
    began = time.perf_counter()
    assert len(entries(tmp_path)) == MOST_SUMMARIES
    assert time.perf_counter() - began < 500 * one
