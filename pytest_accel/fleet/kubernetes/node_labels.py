"""Commands that write the results of a run into Kubernetes: labels on every node, a taint on those that were rejected.

The taint goes once the node is accepted.

They are printed and applied by the user. Names of nodes come from files that anybody may have written.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_accel.core.groups import grouped
from pytest_accel.core.summary import RUNNING, Summary
from pytest_accel.fleet.jobs import run_folder, states
from pytest_accel.fleet.jobs.run_folder import Results
from pytest_accel.fleet.jobs.states import NodeResult, State
from pytest_accel.fleet.kubernetes.manifest import PREFIX, REJECTED_TAINT, is_node

AT_ONCE = 200
"""Most nodes that one command names."""
REMOVED = f"{REJECTED_TAINT}:NoSchedule-"
"""The argument of kubectl that removes the taint of an accepted node. A node without the taint is no error here."""
LONGEST_VALUE = 63
"""Characters of the longest value of a label."""


@dataclass
class LabelledNodes:
    """The nodes that get labels, by their names in Kubernetes, and why others get none."""

    nodes: list[NodeResult] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """A sentence for each folder that cannot be read, and for each node that gets no label."""


def of_folder(folder: Path) -> LabelledNodes:
    """Return the nodes whose result becomes their labels, as `fleet report` has them. Raises BadFile.

    Simulated nodes are left out. Kubernetes knows a node by the name of its host in lower case, as kubelet has it.
    """
    results = Results(folder)
    fleet = run_folder.found(results)
    by_host = results.read()
    found = LabelledNodes(without=[each.why for each in results.unreadable])
    every = states.of_all(fleet, by_host, None, unreadable=results.unreadable)
    real = [each for each in every if not (each.result and each.result.simulated)]
    alike = Counter(each.node.lower() for each in real)
    for each in real:
        name = each.node.lower()
        if not each.expected or each.result is None or each.result.state == RUNNING:
            if each.told not in found.without:
                found.without.append(f"{each.node} gets no label: {each.told}")
        elif not is_node(name):
            found.without.append(f"{each.node} gets no label: that is not the name of a node of Kubernetes")
        elif alike[name] > 1:
            why = f"{alike[name]} hosts have names that differ in capitals only, and Kubernetes has one {name}"
            found.without.append(f"{each.node} gets no label: {why}")
        else:
            found.nodes.append(replace(each, node=name))
    return found


def commands(nodes: Sequence[NodeResult]) -> Iterator[str]:
    """Yield the commands for the nodes that have a result, by their names in Kubernetes; equal labels are one."""
    alike = grouped((each for each in nodes if each.result), _labels)
    for labels, some in alike.items():
        names = [each.node for each in some]
        for at in range(0, len(names), AT_ONCE):
            yield shlex.join(["kubectl", "label", "node", *names[at : at + AT_ONCE], "--overwrite", *labels])
    rejected = [each.node for each in nodes if each.state is State.REJECTED]
    accepted = [each.node for each in nodes if each.state is State.ACCEPTED]
    for names, words in (
        (rejected, ["--overwrite", f"{REJECTED_TAINT}=true:NoSchedule"]),
        (accepted, [REMOVED]),
    ):
        for at in range(0, len(names), AT_ONCE):
            command = shlex.join(["kubectl", "taint", "node", *names[at : at + AT_ONCE], *words])
            yield command if names is rejected else f"{command} 2>/dev/null || true"


def _labels(each: NodeResult) -> tuple[str, ...]:
    summary = each.result or Summary()
    word = State.NOT_JUDGED.value if each.state is State.NOT_JUDGED else summary.word
    labels = {"result": word, "sku": summary.sku, "day": summary.day}
    return tuple(f"{PREFIX}/{name}={_value(value)}" for name, value in labels.items())


def _value(text: str) -> str:
    """Return a text as the value of a label: "not-judged"."""
    kept = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "-" for each in text.lower())
    return kept[:LONGEST_VALUE].strip("-_.")
