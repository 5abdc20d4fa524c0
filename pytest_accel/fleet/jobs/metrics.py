"""The states of a fleet's nodes as metrics for Prometheus.

A node is a label where it is rejected alone: a fleet of 10,000 nodes would be as many series. All are in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_accel.core.measurement import NODE
from pytest_accel.core.summary import Summary, moment
from pytest_accel.fleet.jobs import states
from pytest_accel.fleet.jobs.run_folder import FleetAsked
from pytest_accel.fleet.jobs.states import JUDGED, NodeResult, State
from pytest_accel.views.exports import prometheus
from pytest_accel.views.exports.prometheus import Family, Labels

Ledger = Mapping[str, Mapping[str, str]]
"""The last entry of each node in the ledger."""


def text(fleet: FleetAsked, nodes: Sequence[NodeResult], ledger: Ledger = MappingProxyType({})) -> str:
    """Return the states of all nodes in the text format of Prometheus."""
    return prometheus.text(_families(fleet, nodes, ledger))


def _families(fleet: FleetAsked, nodes: Sequence[NodeResult], ledger: Ledger) -> Iterator[Family]:
    """Yield each metric with its help, and its labels and numbers."""
    sku: Labels = (("sku", fleet.sku),)
    found = [each.result for each in nodes if each.result and each.state in JUDGED]
    count = states.counts(nodes)
    by_state = [((*sku, ("state", each.value)), float(count.get(each, 0))) for each in State]
    yield "accel_fleet_nodes", "Nodes by state.", by_state
    rejected = [each for each in nodes if each.state is State.REJECTED]
    open_ = [each for each in rejected if not _is_drained(each, ledger)]
    shown = [((*sku, ("node", each.node), ("devices", _devices(each))), 1.0) for each in open_]
    yield "accel_fleet_node_rejected", "1 for a rejected node that is not drained, with its devices.", shown
    expected = [(sku, float(sum(each.expected for each in nodes)))] if fleet.listed else []
    yield "accel_fleet_nodes_expected", "Nodes that the run is to judge.", expected
    simulated = float(sum(each.simulated for each in found))
    yield "accel_fleet_nodes_simulated", "Nodes whose result is simulated.", [(sku, simulated)]
    status = "Exit status of the report: 0 all limits hold, 1 a node is rejected, 6 one has no verdict."
    yield "accel_fleet_exit_status", status, [(sku, float(states.exit_status(nodes)))]
    newest = "Time at which the newest run with a result began, in seconds since the epoch."
    began = [each.timestamp() for summary in found if (each := summary.began)]
    yield "accel_fleet_newest_result_timestamp_seconds", newest, [(sku, max(began))] if began else []


def _is_drained(each: NodeResult, ledger: Ledger) -> bool:
    """Return True if the ledger says that a node was drained since the run that rejects it began."""
    entry = ledger.get(each.node, {})
    began, at = each.result.began if each.result else None, moment(entry.get("at", ""))
    return entry.get("did") == "drained" and at is not None and (began is None or at >= began)


def _devices(each: NodeResult) -> str:
    """Return the names of the devices that a node is rejected for."""
    result = each.result or Summary()
    known = {uuid: device.name for uuid, device in result.by_uuid.items()}
    return " ".join(sorted({known.get(uuid, NODE) for uuid in result.rejected}))
