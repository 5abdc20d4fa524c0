"""The report on all nodes for Prometheus: what its tools read, and outside text stays text."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.report_record import HOSTILE
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core import structured
from pytest_accel.core.measurement import Device
from pytest_accel.core.printable import printable
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Result
from pytest_accel.fleet.jobs import fleet_metrics, ledger
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, FleetRequest, SubmittedJob, save
from pytest_accel.fleet.jobs.states import NodeResult, State
from pytest_accel.run.summaries import SUMMARY

EARLY, LATE = "2026-11-20T01:00:00+00:00", "2026-11-21T01:00:00+00:00"


def result(started: str = EARLY, *, simulated: bool = False) -> Summary:
    told = Summary(started=started, host="n", simulated=simulated, job="7", rejected=["GPU-1"], line="line")
    return replace(told, path=Path("n-2/record.json"))


def fleet_of(*nodes: NodeResult, sku: str = "h100-sxm") -> FleetRequest:
    return FleetRequest("1", EARLY, "0", ("--accel-sku=h100-sxm",), 10, sku=sku, expected=tuple(
        ExpectedNode(each.node) for each in nodes))  # fmt: skip


def one_of_each() -> list[NodeResult]:
    """A node in every state; those that were judged have a result, of which the last one is the newest."""
    judged = (State.REJECTED, State.NOT_JUDGED, State.HELD, State.ACCEPTED)
    found = [NodeResult(f"n{place}", each, f"why {place}", result() if each in judged else None)
             for place, each in enumerate(State)]  # fmt: skip
    return [*found[:-1], replace(found[-1], result=result(LATE))]


@each_row("hostile", [HOSTILE, 'a"} 1\naccel_fleet_nodes 0\n# HELP x', "\ud800 \\n", ""])
def test_hostile_text_stays_text(hostile: str, tmp_path: Path) -> None:
    """Of a node's name, reason and SKU, and of the arguments."""
    told = result()
    nodes = [NodeResult(hostile, each, hostile, replace(told, job=hostile)) for each in State]
    fleet = replace(fleet_of(*nodes, sku=hostile), arguments=(hostile,), id=hostile, created=hostile)
    families = list(text_string_to_metric_families(fleet_metrics.text(fleet, nodes)))
    labels = {each.labels["sku"] for family in families for each in family.samples}
    assert labels == {printable(hostile)}


def test_a_rejected_node_is_a_series_until_the_ledger_says_that_it_was_drained(tmp_path: Path) -> None:
    device = Device("GPU-1", 3, "nvidia", "H100")
    nodes = [NodeResult(name, State.REJECTED, "", replace(result(), devices=[device])) for name in ("n1", "n2", "n3")]

    def told() -> set[tuple[str, str]]:
        written = fleet_metrics.text(fleet_of(*nodes), nodes, ledger.last(tmp_path))
        found = {each.name: each.samples for each in text_string_to_metric_families(written)}
        return {(each.labels["node"], each.labels["devices"]) for each in found.get("accel_fleet_node_rejected", ())}

    assert told() == {("n1", "gpu3"), ("n2", "gpu3"), ("n3", "gpu3")}
    ledger.append(tmp_path, [{"did": "drained", "node": "n1", "reason": "[accel] A401 gpu3", "run": "/runs/n1"}])
    with (tmp_path / ledger.FILE).open("a") as file:  # as people do
        file.write("2026-11-19T00:00:00+00:00,me,drained,n2,before it was rejected,,,\n")
        file.write("2026-11-24T00:00:00+00:00,me,returned,n1,,,RMA-77,16500013\n")
    assert told() == {("n2", "gpu3"), ("n3", "gpu3")}
    ledger.append(tmp_path, [{"did": "resumed", "node": "n1", "reason": ""}])
    assert told() == {("n1", "gpu3"), ("n2", "gpu3"), ("n3", "gpu3")}
    header, *lines = (tmp_path / ledger.FILE).read_text().splitlines()
    assert header == "at,by,did,node,reason,run,rma,serial"
    assert len(lines) == 4
    (tmp_path / ledger.FILE).write_bytes(f"{header}\n2026-11-24,me,drained,n1\rn2\n".encode())
    with pytest.raises(BadFile, match=r"ledger\.csv:2: the line is not CSV"):
        told()


def samples(fleet: FleetRequest, nodes: list[NodeResult]) -> dict[tuple[str, ...], float]:
    """The samples by name and state."""
    found = [
        each for family in text_string_to_metric_families(fleet_metrics.text(fleet, nodes)) for each in family.samples
    ]
    return {(each.name, *filter(None, [each.labels.get("state")])): float(each.value) for each in found}


def test_prometheus_counts_nodes_and_names_none() -> None:
    nodes = [NodeResult(f"n{place}", State.NOT_JUDGED, "", result()) for place in range(10_000)]
    nodes.append(NodeResult("last", State.HELD, "", result(LATE, simulated=True)))
    fleet = fleet_of(*nodes)
    found = samples(fleet, nodes)
    assert found["accel_fleet_nodes", "not judged"] == 10_000
    assert found["accel_fleet_nodes", "accepted"] == 0
    assert {key[1] for key in found if key[0] == "accel_fleet_nodes"} == {each.value for each in State}
    assert found["accel_fleet_nodes_expected",] == 10_001
    assert found["accel_fleet_nodes_simulated",] == 1
    assert found["accel_fleet_exit_status",] == 6
    assert found["accel_fleet_newest_result_timestamp_seconds",] == 1795222800
    assert len(found) == len(State) + 4
    assert ("accel_fleet_nodes_expected",) not in samples(replace(fleet, listed=False), nodes)
    lost = [NodeResult("n", State.NO_RESULT, "its record is not complete", result(LATE))]
    assert ("accel_fleet_newest_result_timestamp_seconds",) not in samples(fleet, lost)


def test_promtool_accepts_the_metrics() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    nodes = one_of_each()
    written = fleet_metrics.text(fleet_of(*nodes, sku='a"\\b'), nodes).encode()
    checked = subprocess.run([promtool, "check", "metrics"], input=written, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_a_report_without_a_list_takes_the_expected_nodes_of_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n1").mkdir()
    accepted = Summary(started=EARLY, host="n1", state="finished", line="ACCEPTED 8/8", result=Result.ACCEPTED, exit=0)
    (tmp_path / "n1" / SUMMARY).write_text(structured.lines(structured.plain(accepted)))
    words = ["fleet", "report", str(tmp_path)]
    assert main(words) == 0
    assert "a node that left no record is not in this report" in capsys.readouterr().out
    assert main([*words, "--nodes=n1,n2"]) == 6
    told = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in told] == ["no result", "accepted", "2 nodes: 1 no result, 1 accepted"]


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = (SubmittedJob("n", "7", EARLY),)
    save(replace(fleet_of(), expected=(ExpectedNode("n"), ExpectedNode("m", skipped="down: fan")), jobs=jobs), tmp_path)
    assert main(["fleet", "report", str(tmp_path), "--format=prometheus"]) == 6
    assert 'accel_fleet_nodes{sku="h100-sxm",state="skipped"} 1.0' in capsys.readouterr().out
    assert main(["fleet", "report", str(tmp_path), "--acceptance", "--format=prometheus"]) == 4
