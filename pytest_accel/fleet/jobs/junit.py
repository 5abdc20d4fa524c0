"""The states of a fleet's nodes as a JUnit file: a test case for every node.

Only an accepted node is a test that passed. A rejected one is a failure, and one without a verdict an error.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from pytest_accel.core.printable import printable
from pytest_accel.fleet.jobs import report
from pytest_accel.fleet.jobs.run_folder import Fleet
from pytest_accel.fleet.jobs.states import HOLDS, NodeResult, State, exit_status
from pytest_accel.run.summaries import Summary
from pytest_accel.views.exports.junit import SUITE, Properties, add_properties, document

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
    suite = ET.Element("testsuite", name=SUITE)
    add_properties(suite, _of_run(fleet, nodes))
    for each in nodes:
        named = {"classname": f"{SUITE}.{printable(fleet.sku or NO_SKU)}", "name": printable(each.node)}
        case = ET.SubElement(suite, "testcase", named)
        add_properties(case, _of_node(each))
        _add_outcome(case, each)
    if notes := report.notes(fleet):
        ET.SubElement(suite, "system-out").text = "\n".join(notes)
    return document(suite, {"timestamp": fleet.created})


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
    told = each.result.summary if each.result else Summary()
    return {
        "state": each.state.value,
        "record": each.result.folder.name if each.result else None,
        "started": told.get("started") or None,
        "job": told.get("job") or None,
        "rejected": " ".join(told.get("rejected", ())) or None,
        "simulated": "true" if told.get("simulated") else None,
    }


def _add_outcome(case: ET.Element, each: NodeResult) -> None:
    """Add the element of a node that is not accepted, with the reason, and the closing line of one that holds."""
    reason, tag = printable(each.reason), TAGS.get(each.state)
    if tag == SKIPPED:
        ET.SubElement(case, tag, message=printable(report.shown(each)))
    elif tag:
        ET.SubElement(case, tag, type=each.state.value, message=reason).text = reason
    if each.state in HOLDS:
        ET.SubElement(case, "system-out").text = reason
