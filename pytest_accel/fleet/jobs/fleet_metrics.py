"""The states of a fleet's nodes as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_accel.core.measurement import NODE
from pytest_accel.core.summary import Summary, moment
from pytest_accel.fleet.jobs import states
from pytest_accel.fleet.jobs.run_folder import FleetRequest
from pytest_accel.fleet.jobs.states import JUDGED, NodeResult, State
from pytest_accel.views.exports import prometheus
from pytest_accel.views.exports.prometheus import Family, Labels

Ledger = Mapping[str, Mapping[str, str]]
"""The last entry of each node in the ledger."""


def text(fleet: FleetRequest, nodes: Sequence[NodeResult], ledger: Ledger = MappingProxyType({})) -> str:
    """Return the states of all nodes in the text format of Prometheus."""
    return prometheus.text(_families(fleet, nodes, ledger))


def _families(fleet: FleetRequest, nodes: Sequence[NodeResult], ledger: Ledger) -> Iterator[Family]:
    """Yield each metric with its help, and its labels and numbers."""
    sku: Labels = (("sku", fleet.sku),)
    results = [node.result for node in nodes if node.result and node.state in JUDGED]
    count = states.counts(nodes)
    by_state = [((*sku, ("state", state.value)), float(count.get(state, 0))) for state in State]
    yield "accel_fleet_nodes", "Nodes by state.", by_state
    rejected = [node for node in nodes if node.state is State.REJECTED]
    open_nodes = [node for node in rejected if not _is_drained(node, ledger)]
    # A node is a label where it is rejected alone: a fleet of 10,000 nodes would be as many series. All are in the
    # JSON.
    labels = [((*sku, ("node", node.node), ("devices", _devices(node))), 1.0) for node in open_nodes]
    yield "accel_fleet_node_rejected", "1 for a rejected node that is not drained, with its devices.", labels
    expected = [(sku, float(sum(node.expected for node in nodes)))] if fleet.listed else []
    yield "accel_fleet_nodes_expected", "Nodes that the run is to judge.", expected
    simulated = float(sum(result.simulated for result in results))
    yield "accel_fleet_nodes_simulated", "Nodes whose result is simulated.", [(sku, simulated)]
    status = "Exit status of the report: 0 all limits hold, 1 a node is rejected, 6 one has no verdict."
    yield "accel_fleet_exit_status", status, [(sku, float(states.exit_status(nodes)))]
    newest = "Time at which the newest run with a result began, in seconds since the epoch."
    times = [time.timestamp() for summary in results if (time := summary.began)]
    yield "accel_fleet_newest_result_timestamp_seconds", newest, [(sku, max(times))] if times else []


def _is_drained(node: NodeResult, ledger: Ledger) -> bool:
    """Return True if the ledger says that a node was drained since the run that rejects it began."""
    entry = ledger.get(node.node, {})
    start, time = node.result.began if node.result else None, moment(entry.get("at", ""))
    return entry.get("did") == "drained" and time is not None and (start is None or time >= start)


def _devices(node: NodeResult) -> str:
    """Return the names of the devices that a node is rejected for."""
    result = node.result or Summary()
    names = {uuid: device.name for uuid, device in result.by_uuid.items()}
    return " ".join(sorted({names.get(uuid, NODE) for uuid in result.rejected}))
