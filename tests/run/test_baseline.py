"""Earlier records as a baseline: which count, what the option names, and that the record keeps what was compared."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import as_user, data_files, in_process
from support.rows import each_row

from pytest_accel import probes
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.core import structured
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Result, Status, Verdict
from pytest_accel.judging.causes.findings import finding_of
from pytest_accel.run import earlier_records, record
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.session import Session
from pytest_accel.run.summaries import SUMMARY, summary
from pytest_accel.views.next_steps import next_steps

TABLES = data_files.tables("run/baseline")

HEALTHY = "sku: h100-sxm\nplatform: hgx8\n"
SLOWER = f"{HEALTHY}faults: [{{fault: slow-memory, device: 3, by: 0.025}}]\n"


def measured(folder: Path, name: str, node: str, **options: Any) -> Session:
    """Run the triad on a simulated node into a folder of its own."""
    file = folder / f"{name}.yaml"
    file.write_text(node)
    importlib.import_module("torch").manual_seed(0)
    given = Options(sku="", level="quick", output=folder / "records" / name, simulate=str(file), **options)
    here = Session.open(given, in_process.InlinePool())
    here.begin()
    for device in here.target.devices:
        here.check(probes.stream, {"op": "triad"}, device.uuid)
    here.finish()
    return here


def accept(folder: Path, name: str, **changes: Any) -> None:
    """Make the summary of a record, which measured one metric, that of a whole accepted run of an earlier day."""
    path = folder / "records" / name / SUMMARY
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "result": "ACCEPTED", "started": "2026-01-03T02:00:00+00:00", **changes}))


def triad(here: Session) -> dict[str, tuple[Status, str]]:
    return {here.ledger.names[each.subject]: (each.status, sentence_of(each)) for each in here.ledger.verdicts}


DROPPED = "below its first accepted run of 2026-01-03"


@pytest.mark.nightly
@pytest.mark.usefixtures("fast")
def test_a_device_that_lost_memory_bandwidth_is_found_and_the_record_tells_the_same(tmp_path: Path) -> None:
    measured(tmp_path, "first", HEALTHY)
    accept(tmp_path, "first")
    here = measured(tmp_path, "second", SLOWER)
    found = triad(here)
    assert found["gpu3"][0] is Status.MARGINAL
    assert DROPPED in found["gpu3"][1]
    assert not any(DROPPED in sentence for name, (_, sentence) in found.items() if name != "gpu3")

    told = json.loads((tmp_path / "records/first" / SUMMARY).read_text())
    assert len(json.dumps(told["figures"])) < 500, "every run reads a year of nights, of forty metrics each"
    saved = record.read(tmp_path / "records/second/record.json")
    pasts = [past for of_devices in saved.baseline["pasts"].values() for past in of_devices.values()]
    assert {past.first.record for past in pasts if past.first} == {str(tmp_path / "records/first/record.json")}
    (tmp_path / "records/first").rename(tmp_path / "gone")
    again = judge_again(saved, here.target.terms)
    assert {(each.subject, each.status, sentence_of(each)) for each in again.verdicts} >= {
        (each.subject, each.status, sentence_of(each)) for each in here.ledger.verdicts
    }


SHIPPED = [("h100-sxm", "h100-sxm")]
WHOLE = Summary(state="finished", result=Result.ACCEPTED, sku="h100-sxm")


def test_which_runs_are_history() -> None:
    others: list[dict[str, Any]] = [
        {"state": "interrupted"},
        {"filtered": True},
        {"sku": "h200-sxm"},
        {"judged_again": True},
        {"result": None},
    ]
    assert WHOLE.is_history("h100-sxm")
    assert replace(WHOLE, result=Result.REJECTED).is_history("h100-sxm")
    assert [each for each in others if replace(WHOLE, **each).is_history("h100-sxm")] == []


@pytest.mark.nightly
def test_an_earlier_rejection_is_named_whatever_the_baseline_is(tmp_path: Path) -> None:
    """Simulated nodes of one seed have the same devices, whatever is wrong with them."""
    whole = ("--accel-level=quick", "-k", "pcie_width")
    (tmp_path / "bad.yaml").write_text(f"{HEALTHY}faults: [{{fault: narrow-pcie, device: 2}}]\n")
    as_user.pytest(tmp_path, "--accel-simulate=bad.yaml", *whole, sku=None, paths=())
    lines = [
        as_user.pytest(tmp_path, "--accel-simulate=h100-sxm", *whole, option, sku=None, paths=()).closing
        for option in ("--accel-baseline=auto", "--accel-baseline=none")
    ]
    assert ["rejected before: gpu2 on " in each for each in lines] == [True, True]


@pytest.mark.nightly
def test_a_limit_that_was_tried_out_marks_no_board(tmp_path: Path) -> None:
    """A shipped limit that a board breaks in the same run does."""
    limit = "equals: '97', unit: text, source: {kind: measured, by: us, date: 2026-11}"
    (tmp_path / "own.yaml").write_text(f"extends: h100-sxm\nlimits:\n  inventory.vbios: {{{limit}}}\n")
    (tmp_path / "bad.yaml").write_text(f"{HEALTHY}faults: [{{fault: narrow-pcie, device: 2}}]\n")
    lines = []
    for node, sku in (("h100-sxm", "own.yaml"), ("h100-sxm", "h100-sxm"), ("bad.yaml", "own.yaml"), *SHIPPED):
        which = (f"--accel-simulate={node}", f"--accel-sku={sku}", "--accel-level=quick", "-k", "vbios or pcie_width")
        lines.append(as_user.pytest(tmp_path, *which, sku=None, paths=()).closing)
    assert lines[0].startswith("SIMULATED REJECTED 8/8: gpu0 to gpu7 inventory.vbios")
    assert "rejected before" not in lines[1]
    assert "(rejected before: gpu2 on " in lines[3]


@pytest.mark.nightly
@pytest.mark.usefixtures("fast")
def test_the_option_names_a_record_a_folder_or_none(tmp_path: Path) -> None:
    measured(tmp_path, "first", HEALTHY)
    accept(tmp_path, "first")
    records = tmp_path / "records"
    elsewhere = tmp_path / "kept"
    records.rename(elsewhere)
    for named in (elsewhere / "first", elsewhere / "first/record.json", elsewhere):
        found = triad(measured(tmp_path, f"of-{len(str(named))}", SLOWER, baseline=str(named)))
        assert "run of 20" in found["gpu3"][1], named
    assert "run of 20" not in triad(measured(tmp_path, "none", SLOWER, baseline="none"))["gpu3"][1]


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(("made", "said"), TABLES["wrong"])
def test_a_wrong_baseline_is_refused(tmp_path: Path, made: dict[str, str] | None, said: str) -> None:
    place = tmp_path / "baseline"
    if made is not None:
        place.mkdir()
        for name, text in made.items():
            (place / name).write_text(text)
    with pytest.raises(Refused, match=f"^--accel-baseline: {place}.*{said}"):
        measured(tmp_path, "run", HEALTHY, baseline=str(place))


@pytest.mark.nightly
@pytest.mark.usefixtures("fast")
def test_a_baseline_of_other_devices_is_said(tmp_path: Path) -> None:
    measured(tmp_path, "first", "sku: h200-sxm\nplatform: hgx8\n")
    here = measured(tmp_path, "second", HEALTHY, baseline=str(tmp_path / "records/first"))
    asked = tmp_path / "records/first"
    assert (
        f"--accel-baseline {asked} holds no complete run of all tests as h100-sxm: nothing is compared with it"
        in here.ledger.record.notes
    )


@pytest.mark.nightly
@pytest.mark.usefixtures("fast")
def test_a_replaced_device_is_told_and_the_others_keep_their_past(tmp_path: Path) -> None:
    here = measured(tmp_path, "first", HEALTHY)
    devices: list[dict[str, Any]] = json.loads((tmp_path / "records/first" / SUMMARY).read_text())["devices"]
    gone = {**devices[3], "uuid": "GPU-gone", "serial": "901"}
    accept(tmp_path, "first", devices=[gone if place == 3 else each for place, each in enumerate(devices)])
    every = "".join(f"- {{fault: slow-memory, device: {place}, by: 0.05}}\n" for place in range(8))
    here = measured(tmp_path, "second", f"{HEALTHY}faults:\n{every}")
    found = triad(here)
    assert DROPPED not in found["gpu3"][1]
    assert all(DROPPED in sentence for name, (_, sentence) in found.items() if name != "gpu3")
    slot = devices[3]["pci_address"]
    notes = [each for each in here.ledger.record.notes if "since 2026-01-03" in each]
    assert notes == [
        f"since 2026-01-03: gpu3 device: serial 901 in slot {slot} -> serial {devices[3]['serial']} in slot {slot}",
    ]


@pytest.mark.nightly
@pytest.mark.usefixtures("fast")
def test_a_missing_device_is_told_with_serial_number_and_slot_of_the_earlier_record(tmp_path: Path) -> None:
    """The devices behind it have moved up: its name is that of another board now."""
    measured(tmp_path, "first", HEALTHY)
    accept(tmp_path, "first")
    (lost,) = [
        each for each in json.loads((tmp_path / "records/first" / SUMMARY).read_text())["devices"] if each["index"] == 2
    ]
    here = measured(tmp_path, "second", f"{HEALTHY}faults: [{{fault: device-missing, device: 2}}]\n")
    place = f"serial {lost['serial']} in slot {lost['pci_address']}"
    assert f"since 2026-01-03: then gpu2 device: {place} -> gone" in here.ledger.record.notes
    places = record.locations_of(here.ledger.record)
    assert places[NODE] == f"missing: {place}"
    driver = Verdict("inventory.driver", NODE, Status.FAIL)
    found = finding_of(driver)
    assert found
    ((told, _),) = next_steps({driver.key: found}, [driver], here.ledger.names, places)
    assert told.startswith(f"next: node (missing: {place}) A101 device-missing")


def test_what_was_not_judged_and_what_is_no_rate_is_no_history() -> None:
    def figure(subject: str, value: float, metric: str = "stream.triad") -> Measurement:
        return Measurement(metric, subject, "GB/s", value)

    figures = [figure("a", 29700.0), figure("b", 2970.0), figure("c", 0.0), figure("a", 55.0, "host_copy.h2d")]
    verdicts = [Verdict("stream.triad", "a", Status.UNMEASURED)]
    told = summary(Run({}, measurements=figures, verdicts=verdicts, state="finished"))
    assert [list(values) for values in told.figures.values()] == [["b"], ["a"]]


@each_row(
    "figures",
    [[], {"a": []}, {"a": {"b": "c"}}, {"a": {"b": float("nan")}}, {"a": {"b": -1}}, {"a": {"b": True}}, {"a": 7}],
)
def test_figures_that_are_none_make_a_summary_damaged(tmp_path: Path, figures: object) -> None:
    told = {**structured.plain(WHOLE), "figures": figures}
    folder = tmp_path / "records/old"
    folder.mkdir(parents=True)
    (folder / SUMMARY).write_text(json.dumps(told))
    earlier = earlier_records.read(tmp_path / "records/now")
    assert not earlier.summaries
    assert "1 earlier record was not read" in earlier.notes()[0]
