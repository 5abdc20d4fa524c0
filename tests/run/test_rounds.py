"""Long runs on simulated devices: rounds, what becomes worse in a later one, and a run that is resumed."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from as_user import STUB_TORCH
from in_process import Here, fast

from pytest_accel import probes
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.core.measurement import Trouble
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status
from pytest_accel.judging.closing import Closing
from pytest_accel.run import record, resume, telemetry_file
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.readings import Telemetry
from pytest_accel.run.record import FILE, PACKED, TELEMETRY
from pytest_accel.run.session import Session

SKU = """
sku: ours
extends: h100-sxm
budgets: {long: {stream: 5, matmul.bf16: 10}}
"""
HOURS = 0.015
"""Simulated hours: some rounds of a copy and a product."""


SESSIONS: list[Session] = []
"""The sessions of a test, to be closed."""


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with fast():
        yield
    while SESSIONS:
        killed(SESSIONS.pop())


def opened(folder: Path, fault: str = "", hours: float | None = HOURS, node: str = "single", **more: Any) -> Session:
    """A long run on a node of one device, with a fault or none, in `folder`/out."""
    (folder / "ours.yaml").write_text(SKU)
    (folder / "node.yaml").write_text(f"sku: ./ours.yaml\nplatform: {node}\nfaults: [{fault}]\n")
    options = Options(
        sku=str(folder / "ours.yaml"),
        level="long",
        hours=hours,
        output=folder / "out",
        simulate=str(folder / "node.yaml"),
        baseline="none",
    )
    here = Session(replace(options, **more), pool=Here())
    here.open()
    SESSIONS.append(here)
    return here


def measure(here: Session) -> None:
    """The first round."""
    for probe, given in ((probes.stream, {"op": "copy_kernel"}), (probes.matmul, {"dtype": "bf16"})):
        for device in here.setup.devices:
            here.check(probe, given, device.uuid)


def whole(here: Session) -> Closing:
    """All rounds, and the end."""
    measure(here)
    for device in here.setup.devices:
        here.repeat_rounds(device.uuid)
    here.setup.filtered.append("without most probes")
    return here.finish()


def resumed(folder: Path, **more: Any) -> Session:
    """The run in `folder`/out, resumed."""
    return opened(folder, resume=folder / "out", **more)


def killed(here: Session) -> None:
    """End the processes of a run without a word in its record, as SIGKILL does."""
    here.stop()
    here.pool.sensor.telemetry.close()


@pytest.mark.slow
def test_rounds_go_on_for_the_hours_and_a_healthy_node_stays_healthy(tmp_path: Path) -> None:
    here = opened(tmp_path)
    closing = whole(here)
    rounds = here.ledger.record.rounds
    assert rounds["done"] >= HOURS
    assert rounds["complete"] >= 3
    assert rounds["found"] == []
    assert closing.word == "HELD"
    assert f"{rounds['done']:.3g} h in {rounds['complete']} complete rounds" in closing.line
    copies = rounds["series"]["stream.copy_kernel"]["values"]
    assert {len(values) - rounds["complete"] for values in copies.values()} <= {0, 1}, "one value for each round"
    measured = [each for each in here.ledger.record.measurements if each.metric == "stream.copy_kernel"]
    assert len(measured) == len(here.setup.devices), "of healthy later rounds the record holds the values alone"


@pytest.mark.slow
def test_a_loss_in_a_later_round_is_found_with_its_round(tmp_path: Path) -> None:
    here = opened(tmp_path, "{fault: slow-memory, device: 0, by: 0.05, at: 30}")
    closing = whole(here)
    (verdict,) = [
        each for each in here.ledger.verdicts if each.metric == "stream.copy_kernel" and each.status is Status.FAIL
    ]
    assert here.ledger.names[verdict.subject] == "gpu0"
    (found,) = [each for each in here.ledger.record.rounds["found"] if each["metric"] == "stream.copy_kernel"]
    rounds = max(found["round"], here.ledger.record.rounds["complete"])
    assert sentence_of(verdict).startswith(f"in round {found['round']} of {rounds}: ")
    assert found["round"] > 1
    assert closing.word == "REJECTED"
    later = [each for each in here.ledger.record.measurements if each.details.get("round") == found["round"]]
    assert {each.metric for each in later} >= {"stream.copy_kernel"}
    assert "below its first round" in sentence_of(verdict)
    saved = record.read(tmp_path / "out" / FILE)
    assert not saved.contradictions
    again = judge_again(saved, here.setup.terms)
    assert again.closing["line"] == f"JUDGED AGAIN {closing.line}"


def test_a_killed_run_measures_nothing_twice(tmp_path: Path) -> None:
    first = opened(tmp_path, hours=None)
    for device in first.setup.devices:
        first.check(probes.stream, {"op": "copy_kernel"}, device.uuid)
    before = [each.started for each in first.ledger.record.measurements if each.metric == "stream.copy_kernel"]
    killed(first)
    with open(tmp_path / "out" / TELEMETRY, "a", encoding="utf-8") as file:
        file.write('{"uuid": "GPU-')  # what a kill leaves
    again = resumed(tmp_path, hours=None)
    measure(again)
    after = [each.started for each in again.ledger.record.measurements if each.metric == "stream.copy_kernel"]
    assert after == before
    assert len([each for each in again.ledger.record.measurements if each.metric == "matmul.bf16"]) == 1
    again.setup.filtered.append("without most probes")
    assert "resumed once" in again.finish().line
    packed = tmp_path / "out" / PACKED
    with gzip.open(packed, "rt") as lines:
        assert all(isinstance(json.loads(line), dict) for line in lines)
    assert len(list(telemetry_file.readings(packed))) > 0
    assert not (tmp_path / "out" / TELEMETRY).exists()


@pytest.mark.slow
def test_a_run_that_is_killed_twice_goes_on_with_its_rounds(tmp_path: Path) -> None:
    here = opened(tmp_path)
    measure(here)
    killed(here)
    here = resumed(tmp_path)
    measure(here)
    calls = 0

    def kill() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        here.rounds.run(kill)
    done = here.ledger.record.rounds["series"]["stream.copy_kernel"]["values"]
    killed(here)
    here = resumed(tmp_path)
    closing = whole(here)
    now = here.ledger.record.rounds["series"]["stream.copy_kernel"]["values"]
    assert all(now[subject][: len(values)] == values for subject, values in done.items())
    assert here.ledger.record.rounds["done"] >= HOURS
    assert "resumed twice" in closing.line
    assert [note for note in here.ledger.record.notes if note.startswith("resumed at")]
    saved = record.read(tmp_path / "out" / FILE)
    assert not saved.contradictions
    assert judge_again(saved, here.setup.terms).closing["word"] == closing.word


def test_hours_that_are_not_over_are_no_acceptance(tmp_path: Path) -> None:
    here = opened(tmp_path)
    measure(here)
    closing = here.finish()
    assert closing.word == "NOT JUDGED"
    assert f"of {HOURS:g} hours are done" in closing.line
    assert closing.exit == 6
    assert here.resumable


@pytest.mark.slow
def test_a_loss_before_the_kill_stays_found(tmp_path: Path) -> None:
    fault = "{fault: slow-memory, device: 0, by: 0.05, at: 30}"
    here = opened(tmp_path, fault)
    measure(here)
    calls = 0

    def kill() -> None:
        nonlocal calls
        calls += 1
        if here.ledger.record.rounds["found"] or calls > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        here.rounds.run(kill)
    killed(here)
    here = resumed(tmp_path, fault=fault)
    measure(here)
    here.setup.filtered.append("without most probes")
    assert "FAIL" in {each.status.value for each in here.ledger.verdicts if each.metric == "stream.copy_kernel"}


def test_errors_that_were_counted_before_the_kill_stay_found(tmp_path: Path) -> None:
    fault = "{fault: pcie-replays, device: 0, at: stream, count: 100000}"
    here = opened(tmp_path, fault, hours=None)
    measure(here)
    killed(here)
    here = resumed(tmp_path, fault=fault, hours=None)
    failed = [each for each in here.ledger.verdicts if each.metric == "counters.pcie_replays"]
    assert [here.ledger.names[each.subject] for each in failed] == ["gpu0"]
    assert "before the run was resumed" in sentence_of(failed[0])


def changed_record(folder: Path, **keys: Any) -> None:
    """Change the record as an editor does."""
    path = folder / "out" / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def test_what_cannot_be_resumed_is_refused_and_kept(tmp_path: Path) -> None:
    here = opened(tmp_path)
    measure(here)
    killed(here)
    text = (tmp_path / "out" / FILE).read_text()
    with pytest.raises(Refused, match=r"--accel-hours was 0\.015 when the run began, and is 5 now"):
        resumed(tmp_path, hours=5)
    with pytest.raises(Refused, match="content of the node file"):
        resumed(tmp_path, fault="{fault: slow-memory, device: 0}")
    with pytest.raises(Refused, match="holds the record of another run"):
        opened(tmp_path)
    with pytest.raises(Refused, match="holds no record; to begin a run there, add --accel-output"):
        opened(tmp_path, resume=tmp_path / "nowhere", output=None)
    assert (tmp_path / "out" / FILE).read_text() == text, "the record stays as it was"
    changed_record(tmp_path, notes=["all is well"])
    with pytest.raises(Refused, match="was changed after it was written"):
        resumed(tmp_path)


@pytest.mark.slow
def test_a_device_that_is_gone_when_the_run_is_resumed_fails_it(tmp_path: Path) -> None:
    here = opened(tmp_path, hours=None, platform="hgx8", node="hgx8")
    gone = here.setup.devices[3]
    killed(here)
    path = tmp_path / "out" / FILE
    raw = json.loads(path.read_text())
    here = resumed(tmp_path, hours=None, platform="hgx8", node="hgx8")
    assert here.ledger.record.devices == [*here.setup.devices]
    killed(here)
    found = resume.Resumed(tmp_path / "out", record.read(path))
    left = [each for each in here.setup.devices if each != gone]
    assert found.gone(left) == f"gpu3 ({gone.uuid}) was there when the run began, and is missing now"
    assert [each.name for each in found.missing(left)] == ["gpu3"]
    renumbered = [replace(each, index=place) for place, each in enumerate(left)]
    assert [each.name for each in found.missing(renumbered)] == ["gpu7"], "no two devices have one name"
    assert raw["run"]["starts"][0]["boot"]


@pytest.mark.slow
def test_another_boot_is_said(tmp_path: Path) -> None:
    here = opened(tmp_path, hours=None)
    here.ledger.record.run["starts"][0]["boot"] = "the boot before"
    here.ledger.save()
    killed(here)
    here = resumed(tmp_path, hours=None)
    assert "after another boot of the host" in here.ledger.record.notes[-1]
    measure(here)
    here.setup.filtered.append("without most probes")
    assert "resumed once, 1 reboot" in here.finish().line


def test_other_software_is_refused(tmp_path: Path) -> None:
    here = opened(tmp_path, hours=None)
    here.ledger.record.software["driver"] = "1.0"
    here.ledger.save()
    killed(here)
    with pytest.raises(Refused, match=r"driver was 1\.0 when the run began, and is .* now; the measurements before"):
        resumed(tmp_path, hours=None)


def test_what_an_interrupt_left_of_a_measurement_is_made_again(tmp_path: Path) -> None:
    here = opened(tmp_path, hours=None)
    device = here.setup.devices[0]
    here.check(probes.stream, {"op": "copy_kernel"}, device.uuid)
    (whole_one,) = [each for each in here.ledger.record.measurements if each.metric == "stream.copy_kernel"]
    late = replace(whole_one, started=whole_one.started + 100, trouble=Trouble("external", "interrupted"))
    other = replace(late, metric="matmul.bf16")
    here.ledger.add([late, other])
    here.ledger.save()
    killed(here)
    here = resumed(tmp_path, hours=None)
    assert [each.metric for each in here.ledger.record.measurements if each.samples] == ["stream.copy_kernel"]
    measure(here)
    assert {each.status for each in here.ledger.verdicts} == {Status.PASS}


@pytest.mark.slow
def test_a_run_that_has_ended_is_not_resumed(tmp_path: Path) -> None:
    whole(opened(tmp_path))
    with pytest.raises(Refused, match="is of a run that has ended: SIMULATED HELD"):
        resumed(tmp_path)


def test_one_command_line_begins_a_run_and_resumes_it(tmp_path: Path) -> None:
    here = resumed(tmp_path)
    assert here.ledger.resumed is None
    measure(here)
    killed(here)
    assert resumed(tmp_path).ledger.resumed is not None


def test_a_run_is_resumed_whatever_the_metadata_call_its_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package index states "2.13.0" of a torch that calls itself "2.13.0+cu130"."""
    metadata = tmp_path / "torch-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    here = opened(tmp_path)
    measure(here)
    killed(here)
    assert resumed(tmp_path).ledger.resumed is not None


