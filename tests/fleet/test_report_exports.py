"""The report on all nodes for CI servers and Prometheus: what their tools read, and outside text stays text."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from exported import HOSTILE
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

from pytest_accel.cli.main import main
from pytest_accel.core.printable import printable
from pytest_accel.core.summary import Summary
from pytest_accel.fleet.jobs import junit, metrics
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, Fleet, Submitted, save
from pytest_accel.fleet.jobs.states import NodeResult, State

EARLY, LATE = "2026-11-20T01:00:00+00:00", "2026-11-21T01:00:00+00:00"
KINDS = {
    State.REJECTED: Failure,
    State.ERROR: Error,
    State.NO_RESULT: Error,
    State.NOT_JUDGED: Error,
    State.RUNNING: Error,
    State.WAITING: Error,
    State.SKIPPED: Skipped,
    State.HELD: Skipped,
}


def result(started: str = EARLY, *, simulated: bool = False) -> Summary:
    told = Summary(started=started, host="n", simulated=simulated, job="7", rejected=["GPU-1"], line="line")
    return replace(told, path=Path("n-2/record.json"))


def fleet_of(*nodes: NodeResult, sku: str = "h100-sxm") -> Fleet:
    return Fleet("1", EARLY, "0", ("--accel-sku=h100-sxm",), 10, sku=sku, expected=tuple(
        ExpectedNode(each.node) for each in nodes))  # fmt: skip


def one_of_each() -> list[NodeResult]:
    """A node in every state; those that were judged have a result, of which the last one is the newest."""
    judged = (State.REJECTED, State.NOT_JUDGED, State.HELD, State.ACCEPTED)
    found = [NodeResult(f"n{place}", each, f"why {place}", result() if each in judged else None)
             for place, each in enumerate(State)]  # fmt: skip
    return [*found[:-1], replace(found[-1], result=result(LATE))]


def read(text: str, folder: Path) -> JUnitXml:
    (folder / "junit.xml").write_text(text, encoding="utf-8")
    return JUnitXml.fromfile(str(folder / "junit.xml"))


def test_junit_passes_accepted_nodes_alone(tmp_path: Path) -> None:
    nodes = one_of_each()
    (suite,) = read(junit.text(fleet_of(*nodes), nodes), tmp_path)
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (len(State), 1, 5, 2)
    assert suite.timestamp == EARLY
    for case, node in zip(suite, nodes, strict=True):
        assert (case.classname, case.name) == ("pytest-accel.h100-sxm", node.node)
        assert [type(each) for each in case.result] == ([KINDS[node.state]] if node.state in KINDS else [])
        if node.state not in (State.HELD, State.ACCEPTED):
            assert case.result[0].message == node.reason
    held = next(case for case, node in zip(suite, nodes, strict=True) if node.state is State.HELD)
    assert held.result[0].message.startswith("no acceptance")
    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314  we wrote it
    first = root.findall("testsuite/testcase")[0]
    assert {each.get("name"): each.get("value") for each in first.iter("property")} == {
        "accel.state": "rejected",
        "accel.record": "n-2",
        "accel.started": EARLY,
        "accel.job": "7",
        "accel.rejected": "GPU-1",
    }


def test_a_simulated_node_is_skipped_and_an_unlisted_run_says_so(tmp_path: Path) -> None:
    node = NodeResult("n", State.HELD, "SIMULATED ACCEPTED", result(simulated=True))
    (suite,) = read(junit.text(replace(fleet_of(node, sku=""), listed=False), [node]), tmp_path)
    (case,) = suite
    assert (case.classname, case.result[0].message) == ("pytest-accel.fleet", "simulated")
    said = ET.parse(tmp_path / "junit.xml").getroot().findtext("testsuite/system-out")  # noqa: S314  we wrote it
    assert "a node that left no record is not in this report" in str(said)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_stays_text(hostile: str, tmp_path: Path) -> None:
    """Of a node's name, reason and SKU, and of the arguments."""
    told = result()
    nodes = [NodeResult(hostile, each, hostile, replace(told, job=hostile)) for each in State]
    fleet = replace(fleet_of(*nodes, sku=hostile), arguments=(hostile,), id=hostile, created=hostile)
    text = junit.text(fleet, nodes)
    assert not [each for each in text if not each.isprintable() and each != "\n"]
    (suite,) = read(text, tmp_path)
    assert len(list(suite)) == len(nodes)
    assert next(iter(suite)).result[0].message == printable(hostile)
    families = list(text_string_to_metric_families(metrics.text(fleet, nodes)))
    labels = {each.labels["sku"] for family in families for each in family.samples}
    assert labels == {printable(hostile)}


def samples(fleet: Fleet, nodes: list[NodeResult]) -> dict[tuple[str, ...], float]:
    """The samples by name and state."""
    found = [each for family in text_string_to_metric_families(metrics.text(fleet, nodes)) for each in family.samples]
    return {(each.name, *filter(None, [each.labels.get("state")])): float(each.value) for each in found}


def test_prometheus_counts_nodes_and_names_none() -> None:
    nodes = [NodeResult(f"n{place}", State.REJECTED, "", result()) for place in range(10_000)]
    nodes.append(NodeResult("last", State.HELD, "", result(LATE, simulated=True)))
    fleet = fleet_of(*nodes)
    found = samples(fleet, nodes)
    assert found["accel_fleet_nodes", "rejected"] == 10_000
    assert found["accel_fleet_nodes", "accepted"] == 0
    assert {key[1] for key in found if key[0] == "accel_fleet_nodes"} == {each.value for each in State}
    assert found["accel_fleet_nodes_expected",] == 10_001
    assert found["accel_fleet_nodes_simulated",] == 1
    assert found["accel_fleet_exit_status",] == 1
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
    written = metrics.text(fleet_of(*nodes, sku='a"\\b'), nodes).encode()
    checked = subprocess.run([promtool, "check", "metrics"], input=written, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_the_command_writes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = (Submitted("n", "7", EARLY),)
    save(replace(fleet_of(), expected=(ExpectedNode("n"), ExpectedNode("m", skipped="down: fan")), jobs=jobs), tmp_path)
    assert main(["fleet", "report", str(tmp_path), "--format=prometheus"]) == 6
    assert 'accel_fleet_nodes{sku="h100-sxm",state="skipped"} 1.0' in capsys.readouterr().out
    file = tmp_path / "out.xml"
    assert main(["fleet", "report", str(tmp_path), "--format=junit", f"--output={file}"]) == 6
    (suite,) = JUnitXml.fromfile(str(file))
    assert {each.name: each.result[0].message for each in suite}["m"] == "down: fan"
    for form in ("junit", "prometheus"):
        assert main(["fleet", "report", str(tmp_path), "--acceptance", f"--format={form}"]) == 4
