"""The records of a delivery that lie in the folder of a `fleet run`: they are good if its report counts them as good.

The report knows what was asked, and which job was the last one of a node.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_accel.fleet.delivery.records import NodeRecord
from pytest_accel.fleet.jobs import run_folder, states


def as_reported(records: Iterable[NodeRecord], folders: Sequence[Path]) -> Iterator[NodeRecord]:
    """Yield the records as the reports on these runs take them. Raises BadFile."""
    reports = {folder: _report(folder) for folder in folders}
    for each in records:
        run = next((folder for folder in each.path.parents if folder in reports), None)
        yield _as_reported(each, run, reports[run]) if run else each


def _report(folder: Path) -> dict[Path, states.NodeResult]:
    """Return the state of each expected node that has a result, by the folder of that."""
    results = run_folder.Results(folder)
    found = states.of_all(run_folder.load(folder), results.read(), None, unreadable=results.unreadable)
    return {each.result.folder: each for each in found if each.result and each.expected}


def _as_reported(one: NodeRecord, run: Path, report: dict[Path, states.NodeResult]) -> NodeRecord:
    """Return a record with the time of its job; it is not accepted unless its run counts it as good."""
    result = report.get(one.folder) or report.get(one.folder.parent)  # that of its series
    job_began = result.began if result and one.folder in report else None
    started = job_began.isoformat() if job_began and job_began != one.began else one.started
    found = replace(one, counted=result is not None, started=started)
    if not one.accepted or (result and result.state in states.HOLDS):
        return found
    shown = shlex.quote(str(run))
    return replace(found, objection=f"its run does not count this result; why: pytest-accel fleet report {shown}")
