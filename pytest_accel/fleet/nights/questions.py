"""The questions that `store show` asks of the nights of a fleet: the views of questions.sql, and what is an anomaly.

SQL groups, gives medians and spreads, and leaves rows that may be anomalies. Which of them are, the one comparison says
(`judging.verdicts.distance`, for the references "fleet" and "past").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.verdict import Status, show
from pytest_accel.core.words import counted, listed
from pytest_accel.judging.verdicts.distance import Reference, distance, loss_bounds
from pytest_accel.judging.verdicts.like_devices import family_of

Row = dict[str, Any]
"""A row of a view, by the names of its columns."""
MANY: Final = 20
"""Devices from which on their spread is known well enough: with 20, a spread from the median absolute deviation is off
by a fifth (a standard error of 1.17 / sqrt(2 n))."""
DEVICE: Final = "device"


@dataclass(frozen=True)
class Question:
    """A question, with the view that has the rows that may answer it."""

    title: str
    view: str
    cells: Callable[[Row], Sequence[str]]
    """Returns the cells of the line of text for a row."""
    most: int
    """Lines of text that it has at most."""
    exit: int = exits.HOLDS
    """The exit status of a night with an answer."""
    finds: Callable[[Row], bool] = lambda row: True
    """True for a row that is an anomaly."""


# -- what is an anomaly


def is_lost(row: Row) -> bool:
    """Return True for a loss over the nights that is an anomaly: `error` is its standard error over `nights`."""
    spread = row["error"] / math.sqrt(2)  # the error is that of the difference, as if either value had it
    return _is_far(row, Reference("fleet", 1.0, spread=spread, freedom=row["nights"] - 2))


def is_behind(row: Row) -> bool:
    """Return True for a device, or the median of a location, too far behind; leaves the night of no mere noise."""
    stepped = row["step_lost"] is not None and is_lost({**row, "lost": row["step_lost"], "error": row["step_error"]})
    row["since"] = row["since"] if stepped else None
    return _is_far(row, Reference("fleet", 1.0, row["like_it"], row["spread"]))


def _is_far(row: Row, reference: Reference) -> bool:
    """Return True if the loss of a row is an anomaly; enters how much is `allowed`."""
    result = distance(1 - row["lost"], "1", family_of(row["metric"], row["unit"]), reference)
    row["allowed"] = result.allowed_loss if result else math.inf
    return result is not None and result.loss > result.allowed_loss


def is_changed(row: Row) -> bool:
    """Return True for a change with an update that is an anomaly beside its standard error."""
    reference = Reference("past", 1.0, spread=row["error"] / math.sqrt(2))  # one value has it, and not both
    return bool(abs(row["change"]) > loss_bounds(family_of(row["metric"], row["unit"]), reference)[0])


FEW: Final = 4
"""Anomalies in a location that are one anomaly of the location."""


def locations_of(rows: Sequence[Row], anomalies: Sequence[Row], nodes: Mapping[str, AbstractSet[str]]) -> list[Row]:
    """Return the locations among `rows` that are an anomaly, or that explain `FEW` of the `anomalies`.

    `rows` are all that may be anomalies, `nodes` are the nodes of each location, by its `uuid`.
    """
    kinds = grouped(anomalies, lambda row: row["kind"])
    locations = (row for row in rows if row["uuid"] in nodes)
    return [
        location
        for location in locations
        if location in anomalies or sum(_covers(location, row, nodes) for row in kinds.get(location["kind"], ())) >= FEW
    ]


def unexplained(rows: Iterable[Row], locations: Sequence[Row], nodes: Mapping[str, AbstractSet[str]]) -> list[Row]:
    """Return the rows that no larger one of `locations` explains: it lost as much in the same metric but for noise."""
    kinds = grouped(locations, lambda location: location["kind"])
    return [row for row in rows if not any(_covers(location, row, nodes) for location in kinds.get(row["kind"], ()))]


def _covers(location: Row, row: Row, nodes_of: Mapping[str, AbstractSet[str]]) -> bool:
    members, nodes = nodes_of.get(row["uuid"]), nodes_of[location["uuid"]]
    inside = row["node"] in nodes if members is None else members < nodes
    return inside and 1 - (1 - row["lost"]) / (1 - location["lost"]) <= row["allowed"]


def one_each(rows: Iterable[Row]) -> list[Row]:
    """Return the worst row of every device and location with its other metrics, the largest loss first."""
    worst = []
    for group in grouped(rows, lambda row: (row["uuid"], row["node"])).values():
        first = max(group, key=lambda row: row["lost"])
        worst.append({**first, "also": sorted({row["metric"] for row in group} - {first["metric"]})})
    return sorted(worst, key=lambda row: (-row["lost"], row["location"]))


# -- what a line says


def _site(row: Row) -> tuple[str, str]:
    """Return the name of a location, and of a device in it the serial number, else its UUID."""
    kind = row.get("what", DEVICE)
    called = row["location"] if kind in (DEVICE, "node") else f"{kind} {row['location']}"
    device = kind == DEVICE and row["location"] != row["node"]
    return called, (row["serial"] or row["uuid"]) if device else ""


def _also(row: Row, *more: str) -> str:
    suffix = f"also {listed(row['also'], 2)}" if row["also"] else ""
    return "; ".join(filter(None, (*more, suffix)))


def _behind(row: Row) -> Sequence[str]:
    value = f"{show(row['value'], '')} of {show(row['middle'], row['unit'])}" if row["value"] is not None else ""
    status = "" if row["status"] in ("", Status.PASS.value) else row["status"]
    since = f"since {row['since']}" if row["since"] else ""
    return *_site(row), row["metric"], value, f"{-row['lost']:.1%}", _also(row, status, since)


def _lost(row: Row) -> Sequence[str]:
    start = f"since {row['since']}" if row["step"] else f"from {row['since']} on"
    value = f"now {show(row['value'], row['unit'])}"
    return *_site(row), row["metric"], value, f"{-row['lost']:.1%}", start, _also(row)


def _update(row: Row) -> Sequence[str]:
    value = f"{show(row['before'], '')} to {show(row['after'], row['unit'])}"
    return row["sku"], row["metric"], f"{row['what']} {row['old']} to {row['new']}", value, f"{row['change']:+.1%}"


def _drift(row: Row) -> Sequence[str]:
    text = f"{row['lost']:.1%} lost over {row['nights']} nights by {row['devices']} devices alike"
    return row["sku"], row["metric"], text


def _limit(row: Row) -> Sequence[str]:
    bounds = ", ".join(f"{name} {show(row[name], '')}" for name in ("floor", "ceiling") if row[name] is not None)
    text = f"fires on {row['failing']} of {row['nodes']} nodes: doubt the limit"
    return row["sku"], row["metric"], bounds, text


def _unlike(row: Row) -> Sequence[str]:
    comparison = (
        f"others state {row['usual']}" if row["what"] == "another unit" else f"of {show(row['middle'], row['unit'])}"
    )
    return row["node"], listed(row["devices"], 2), row["metric"], f"{show(row['value'], row['unit'])}, {comparison}"


QUESTIONS: Final = {
    "rejected_before": Question(
        "open rejections of earlier nights", "rejected_before",
        lambda row: (row["node"], str(row["night"]), row["line"]), 6, exits.REJECTED,
    ),
    "doubled": Question(
        "duplicate devices", "doubled",
        lambda row: (f"{row['what']} {row['name']}", " and ".join(row["nodes"])), 6, exits.NOT_JUDGED,
    ),
    "unlike": Question("unit errors and implausible values", "unlike", _unlike, 4, exits.NOT_JUDGED),
    "behind": Question("devices and racks behind comparable ones", "behind", _behind, 10, exits.REJECTED, is_behind),
    "losses": Question("slowdowns", "losses", _lost, 6, exits.REJECTED, is_lost),
    "failed_again": Question(
        "repeated failures", "failed_again",
        lambda row: (*_site(row), f"{row['runs']} runs since {row['nights'][0]}", listed(row["metrics"], 2),
                     " ".join(row["codes"])), 4, exits.REJECTED,
    ),
    "marginal_again": Question(
        "repeated MARGINAL", "marginal_again",
        lambda row: (*_site(row), row["metric"], f"{len(row['nights'])} of {row['of']} nights"), 3,
    ),
    "updates": Question("changes by updates", "updates", _update, 3, finds=is_changed),
    "drifts": Question(
        "slowdowns of the whole fleet", "drifts",
        _drift, 2, finds=is_lost,
    ),
    "doubtful_limits": Question("doubtful limits", "doubtful_limits", _limit, 2),
    "moved": Question(
        "moved devices", "moved",
        lambda row: (*_site(row), f"since {row['since']}, before in {row['was']}"), 4,
    ),
    "absent": Question(
        "nodes without a run", "absent",
        lambda row: (f"last seen {row['last_seen']}", counted(len(row["nodes"]), "node"), listed(row["nodes"], 4)), 4,
    ),
    "missing_nights": Question("missing nights", "missing_nights", lambda row: (str(row["night"]),), 3),
}  # fmt: skip
"""Every question by its name, the worst first."""
