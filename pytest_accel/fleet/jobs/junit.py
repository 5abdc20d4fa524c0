"""The states of a fleet's nodes as a JUnit file: a test case for every node.

Only an accepted node is a test that passed. A rejected one is a failure, and one without a verdict an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.core.printable import printable
from pytest_accel.core.summary import Summary
from pytest_accel.fleet.jobs import report
from pytest_accel.fleet.jobs.run_folder import Fleet
from pytest_accel.fleet.jobs.states import HOLDS, NodeResult, State, exit_status
from pytest_accel.views.exports.junit import Case, Properties, document

FAILURE, ERROR, SKIPPED = "failure", "error", "skipped"
TAGS = {
    State.REJECTED: FAILURE,
    State.ERROR: ERROR,
    State.NO_RESULT: ERROR,
    State.NOT_JUDGED: ERROR,
    State.RUNNING: ERROR,
    State.WAITING: ERROR,
    State.SKIPPED: SKIPPED,
    State.HELD: SKIPPED,
}
"""The element of each state but the accepted one."""
NO_SKU = "fleet"
"""The class of the nodes where the SKU that they are judged as is not known."""


def text(fleet: Fleet, nodes: Sequence[NodeResult]) -> str:
    """Return the states of all nodes as a JUnit file."""
    cases = [_case(each, fleet.sku or NO_SKU) for each in nodes]
    return document(_of_run(fleet, nodes), cases, {"timestamp": fleet.created}, report.notes(fleet))


def _of_run(fleet: Fleet, nodes: Sequence[NodeResult]) -> Properties:
    """Return the properties of the whole run; those without a value are left out."""
    return {
        "id": fleet.id or None,
        "arguments": " ".join(fleet.arguments) or None,
        "sku": fleet.sku or None,
        "complete_list": str(fleet.listed).lower(),
        "exit": exit_status(nodes),
    }


def _of_node(each: NodeResult) -> Properties:
    """Return the properties of a node; those without a value are left out."""
    told = each.result or Summary()
    return {
        "state": each.state.value,
        "record": each.result.folder.name if each.result else None,
        "started": told.started or None,
        "job": told.job or None,
        "rejected": " ".join(told.rejected) or None,
        "simulated": "true" if told.simulated else None,
    }


def _case(each: NodeResult, sku: str) -> Case:
    """Return the case of a node: why it is not accepted, and the closing line of one that holds."""
    reason, tag = printable(each.told), TAGS.get(each.state, "")
    about = {"message": report.shown(each)} if tag == SKIPPED else {"type": each.state.value, "message": reason}
    told = reason if tag in (FAILURE, ERROR) else ""
    return Case(sku, each.node, _of_node(each), tag, about, told, reason if each.state in HOLDS else "")
