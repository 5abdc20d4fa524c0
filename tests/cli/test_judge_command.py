"""`pytest-accel judge` as a user runs it, on the record of a real run by a file that extends a shipped one."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import as_user, data_files, raw_record
from support.as_user import Ran

from pytest_accel.cli.main import main
from pytest_accel.core.measurement import estimate_of
from pytest_accel.run.record import seal
from pytest_accel.skus import loader

pytestmark = pytest.mark.devices


OWN = """
sku: ours
extends: cpu
limits:
  matmul.fp32:
    floor: {floor}
    unit: {unit}
    source: {{kind: measured, by: us, date: 2026-11, devices: 2, nodes: 1}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A filtered run of the packaged suite; its floor holds on any machine."""
    folder = tmp_path_factory.mktemp("judge")
    (folder / "own.yaml").write_text(OWN.format(floor=0.001, unit="of peak"))
    found = as_user.pytest(folder, "-k", "inventory or (matmul and fp32)", sku="./own.yaml", paths=())
    assert found.exit == 0, found.out
    return found


@pytest.fixture
def folder(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the record as `rec`, with the file that it was judged by beside it."""
    shutil.copytree(ran.folder, tmp_path / "rec")
    shutil.copy(ran.folder.parent / "own.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["judge", *args])
    said = capsys.readouterr()
    return code, said.out, said.err


def closing(out: str) -> str:
    return next(line for line in out.splitlines() if line.startswith("JUDGED AGAIN"))


def written(path: Path, text: dict[str, Any]) -> None:
    """Write the content of a record, with its hash."""
    path.write_text(json.dumps({**text, "sha256": seal(text)}))


def undisturbed(path: Path) -> None:
    """Drop from a record that other processes, such as other tests, used the processor: it excuses a low speed."""
    text = raw_record.read(path.parent)
    for each in text["measurements"]:
        each.pop("notes", None)
    written(path, text)


def statuses(record: Any) -> list[Any]:
    return [(each["metric"], each["subject"], each["status"], each["floor"]) for each in record["verdicts"]]


@pytest.mark.nightly
def test_the_run_counts_what_its_file_overrides_and_holds_the_hash_of_every_file(ran: Ran) -> None:
    assert "1 limit overridden; by ./own.yaml)" in ran.closing
    own = (ran.folder.parent / "own.yaml").read_bytes()
    shipped = (loader.SHIPPED / "cpu.yaml").read_bytes()
    assert ran.record["sku"]["files"] == {
        "cpu.yaml": hashlib.sha256(shipped).hexdigest(),
        "./own.yaml": hashlib.sha256(own).hexdigest(),
    }


def test_the_file_of_a_vendor_is_hashed_too(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("sku: ours\nextends: h100-sxm\n")
    assert set(loader.load(str(path)).files) == {"vendor/nvidia.yaml", "classes.yaml", "h100-sxm.yaml", str(path)}


def test_judged_again_unchanged_it_is_what_it_was(ran: Ran, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = judged(capsys, "rec", "--output", "new")
    assert (code, err) == (0, "")
    assert "changed: nothing\n" in out
    assert "(-v lists them)" in out
    _, every, _ = judged(capsys, "rec/record.json", "-v")
    assert "(-v lists them)" not in every
    assert len(every) > len(out)
    assert closing(out) == f"JUDGED AGAIN {ran.closing}"
    new = raw_record.read(folder / "new")
    assert statuses(new) == statuses(ran.record)
    assert new["judged_from"]["record"] == str(folder / "rec" / "record.json")
    assert new["judged_from"]["sha256"] == hashlib.sha256((folder / "rec" / "record.json").read_bytes()).hexdigest()


def test_a_tightened_file_says_what_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.yaml").write_text(OWN.format(floor=100000, unit="TFLOPS"))
    undisturbed(folder / "rec" / "record.json")
    code, out, _ = judged(capsys, "rec/record.json")
    assert code == 1
    assert "changed: file own.yaml: " in out
    assert "changed: cpu0 matmul.fp32: " in out
    assert ", floor 100000 TFLOPS" in out
    assert out.count("changed: cpu") == 2
    assert closing(out).startswith("JUDGED AGAIN REJECTED 2/2: cpu0, cpu1 matmul.fp32 ")
    assert "\nnext: cpu0, cpu1 A501 compute-slow, error: check the limit of your own first (" in out


def test_by_the_shipped_file_the_override_of_the_run_still_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "rec" / "record.json"
    text = raw_record.read(path.parent)
    for each in text["measurements"]:
        if each["metric"] == "matmul.fp32":  # as fast as can be: the shipped floor is no matter of this machine
            samples = each["peak"]["samples"]
            value = estimate_of(samples, each["unit"], "mean").mean
            each.update(samples=samples, value=value, seconds=[], details={})
    text["verdicts"] = [each for each in text["verdicts"] if each["metric"] != "matmul.fp32"]
    written(path, text)
    _, out, _ = judged(capsys, "rec", "--sku", "cpu")
    assert "own.yaml" in closing(out)
    assert "changed: file own.yaml: " in out


def test_a_record_that_was_judged_again_is_judged_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(capsys, "rec", "--output", "new")
    code, out, _ = judged(capsys, "new")
    assert code == 0
    assert "changed: nothing\n" in out
    assert closing(out).count("JUDGED AGAIN") == 1


@pytest.mark.parametrize("asked", ["auto", "", None])
def test_a_sku_that_was_not_asked_for_is_the_one_of_the_record(
    asked: str | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "rec" / "record.json"
    text = raw_record.read(path.parent)
    text["sku"] = {"name": "cpu", "asked": asked, "files": {}}
    written(path, text)
    assert judged(capsys, "rec")[1].startswith("rec/record.json: judged as cpu, platform host, level quick\n")


WRONG: dict[str, list[str]] = data_files.tables("cli/judge-mistakes")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("args", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_sentence_and_a_4(args: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("output.txt").write_text("# nThread 1 nGpus 8 minBytes 8589934592\n", encoding="utf-8")
    code, _, err = judged(capsys, *args.split())
    assert code == 4
    assert says in err
    assert err.count("\n") == 1


def test_only_an_acceptance_ends_with_0_if_a_sku_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that is HELD, as its run named none, ends as that run did if `judge` names none either."""
    node = ("--accel-simulate=h100-sxm", "-k", "inventory")
    found = as_user.pytest(tmp_path, *node, sku="auto", paths=(), env=as_user.STUB_TORCH)
    assert (found.exit, found.record["closing"]["result"]) == (0, "HELD")
    assert judged(capsys, str(found.folder))[0] == 0
    code, out, _ = judged(capsys, str(found.folder), "--sku=h100-sxm")
    assert code == 6
    assert closing(out).startswith("JUDGED AGAIN SIMULATED HELD ")
