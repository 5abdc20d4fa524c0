"""Records of the nights of a drawn fleet, in folders as runs leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_accel.core.run import Circumstances, Objection, Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.judging.verdicts.like_devices import value_of
from support import known_good_nodes

LIMITS = {name: Limit(name, unit, floor=0.8 * centre) for name, (unit, centre, *_) in known_good_nodes.CENTRES.items()}

FLOORS = {Status.FAIL: 1.1, Status.MARGINAL: 0.99}
"""The floor of a limit that gives a status, as a share of the value."""


def record(
    node: int,
    night: int = 0,
    *,
    statuses: Mapping[tuple[int, str], Status] | None = None,
    accepts: bool = False,
    **kept: Any,
) -> Run:
    """Return the record of a node in a night, with a verdict on every figure; `statuses` by device and metric.

    It is HELD unless a status fails, or it `accepts`: then it has verdicts on all that the suite asks.
    """
    made = known_good_nodes.record(node, night, **kept)
    places = {each.uuid: each.index for each in made.devices}
    attempts = RunAttempts.of(made.measurements, made.devices)
    verdicts = []
    for each in made.measurements:
        limit, place = LIMITS[each.metric], (each.metric, each.subject)
        status = (statuses or {}).get((places.get(each.subject, -1), each.metric))
        if status:
            limit = replace(limit, floor=FLOORS[status] * value_of(each))
        verdicts.append(attempts.verdict(place, limit))
    around = Circumstances(
        required=[each.key for each in verdicts],
        expected_devices=len(made.devices),
        sku="h100-sxm",
        level="standard",
        against=[] if accepts else [Objection("unasked", "drawn")],
    )
    verdicts += known_good_nodes.not_applicable(made) if accepts else []
    software = kept.get("software", {**made.software, "torch": "2.13.0"})
    return known_good_nodes.closed(replace(made, verdicts=verdicts, circumstances=around, software=software))


def save(made: Run, folder: Path) -> Path:
    """Write a record into a folder of its node and day below `folder`; return the file."""
    return known_good_nodes.save(made, folder / f"{made.info['started'][:10]}-{made.info['host']}")