def test_a_run_is_not_resumed_with_another_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = opened(tmp_path)
    measure(here)
    killed(here)
    monkeypatch.setattr(sys, "path", [STUB_TORCH["PYTHONPATH"], *sys.path])
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(Refused, match=r"--accel-resume: torch was .* when the run began, and is 2\.6\.0\+stub now"):
        resumed(tmp_path)


def test_hours_are_for_level_long(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--accel-hours: rounds are repeated at --accel-level=long, not at standard"):
        opened(tmp_path, level="standard")


def reading(uuid: str, at: float) -> dict[str, Any]:
    return {"uuid": uuid, "at": at, "power_w": 700.0}


def test_readings_of_later_rounds_are_thinned_unless_something_fell_short(tmp_path: Path) -> None:
    side = tmp_path / TELEMETRY
    telemetry = Telemetry()
    telemetry.write_to(side)
    telemetry.hear(reading("one", 0.0))
    telemetry.wait()
    for at in range(1, 200):
        telemetry.hear(reading("one", float(at)))
    assert len(telemetry.window("one", 100, 149)) == 50, "in memory there are all of the measurement that goes on"
    telemetry.settle(whole=False)
    assert telemetry.window("one", 0, 1000) == []
    for at in range(200, 210):
        telemetry.hear(reading("one", float(at)))
    telemetry.settle(whole=True)
    telemetry.close()
    times = [json.loads(line)["at"] for line in side.read_text().splitlines()]
    assert times == [0.0, 60.0, 120.0, 180.0, *range(200, 210)]
