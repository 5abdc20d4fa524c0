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
    for record in records:
        run = next((folder for folder in record.path.parents if folder in reports), None)
        yield _as_reported(record, run, reports[run]) if run else record


def _report(folder: Path) -> dict[Path, states.NodeResult]:
    """Return the state of each expected node that has a result, by the folder of that."""
    results = run_folder.Results(folder)
    nodes = states.of_all(run_folder.load(folder), results.read(), None, unreadable=results.unreadable)
    return {node.result.folder: node for node in nodes if node.result and node.expected}


def _as_reported(record: NodeRecord, run: Path, report: dict[Path, states.NodeResult]) -> NodeRecord:
    """Return a record with the time of its job; it is not accepted unless its run counts it as good."""
    result = report.get(record.folder) or report.get(record.folder.parent)  # that of its series
    job_began = result.began if result and record.folder in report else None
    started = job_began.isoformat() if job_began and job_began != record.began else record.started
    reported = replace(record, counted=result is not None, started=started)
    if not record.accepted or (result and result.state in states.HOLDS):
        return reported
    quoted = shlex.quote(str(run))
    return replace(reported, objection=f"its run does not count this result; why: pytest-accel fleet report {quoted}")
