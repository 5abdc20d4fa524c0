"""Records of the nights of a drawn fleet, in folders as runs leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import known_good_nodes

from pytest_accel.core.run import Run
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing import Closing
from pytest_accel.run.record import closing_entry

LIMITS = {name: Limit(name, unit, floor=0.9 * centre) for name, (unit, centre, *_) in known_good_nodes.CENTRES.items()}


def record(node: int, night: int = 0, *, statuses: Mapping[tuple[int, str], Status] | None = None, **kept: Any) -> Run:
    """Return the record of a node in a night, with a verdict on every figure; `statuses` by device and metric."""
    made = known_good_nodes.record(node, night, **kept)
    places = {each.uuid: each.index for each in made.devices}
    verdicts = []
    for each in made.measurements:
        limit = LIMITS[each.metric]
        status = (statuses or {}).get((places.get(each.subject, -1), each.metric), Status.PASS)
        verdicts.append(
            Verdict(
                each.metric,
                each.subject,
                status,
                (),
                each.unit,
                each.value,
                limit=limit,
                floor=limit.floor,
            )
        )
    failed = any(each.status is Status.FAIL for each in verdicts)
    word = "REJECTED" if failed else "ACCEPTED"
    closing = closing_entry(Closing(f"{word} as h100-sxm at standard", int(failed), word))
    software = {**made.software, "torch": "2.13.0"}
    return replace(made, verdicts=verdicts, closing=closing, software=kept.get("software", software))


def save(made: Run, folder: Path) -> Path:
    """Write a record into a folder of its node and day below `folder`; return the file."""
    return known_good_nodes.save(made, folder / f"{made.run['started'][:10]}-{made.run['host']}")
