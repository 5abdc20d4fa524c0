"""The states of a fleet's nodes as metrics for Prometheus.

No node is a label: a fleet of 10,000 nodes would be as many series. The nodes are in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_accel.core.summary import Summary
from pytest_accel.fleet.jobs import states
from pytest_accel.fleet.jobs.run_folder import Fleet
from pytest_accel.fleet.jobs.states import JUDGED, NodeResult, State
from pytest_accel.views.exports import prometheus_text
from pytest_accel.views.exports.prometheus_text import Family, Labels


def text(fleet: Fleet, nodes: Sequence[NodeResult]) -> str:
    """Return the states of all nodes in the text format of Prometheus."""
    return prometheus_text.text(_families(fleet, nodes))


def _families(fleet: Fleet, nodes: Sequence[NodeResult]) -> Iterator[Family]:
    """Yield each metric with its help, and its labels and numbers."""
    sku: Labels = (("sku", fleet.sku),)
    found = [each.result for each in nodes if each.result and each.state in JUDGED]
    count = states.counts(nodes)
    by_state = [((*sku, ("state", each.value)), float(count.get(each, 0))) for each in State]
    yield "accel_fleet_nodes", "Nodes by state.", by_state
    expected = [(sku, float(len(fleet.expected)))] if fleet.listed else []
    yield "accel_fleet_nodes_expected", "Nodes that the run is to judge.", expected
    simulated = float(sum(each.simulated for each in found))
    yield "accel_fleet_nodes_simulated", "Nodes whose result is simulated.", [(sku, simulated)]
    status = "Exit status of the report: 0 all limits hold, 1 a node is rejected, 6 one has no verdict."
    yield "accel_fleet_exit_status", status, [(sku, float(states.exit_status(nodes)))]
    newest = "Time at which the newest run with a result began, in seconds since the epoch."
    yield "accel_fleet_newest_result_timestamp_seconds", newest, [(sku, each) for each in _newest(found)]


def _newest(found: Sequence[Summary]) -> list[float]:
    """Return when the newest of these runs began; nothing if there is none."""
    began = [each.timestamp() for summary in found if (each := summary.began)]
    return [max(began)] if began else []
