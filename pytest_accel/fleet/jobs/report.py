"""The report on all nodes of a fleet's run, worst first, as text, Markdown or JSON. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable
from pytest_accel.fleet.jobs.run_folder import FleetAsked
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
    groups = grouped(nodes, lambda each: (each.state, each.alike if each.job else shown(each), each.cause))
    per_state: dict[State, list[tuple[str, list[str]]]] = {state: [] for state in State}
    for (state, kind, _), alike in groups.items():
        output = alike[0].output  # what all end with but for names and numbers
        shared = f"{kind}; their output ends: {output}" if output else kind
        why = shown(alike[0]) if len(alike) == 1 else shared
        per_state[state].append((why, [each.node for each in alike]))
    room = _room({state: len(found) for state, found in per_state.items()})
    found = []
    for state, reasons in per_state.items():
        for why, names in reasons[: room[state]]:
            found.append((state, fold(names), why))
        rest = [name for _, names in reasons[room[state] :] for name in names]
        if rest:
            found.append((state, fold(rest), f"and {len(rest)} more, with other reasons"))
    return found


def shown(each: NodeResult) -> str:
    """Return the reason of a node as the report shows it: nodes whose limits hold share one line.

    Those with a run whose time cannot be right have one of their own: it may have rejected the node.
    """
    if each.state is State.HELD:
        simulated = each.result is not None and each.result.simulated
        held = "simulated" if simulated else "no acceptance: own tests, or a SKU that is not named or no accelerator"
        return f"{held}; {each.note}" if each.note else held
    return each.note if each.state is State.ACCEPTED else each.told


def _room(wanted: dict[State, int]) -> dict[State, int]:
    """Return how many lines each state has, so that all fit; each of the worse ones as many as are left."""
    left = MOST_LINES - AROUND - len(State) - sum(min(count, LEAST_OF_STATE) for count in wanted.values())
    room = {}
    for state, count in wanted.items():
        more = min(max(0, count - LEAST_OF_STATE), max(0, left))
        room[state] = min(count, LEAST_OF_STATE) + more
        left -= more
    return room


def text(fleet: FleetAsked, nodes: Sequence[NodeResult], fold: Fold) -> str:
    """Return the report as lines of text."""
    lines = [
        printable(f"{state.value:<10}  {names}{f'  {why}' if why else ''}") for state, names, why in rows(nodes, fold)
    ]
    return "\n".join([*lines, *notes(fleet), in_words(nodes)]) + "\n"


def markdown(fleet: FleetAsked, nodes: Sequence[NodeResult], fold: Fold) -> str:
    """Return the report as Markdown."""
    begun = f"{escaped(shlex.join(fleet.arguments), 0)}, " if fleet.arguments else ""
    cells = [[escaped(cell, 0) for cell in (state.value, names, why)] for state, names, why in rows(nodes, fold)]
    lines = [f"# {in_words(nodes)}", "", f"{begun}begun {escaped(fleet.created)}", ""]
    lines += table(("state", "nodes", "reason"), cells)
    return "\n".join([*lines, *("", *(escaped(each, 0) for each in notes(fleet))) * bool(notes(fleet))]) + "\n"


def notes(fleet: FleetAsked) -> list[str]:
    """Return what a reader has to know besides the states."""
    if fleet.fabric:
        return [f"fabric: {printable(fleet.fabric)}", *notes(replace(fleet, fabric=""))]
    if fleet.listed:
        shown = [f"note: {printable(each)}" for each in fleet.others[:MOST_OTHERS]]
        rest = len(fleet.others) - len(shown)
        return [*shown, *([f"note: and {rest} more hosts that are not among the expected nodes"] if rest else [])]
    return ["note: there is no fleet.json, so a node that left no record is not in this report"]


def as_json(fleet: FleetAsked, nodes: Sequence[NodeResult]) -> str:
    """Return the report as one JSON object, with an entry for each node."""
    found = {
        "format": 1,
        "id": fleet.id,
        "created": fleet.created,
        "version": fleet.version,
        "arguments": list(fleet.arguments),
        "complete_list": fleet.listed,
        "exit": exit_status(nodes),
        "counts": {state.value: count for state, count in counts(nodes).items()},
        "notes": notes(fleet),
        "nodes": [_node(each) for each in nodes],
    }
    return json.dumps(found, indent=1) + "\n"


def _node(each: NodeResult) -> dict[str, Any]:
    result = each.result
    return {
        "node": each.node,
        "state": each.state.value,
        "reason": each.told,
        "record": result.folder.name if result else None,
        "started": result.started if result else None,
        "job": (result.job or None) if result else None,
        "rejected": list(result.rejected) if result else [],
    }
