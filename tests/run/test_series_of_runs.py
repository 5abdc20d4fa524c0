"""Series of runs on simulated devices: what becomes worse in a later run, and a series that was stopped or killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.in_process import InlinePool, InlineSensor
from support.rows import each_row

from pytest_accel import probes
from pytest_accel.core import clock, exits
from pytest_accel.core.details import ErrorReport
from pytest_accel.core.measurement import Device
from pytest_accel.core.run import Circumstances
from pytest_accel.core.verdict import Status
from pytest_accel.drivers.kernel_messages import SOURCE
from pytest_accel.fleet.delivery import files
from pytest_accel.run import measuring, record
from pytest_accel.run.folder_summary import of_folder
from pytest_accel.run.idle_gate import IdleCheck, check_idle
from pytest_accel.run.options import NO_PREVIOUS_RUN, Options, Refused
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record import FILE, TELEMETRY
from pytest_accel.run.series import Series, go_on
from pytest_accel.run.session import Session

pytestmark = pytest.mark.usefixtures("fast")


class Node:
    """A node of one device or more that a series runs on, in this process: a copy and a product, and some counters."""

    def __init__(self, folder: Path, fault: str = "", platform: str = "single") -> None:
        self.folder, self.platform, self.told = folder, platform, list[str]()
        (folder / "ours.yaml").write_text(data_files.content("run/long.yaml"))
        self.becomes(fault)
        self.ends: Callable[[Session], int] = self.finished

    def becomes(self, fault: str) -> None:
        """Give it a fault."""
        text = f"sku: ./ours.yaml\nplatform: {self.platform}\nfaults: [{fault}]\n"
        (self.folder / "node.yaml").write_text(text)

    def options(self, **more: Any) -> Options:
        given = {"sku": str(self.folder / "ours.yaml"), "simulate": str(self.folder / "node.yaml"), "level": "long"}
        return Options(**{**given, "output": self.folder / "series", **more})

    def series(self, hours: float, **more: Any) -> int:
        """Begin or continue a series."""
        return go_on(self.options(hours=hours, **more), self._run, self.told.append)

    def _run(self, output: Path, before: str, seconds: float | None) -> int:
        del seconds
        here = Session.open(self.options(output=output, previous_record=before), InlinePool())
        here.begin()
        for probe, given in ((probes.stream, {"op": "copy_kernel"}), (probes.matmul, {"dtype": "bf16"})):
            for device in here.target.devices:
                here.check(probe, given, device.uuid)
        for device in here.target.devices:
            here.check(probes.counters, {"fact": "pcie_replays"}, device.uuid)
        return self.ends(here)

    @staticmethod
    def finished(here: Session) -> int:
        here.add_objection("filter", "without most probes")
        return here.finish().exit

    @staticmethod
    def killed(here: Session) -> int:
        """As SIGKILL does: not a word in the record."""
        here.stop()
        here.pool.sensor.telemetry.close()
        return -9

    @staticmethod
    def crashed(here: Session) -> int:
        """As an error of software: the interpreter ends with 1, and the record says that the run goes on."""
        Node.killed(here)
        return 1

    @staticmethod
    def stopped(here: Session) -> int:
        return here.finish(Circumstances(interrupted="SIGTERM")).exit

    def record(self, number: int) -> Any:
        return record.read(self.folder / "series" / f"run-{number}" / FILE)


def test_a_series_of_a_healthy_node_makes_records_that_are_ordinary(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.series(0.008) == exits.NOT_JUDGED, "filtered, and so HELD"
    *runs, line = node.told
    assert len(runs) >= 3
    assert line.startswith("SIMULATED HELD ")
    assert line.endswith(f"; {len(runs)} runs in {line.split()[-6]} h, load paused for 0.0%")
    for number in range(1, len(runs) + 1):
        saved = node.record(number)
        assert saved.objections == ()
        assert saved.finished
        before = str(tmp_path / f"series/run-{number - 1}/record.json") if number > 1 else "none"
        assert saved.info["follows"] == before
    told = json.loads((tmp_path / "series/series.json").read_text())
    assert [each["folder"] for each in told["runs"]] == [f"run-{number}" for number in range(1, len(runs) + 1)]
    assert told["done"] >= 0.008
    summary = of_folder(tmp_path / "series")
    assert summary
    assert (summary.line, summary.result) == (line, "HELD")
    assert node.series(0.008) == exits.NOT_JUDGED
    assert node.told[len(runs) + 1 :] == [line], "the hours are over, and no run follows"


def test_a_device_that_becomes_slower_in_the_third_run_is_told_by_the_comparison_with_those_before(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, "{fault: slow-memory, device: 0, by: 0.04, at: 20}")
    node.ends = lambda here: here.finish().exit  # not filtered: such a run is no past
    node.series(0.008)
    copies = [
        each for number in (1, 2, 3) for each in node.record(number).verdicts if each.metric == "stream.copy_kernel"
    ]
    assert [each.status is Status.MARGINAL for each in copies] == [False, False, True]
    assert "behind_past" in [each.kind for each in copies[-1].reasons]
    assert [each.past and round(each.past.lost, 2) for each in copies] == [None, 0.0, 0.04]
    found = json.loads((tmp_path / "series/series.json").read_text())["runs"][2]["line"]
    assert "NOT JUDGED" in found


def test_a_loss_beyond_the_floor_ends_the_series_as_rejected(tmp_path: Path) -> None:
    node = Node(tmp_path, "{fault: slow-memory, device: 0, by: 0.4, at: 12}")
    assert node.series(1.0) == exits.REJECTED
    assert "gpu0: stream.copy_kernel" in node.told[-1]
    runs = len(node.told) - 1
    assert node.told[-1].endswith(f"found in run {runs}")
    assert runs < 6, "no run follows"
    assert node.series(1.0) == exits.REJECTED, "and none after another start"
    assert len(node.told) == runs + 2


def test_a_series_that_is_killed_twice_goes_on_and_loses_one_run_each(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number in (1, 3):
        node.ends = lambda here, number=number: (  # type: ignore[misc]
            node.killed if here.ledger.folder.path.name == f"run-{number}" else node.finished
        )(here)
        assert node.series(0.008) == exits.NOT_JUDGED
        assert "did not end (-9)" in node.told[-2]
    with open(tmp_path / "series/run-3" / TELEMETRY, "a", encoding="utf-8") as file:
        file.write('{"uuid": "GPU-')  # what a kill leaves
    node.ends = node.finished
    kept = (tmp_path / "series/run-3" / FILE).read_bytes()
    assert node.series(0.008) == exits.NOT_JUDGED
    assert "node series.run_1: UNMEASURED" in node.told[-1]
    assert "(and 1 more)" in node.told[-1]
    assert "2 stops" in node.told[-1]
    assert (tmp_path / "series/run-3" / FILE).read_bytes() == kept, "no record is opened again"
    entry = json.loads((tmp_path / "series/series.json").read_text())["runs"][2]
    assert (entry["state"], entry["whole"], entry["boot"]) == ("running", False, clock.boot_id())
    assert entry["last"] > node.record(3).started[:10]
    assert node.series(0.008, waivers=data_files.DATA / "run/killed-by-hand.yaml") == exits.NOT_JUDGED, "still filtered"
    assert node.told[-1].startswith("SIMULATED HELD ")
    assert "UNMEASURED" not in node.told[-1]


def test_a_stop_in_order_is_no_hindrance(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.ends = node.stopped
    assert node.series(0.005) == exits.INTERRUPTED
    assert "INTERRUPTED (SIGTERM)" in node.told[-1]
    node.ends = node.finished
    node.series(0.005)
    assert node.told[-1].startswith("SIMULATED HELD")
    assert "1 stop" in node.told[-1]


def test_a_reboot_under_load_is_an_entry_with_its_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    node.ends = node.killed
    monkeypatch.setattr(clock, "boot_id", lambda: "the boot before")
    node.series(0.005)
    assert node.told[-1].startswith("SIMULATED NOT JUDGED "), "also before a run is whole"
    monkeypatch.undo()
    node.ends = node.finished
    assert node.series(0.005) == exits.NOT_JUDGED
    assert "series.run_1: UNMEASURED, began and did not end (boot the boot before, last reading " in node.told[-1]
    assert "1 stop, 1 reboot" in node.told[-1]


def test_errors_that_are_counted_between_two_runs_are_in_the_next(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.series(0.0001)
    first = node.record(1)
    assert first.info["counted"][first.devices[0].uuid]["numbers"]["pcie_replays"] == 0
    node.becomes("{fault: pcie-replays, device: 0, at: 1, count: 100000}")  # by now it has begun
    node.series(0.005)
    (found,) = [each for each in node.record(2).measurements if each.metric == "counters.pcie_replays"]
    assert found.details["windows"][0]["during"] == "the start"
    assert "counters.pcie_replays" in node.told[-1]
    assert node.told[-1].endswith("found in run 2")


@pytest.mark.parametrize("step", [0.0, 2e6, -2e6])
def test_an_xid_that_the_kernel_logged_between_two_runs_is_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    """Also if the wall clock was set between them."""
    node = Node(tmp_path)
    node.series(0.0001)
    monkeypatch.setattr(clock, "_epoch", clock.epoch() + step)
    monkeypatch.setattr(clock, "epoch_now", clock.epoch)
    between = [{"number": 79, "at": clock.now(), "address": "", "text": "GPU has fallen off the bus", "pid": None}]
    before = [{**between[0], "at": clock.now() - 1e6}]
    taken = InlineSensor.send

    def send(sensor: InlineSensor, event: str, **fields: Any) -> None:
        if event == "kernel_past":
            reports = [{**each, "uuid": node.record(1).devices[0].uuid} for each in (*before, *between)]
            sensor.pipe.send("kernel_past", reports=reports, deaf=None)
        else:
            taken(sensor, event, **fields)

    heard = list[ErrorReport]()

    def ended(here: Session) -> int:
        heard.extend(here.pool.sensor.reports.reports)
        here.pool.sensor.reports.hearing(SOURCE, None)  # no thread follows the log here
        here.check(probes.counters, {"fact": "xid_hardware"}, here.target.devices[0].uuid)
        return node.finished(here)

    monkeypatch.setattr(InlineSensor, "send", send)
    node.ends = ended
    assert node.series(0.005) == exits.REJECTED
    assert [(each.number, each.at) for each in heard] == [(79, between[0]["at"])], (
        "and not the one before the first run"
    )
    assert "gpu0: counters.xid_hardware 1, expected 0, during the start: Xid 79" in node.told[-1]
    assert node.told[-1].endswith("found in run 2")


def test_the_idle_gate_is_passed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gates = list[int]()

    def counting(pool: WorkerPool, devices: Sequence[Device]) -> IdleCheck:
        gates.append(1)
        return check_idle(pool, devices)

    monkeypatch.setattr(measuring, "check_idle", counting)
    node = Node(tmp_path)
    node.series(0.008)
    assert len(node.told) > 3
    assert len(gates) == 1


def test_a_series_ends_where_the_wall_clock_was_set_and_does_not_count_its_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, unset = Node(tmp_path), clock.epoch_now
    monkeypatch.setattr(clock, "epoch_now", lambda: unset() + 72 * 3600)
    assert node.series(72) == exits.NOT_JUDGED
    *_, line = node.told
    assert "; the clock of the host was set by +72 h 0 min during run 1: begin a new series; 1 run in 0.00" in line
    assert "the clock of the host was set by +72 h 0 min while the run went on" in " ".join(node.record(1).notes)
    monkeypatch.undo()
    assert node.series(72) == exits.NOT_JUDGED
    assert node.told[2:] == [line], "no run follows"


def test_simulated_time_goes_on_from_run_to_run(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.series(0.008)
    began = [node.record(number).info["simulated"]["began"] for number in range(1, len(node.told))]
    assert began[0] == 0
    assert began[1] >= node.record(1).info["seconds"]["device"]
    assert began == sorted(began)


def test_what_is_no_series_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with pytest.raises(Refused, match="name the folder of the series by --accel-output"):
        node.series(1.0, output=None)
    node.series(0.0001)
    with pytest.raises(Refused, match="holds the record of a run; name a new folder for the series"):
        node.series(1.0, output=tmp_path / "series/run-1")
    path = tmp_path / "series/run-1" / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "notes": ["all is well"]}))
    with pytest.raises(Refused, match=r"run-1/record.json is not believed: the record was changed after"):
        node.series(1.0)
    path.write_text("{")
    with pytest.raises(Refused, match="begin a new series in another folder"):
        node.series(1.0)


def test_a_series_of_which_a_run_is_missing_is_refused(tmp_path: Path) -> None:
    node, series = Node(tmp_path), tmp_path / "series"
    node.series(0.008)
    last = len(node.told) - 1
    for number in (last, 1):
        kept = (series / f"run-{number}").rename(tmp_path / "kept")
        with pytest.raises(Refused, match=rf"run-{number}/record.json: .*; begin a new series in another folder"):
            node.series(1.0)
        kept.rename(series / f"run-{number}")
    (series / "series.json").unlink()
    with pytest.raises(Refused, match=r"series.json: cannot be read: .*; begin a new series"):
        node.series(1.0)  # its summary says that there was one
    (series / "summary.json").unlink()
    shutil.rmtree(series / "run-1")
    with pytest.raises(Refused, match=r"run-1/record.json: .*; begin a new series"):
        node.series(1.0)
    (series / "series.json").write_text("[]")
    with pytest.raises(Refused, match=r"series.json is damaged: .*; begin a new series"):
        node.series(1.0)


def test_a_series_that_was_rejected_stays_so_whatever_its_records_are(tmp_path: Path) -> None:
    node, series = Node(tmp_path, "{fault: slow-memory, device: 0, by: 0.4, at: 12}"), tmp_path / "series"
    assert node.series(1.0) == exits.REJECTED
    line = node.told[-1]
    last = len(node.told) - 1
    assert last > 1
    shutil.rmtree(series / f"run-{last}")
    shutil.copytree(series / "run-1", series / f"run-{last}")
    assert node.series(0.0001) == exits.REJECTED
    assert node.told[-1] == line


def test_no_run_begins_that_would_outlast_the_time_limit(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.series(0.0001)
    longest = Series.read(tmp_path / "series").runs[0].seconds
    assert node.series(1.0, time_limit=longest) == exits.NOT_JUDGED
    assert len([line for line in node.told if line.startswith("run ")]) == 1
    assert "the hours are not over" in node.told[-1]


@each_row(("ended", "status"), [(exits.WRONG, exits.WRONG), (1, exits.BROKEN), (0, exits.BROKEN), (-9, exits.BROKEN)])
def test_a_run_without_a_record_ends_the_series_and_rejects_nothing(tmp_path: Path, ended: int, status: int) -> None:
    """An interpreter that cannot start ends with 1, too."""
    options = Node(tmp_path).options(hours=1.0)
    asked, told = list[str](), list[str]()

    def refused(output: Path, before: str, seconds: float | None) -> int:
        del output, seconds
        asked.append(before)
        return ended

    assert go_on(options, refused, told.append) == status
    assert not (tmp_path / "series/series.json").exists()
    assert asked == [NO_PREVIOUS_RUN]
    assert not told


def test_a_run_that_crashes_is_not_begun_again_and_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.ends = node.crashed
    assert node.series(1.0) == exits.NOT_JUDGED
    assert not (tmp_path / "series/run-2").exists()


def test_a_delivery_takes_the_runs_of_a_series_and_not_its_own_files(tmp_path: Path) -> None:
    Node(tmp_path).series(0.005)
    found = files.find(tmp_path / "series")
    assert {each.parent.name for each in found.records} >= {"run-1", "run-2"}
    assert {each.name for each in found.records} == {FILE}
    assert not found.unreadable
