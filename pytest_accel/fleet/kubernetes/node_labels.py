"""Commands that write the results of a run into Kubernetes: labels on every node, a taint on those that were rejected.

They are printed and applied by the user. Names of nodes come from files that anybody may have written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from pytest_accel.fleet.jobs.run_folder import Results
from pytest_accel.fleet.kubernetes.manifest import PREFIX, REJECTED_TAINT, is_node
from pytest_accel.run.summaries import Summary

LONGEST_VALUE = 63
"""Characters of the longest value of a label."""
REJECTED = "REJECTED"


def newest_results(folder: Path) -> list[Summary]:
    """Return the newest result of every node in the folder of a run, sorted by name. Raises BadFile.

    Simulated results, those that were judged again, those of runs under way and damaged ones are left out.
    """
    newest: list[Summary] = []
    for _, of_node in sorted(Results(folder).read().items()):
        ended = (each.summary for each in of_node if each.summary["word"] and not each.summary["simulated"])
        newest.extend(islice(ended, 1))
    return newest


def commands(results: Iterable[Summary]) -> Iterator[str]:
    """Yield the commands of every node whose name is one of Kubernetes."""
    for each in results:
        node = each["host"]
        if not is_node(node):
            continue
        labels = {"result": each["word"], "sku": each["sku"], "day": each["started"][:10]}
        stated = [f"{PREFIX}/{name}={_value(value)}" for name, value in labels.items()]
        yield shlex.join(["kubectl", "label", "node", node, "--overwrite", *stated])
        if each["word"] == REJECTED:
            yield shlex.join(["kubectl", "taint", "node", node, "--overwrite", f"{REJECTED_TAINT}=true:NoSchedule"])


def _value(text: str) -> str:
    """Return a text as the value of a label: "not-judged"."""
    kept = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "-" for each in text.lower())
    return kept[:LONGEST_VALUE].strip("-_.")
