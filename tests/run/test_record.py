"""The record: whole or not at all, readable by anything, and written where nobody can redirect it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from pytest_accel.core.measurement import Device, Measurement, Peak, Trouble
from pytest_accel.core.run import SCHEMA, Run
from pytest_accel.core.sku_types import Limit, Source
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run import folder_summary, verdict_ledger
from pytest_accel.run.record import FILE, write
from pytest_accel.run.summaries import SUMMARY

GPU = Device(uuid="GPU-0", index=0, driver="nvidia", model="H100", serial="165", facts={"vbios": "96.00"})


def written(folder: Path, **fields: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    write(Run(**{"info": {}, **fields}), folder)
    return json.loads((folder / FILE).read_text())


def test_a_record_holds_devices_measurements_and_verdicts_with_their_limits(tmp_path: Path) -> None:
    source = Source("published", "huggingface", "2026-08")
    limit = Limit("matmul.bf16", "TFLOPS", floor=672.0, source=source, origin="h100-sxm.yaml:20")
    found = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 612.4, (612.0, 612.8), peak=Peak(989.4, "datasheet"))
    text = written(tmp_path, devices=[GPU], measurements=[found], verdicts=[judge([found], limit)])
    assert text["schema"] == SCHEMA
    assert text["state"] == "running"
    assert text["devices"][0]["serial"] == "165"
    assert text["measurements"][0]["samples"] == [612.0, 612.8]
    assert text["verdicts"][0]["status"] == "FAIL"
    its_limit = text["limits"][text["verdicts"][0]["limit"]]
    assert its_limit["origin"] == "h100-sxm.yaml:20"
    assert its_limit["source"]["by"] == "huggingface"


def test_a_limit_of_several_verdicts_is_written_once(tmp_path: Path) -> None:
    one, other = Limit("a", "s", floor=1.0), Limit("b", "s", floor=1.0)
    found: list[tuple[Measurement, Limit | None]] = []
    found += [(Measurement("a", f"GPU-{place}", "s", 2.0), replace(one)) for place in range(8)]
    found += [(Measurement("b", "GPU-0", "s", 2.0), other), (Measurement("c", "GPU-0", "s", 2.0), None)]
    text = written(tmp_path, verdicts=[judge([measured], limit) for measured, limit in found])
    assert [each.get("limit") for each in text["verdicts"]] == [0] * 8 + [1, None]
    assert [each["metric"] for each in text["limits"]] == ["a", "b"]


@each_row("name", ["serial", "uuid"])
@each_row("hidden", ["\u200b", "\u202e", "\xad", "\n"])
def test_a_device_that_is_not_what_it_seems_is_refused_with_its_place(tmp_path: Path, name: str, hidden: str) -> None:
    """By record and summary: it would pass for another board, or hide from the one that it is."""
    changed: Any = {name: f"165{hidden}0"}
    written(tmp_path, devices=[GPU, replace(GPU, **{"uuid": "GPU-1", **changed})])
    for file in (FILE, SUMMARY):
        with pytest.raises(BadFile) as refused:
            folder_summary.of_file(tmp_path / file)
        assert str(refused.value).startswith(f"{tmp_path / file}: devices[1].{name}: '165\\")
        assert "holds an invisible character" in str(refused.value)


def test_the_record_states_the_hash_of_its_content(tmp_path: Path) -> None:
    """By a rule that any program can follow: without the key itself, keys sorted, no spaces."""
    stated = written(tmp_path, devices=[GPU], notes=["\u00e9\u2713"])
    bare = {key: value for key, value in stated.items() if key != "sha256"}
    canonical = json.dumps(bare, sort_keys=True, separators=(",", ":"))
    assert stated["sha256"] == hashlib.sha256(canonical.encode()).hexdigest()


def test_a_link_that_was_put_beside_the_record_is_not_followed(tmp_path: Path) -> None:
    """The name of the temporary file cannot be guessed, and the record itself is replaced, not written through."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (FILE, SUMMARY, f".{FILE}.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    write(Run(info={}), tmp_path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / FILE).is_symlink()


def test_numbers_that_json_lacks_are_written_as_text(tmp_path: Path) -> None:
    """Bare NaN is refused by most readers, and with it the whole record. So is what has no type of JSON."""
    found = Measurement("a", "b", "s", math.nan, (math.inf, -math.inf), trouble=Trouble("bug", "x"))
    written(tmp_path, measurements=[found], software={"at": tmp_path, 7: (1, 2)})
    text = (tmp_path / FILE).read_text()
    strict = json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}"))
    assert strict["measurements"][0]["value"] == "nan"
    assert strict["measurements"][0]["samples"] == ["inf", "-inf"]
    assert strict["software"] == {"at": str(tmp_path), "7": [1, 2]}


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    """Where its temporary file belongs lies a folder; otherwise the old one is replaced whole."""
    written(tmp_path, notes=["a long first note"] * 50)
    assert written(tmp_path, notes=["old"])["notes"] == ["old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, SUMMARY]
    with pytest.raises(OSError, match="gone"):
        write(Run(info={}), tmp_path / "gone")
    assert json.loads((tmp_path / FILE).read_text())["notes"] == ["old"]


def test_the_user_has_a_name_where_the_environment_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under cron, in a container, or in a prolog."""
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    assert verdict_ledger._user() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    assert verdict_ledger._user() == str(2**31 - 5)
