"""The record: whole or not at all, readable by anything, and not misled by what lies beside it."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.core.measurement import Device, Measurement, Peak, Trouble
from pytest_accel.core.sku import Limit, Source
from pytest_accel.judging.judge import judge
from pytest_accel.run import record
from pytest_accel.run.record import FILE, Record, earlier, last_accelerators, write

GPU = Device(uuid="GPU-0", index=0, driver="nvidia", model="H100", serial="165", facts={"vbios": "96.00"})
CPU = Device(uuid="CPU-0", index=0, driver="cpu", model="EPYC")


def written(folder: Path, **fields: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    write(Record(**{"run": {}, **fields}), folder)
    return json.loads((folder / FILE).read_text())


def test_a_record_holds_devices_measurements_and_verdicts_with_their_limits(tmp_path: Path) -> None:
    source = Source("published", "huggingface", "2026-08")
    limit = Limit("matmul.bf16", "TFLOPS", floor=672.0, source=source, origin="h100-sxm.yaml:20")
    found = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 612.4, (612.0, 612.8), peak=Peak(989.4, "datasheet"))
    text = written(tmp_path, devices=[GPU], measurements=[found], verdicts=[judge([found], limit)])
    assert text["schema"] == record.SCHEMA
    assert text["state"] == "running"
    assert text["devices"][0]["serial"] == "165"
    assert text["measurements"][0]["samples"] == [612.0, 612.8]
    assert text["verdicts"][0]["status"] == "FAIL"
    assert text["verdicts"][0]["limit"]["origin"] == "h100-sxm.yaml:20"
    assert text["verdicts"][0]["limit"]["source"]["by"] == "huggingface"


def test_numbers_that_json_lacks_are_written_as_text(tmp_path: Path) -> None:
    """Bare NaN is refused by most readers, and with it the whole record."""
    found = Measurement("a", "b", "s", math.nan, (math.inf, -math.inf), trouble=Trouble("bug", "x"))
    written(tmp_path, measurements=[found])
    text = (tmp_path / FILE).read_text()
    strict = json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}"))
    assert strict["measurements"][0]["value"] == "nan"
    assert strict["measurements"][0]["samples"] == ["inf", "-inf"]


def test_what_has_no_json_type_is_written_as_text(tmp_path: Path) -> None:
    assert written(tmp_path, run={"output": tmp_path, 7: (1, 2)})["run"] == {"output": str(tmp_path), "7": [1, 2]}


def test_a_record_is_replaced_whole(tmp_path: Path) -> None:
    written(tmp_path, notes=["a long first note"] * 50)
    assert written(tmp_path, notes=[])["notes"] == []
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    """Where its temporary file belongs lies a folder."""
    written(tmp_path, notes=["old"])
    with pytest.raises(OSError, match="gone"):
        write(Record(run={}), tmp_path / "gone")
    assert json.loads((tmp_path / FILE).read_text())["notes"] == ["old"]


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_bytes(b"{}\n")
    assert record.hash_file(path) == hashlib.sha256(b"{}\n").hexdigest()
    assert record.hash_file(tmp_path / "none") is None


# -- records beside this one


def test_earlier_attempts_on_the_same_devices_are_found(tmp_path: Path) -> None:
    closing = {"line": "REJECTED gpu0: ...", "exit": 1}
    written(tmp_path / "a", run={"started": "2026-11-01"}, devices=[GPU], state="finished", closing=closing)
    written(tmp_path / "b", run={"started": "2026-11-02"}, devices=[CPU])
    assert earlier(tmp_path / "now", ["GPU-0", "GPU-1"]) == [
        {
            "record": str(tmp_path / "a" / FILE),
            "started": "2026-11-01",
            "state": "finished",
            "line": "REJECTED gpu0: ...",
            "devices": ["GPU-0"],
        }
    ]


def test_a_run_is_not_its_own_earlier_attempt(tmp_path: Path) -> None:
    written(tmp_path / "now", devices=[GPU])
    assert earlier(tmp_path / "now", ["GPU-0"]) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        "{}",
        '{"devices": null, "run": {}}',
        '{"devices": [{}], "run": {}}',
        '{"devices": ["x"], "run": {}}',
        '{"devices": [{"uuid": "GPU-0", "model": "x", "driver": "nvidia"}]}',
        '{"devices": [{"uuid": "GPU-0", "model": "x", "driver": "nvidia"}], "run": null}',
        '{"devices": [{"uuid": "GPU-0", "model": "x", "driver": "nvidia"}], "run": {}, "closing": "x"}',
    ],
)
def test_a_file_that_is_no_record_of_ours_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE).write_text(text)
    assert earlier(tmp_path / "now", ["GPU-0"]) == []
    assert last_accelerators(tmp_path / "now", "node1") is None


def test_a_record_in_another_encoding_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE).write_bytes(b'{"devices": [], "run": {"host": "\xff"}}')
    assert last_accelerators(tmp_path / "now", "node1") is None


def run_of(day: int, host: str = "node1") -> dict[str, str]:
    return {"host": host, "started": f"2026-11-{day:02}T00:00:00+00:00"}


def vanished(folder: Path, *records: tuple[dict[str, str], list[Device]]) -> str | None:
    """What is said where the folder holds `records` and this run finds no accelerator."""
    for place, (run, devices) in enumerate(records):
        written(folder / f"r{place}", run=run, devices=devices)
    return last_accelerators(folder / "now", "node1")


def test_accelerators_do_not_vanish_between_runs(tmp_path: Path) -> None:
    text = vanished(tmp_path, (run_of(1), [GPU]))
    path = tmp_path / "r0" / FILE
    assert text == f"the earlier record {path} holds 1 x H100, but no accelerator is found now"


def test_what_vanished_stays_a_failure_in_every_later_run(tmp_path: Path) -> None:
    """The run that found them gone has a record too, without devices: it must not make the next run green."""
    assert vanished(tmp_path, (run_of(1), [GPU]), (run_of(2), [])) is not None


@pytest.mark.parametrize(
    "records",
    [
        [],
        [(run_of(1), [CPU])],
        [(run_of(1, "node2"), [GPU])],  # another host's, on a shared file system
        [(run_of(1), [GPU]), (run_of(2), [CPU])],  # somebody measured it as a CPU since
        [(run_of(2), [CPU]), (run_of(1), [GPU])],  # by time, not by the name of the folder
        [({}, [GPU])],
    ],
)
def test_no_accelerator_is_missed_where_none_was(
    tmp_path: Path, records: list[tuple[dict[str, str], list[Device]]]
) -> None:
    assert vanished(tmp_path, *records) is None
