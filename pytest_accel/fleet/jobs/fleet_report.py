"""The report on all nodes of a fleet's run, worst first, as text, Markdown or JSON. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable
from pytest_accel.fleet.jobs.run_folder import FleetRequest
from pytest_accel.fleet.jobs.states import NodeResult, State, counts, exit_status, in_words
from pytest_accel.views.markdown import escaped, table

MOST_LINES = 60
"""Most lines of a report as text or Markdown, whatever the size of the fleet."""
MOST_OTHERS = 3
"""Most hosts that were not expected which the notes name."""
AROUND = 9 + MOST_OTHERS
"""Lines of a report that are no nodes: heading, notes, counts."""
LEAST_OF_STATE = 3
"""Lines that every state has at least, so that many of a worse one hide none."""

Fold = Callable[[Sequence[str]], str]
"""Returns names of nodes as a host list: node[01-03]."""


def rows(nodes: Sequence[NodeResult], fold: Fold) -> list[tuple[State, str, str]]:
    """Return state, nodes and reason of each line: the worst state first, nodes with the same reason together."""
    groups = grouped(nodes, lambda node: (node.state, node.gist if node.job else shown_reason(node), node.cause))
    per_state: dict[State, list[tuple[str, list[str]]]] = {state: [] for state in State}
    for (state, kind, _), group in groups.items():
        output = group[0].output  # what all end with but for names and numbers
        shared = f"{kind}; their output ends: {output}" if output else kind
        reason = shown_reason(group[0]) if len(group) == 1 else shared
        per_state[state].append((reason, [node.node for node in group]))
    room = _room({state: len(reasons) for state, reasons in per_state.items()})
    lines = []
    for state, reasons in per_state.items():
        for reason, names in reasons[: room[state]]:
            lines.append((state, fold(names), reason))
        others = [name for _, names in reasons[room[state] :] for name in names]
        if others:
            lines.append((state, fold(others), f"and {len(others)} more, with other reasons"))
    return lines


def shown_reason(node: NodeResult) -> str:
    """Return the reason of a node as the report shows it: nodes whose limits hold share one line.

    Those with a run whose time cannot be right have one of their own: it may have rejected the node.
    """
    if node.state is State.HELD:
        simulated = node.result is not None and node.result.simulated
        held = "simulated" if simulated else "no acceptance: own tests, or a SKU that is not named or no accelerator"
        return f"{held}; {node.note}" if node.note else held
    return node.note if node.state is State.ACCEPTED else node.sentence


def _room(needs: dict[State, int]) -> dict[State, int]:
    """Return the number of lines of each state, so that all fit; the worse ones get as many as are left."""
    remaining = MOST_LINES - AROUND - len(State) - sum(min(count, LEAST_OF_STATE) for count in needs.values())
    room = {}
    for state, count in needs.items():
        more = min(max(0, count - LEAST_OF_STATE), max(0, remaining))
        room[state] = min(count, LEAST_OF_STATE) + more
        remaining -= more
    return room


def text(fleet: FleetRequest, nodes: Sequence[NodeResult], fold: Fold) -> str:
    """Return the report as lines of text."""
    lines = [
        printable(f"{state.value:<10}  {names}{f'  {cause}' if cause else ''}")
        for state, names, cause in rows(nodes, fold)
    ]
    return "\n".join([*lines, *notes(fleet), in_words(nodes)]) + "\n"


def markdown(fleet: FleetRequest, nodes: Sequence[NodeResult], fold: Fold) -> str:
    """Return the report as Markdown."""
    start = f"{escaped(shlex.join(fleet.arguments), 0)}, " if fleet.arguments else ""
    cells = [[escaped(cell, 0) for cell in (state.value, names, reason)] for state, names, reason in rows(nodes, fold)]
    lines = [f"# {in_words(nodes)}", "", f"{start}begun {escaped(fleet.created)}", ""]
    lines += table(("state", "nodes", "reason"), cells)
    return "\n".join([*lines, *("", *(escaped(note, 0) for note in notes(fleet))) * bool(notes(fleet))]) + "\n"


def notes(fleet: FleetRequest) -> list[str]:
    """Return the notes that a reader needs besides the states."""
    if fleet.network:
        return [f"network: {printable(fleet.network)}", *notes(replace(fleet, network=""))]
    if fleet.listed:
        lines = [f"note: {printable(host)}" for host in fleet.others[:MOST_OTHERS]]
        count = len(fleet.others) - len(lines)
        return [*lines, *([f"note: and {count} more hosts that are not among the expected nodes"] if count else [])]
    return ["note: there is no fleet.json, so a node that left no record is not in this report"]


def as_json(fleet: FleetRequest, nodes: Sequence[NodeResult]) -> str:
    """Return the report as one JSON object, with an entry for each node."""
    content = {
        "format": 1,
        "id": fleet.id,
        "created": fleet.created,
        "version": fleet.version,
        "arguments": list(fleet.arguments),
        "complete_list": fleet.listed,
        "exit": exit_status(nodes),
        "counts": {state.value: count for state, count in counts(nodes).items()},
        "notes": notes(fleet),
        "nodes": [_node(node) for node in nodes],
    }
    return json.dumps(content, indent=1) + "\n"


def _node(node: NodeResult) -> dict[str, Any]:
    result = node.result
    return {
        "node": node.node,
        "state": node.state.value,
        "reason": node.sentence,
        "record": result.folder.name if result else None,
        "started": result.started if result else None,
        "job": (result.job or None) if result else None,
        "rejected": list(result.rejected) if result else [],
    }
