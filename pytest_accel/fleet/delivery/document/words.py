"""The boards and figures of the document of a delivery in words, for every format. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pytest_accel.core.groups import grouped
from pytest_accel.core.verdict import show
from pytest_accel.core.words import listed
from pytest_accel.fleet.delivery.document.result import MOST_NODES, many
from pytest_accel.skus.packing_list import same

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery
    from pytest_accel.fleet.delivery.distribution import Distribution
    from pytest_accel.fleet.delivery.nodes import Board

T = TypeVar("T")
MOST_NAMED = 16
"""Boards that one sentence names; the JSON has all of them."""
FAULTS = "What to return, repair or correct"
BOARDS = "Boards that are missing, in the wrong place, or there twice"
FIGURES = "The figures of all devices"
NODES = "The nodes"
"""The headings of the document."""
COUNTED = (
    "A device is accepted with its node. In a node that is not accepted, only devices with a fault of their own are "
    "rejected; the others count as not judged. A board that is not what, or where, the packing list says is rejected, "
    "too."
)
NO_FAULT = "No node and no device was rejected by a run."
NO_FIGURE = "Nothing was measured."
FIGURES_HEAD = ("metric", "n", "least", "5 %", "median", "95 %", "most", "spread", "limit", "healthy")


def board(one: Board) -> str:
    """Return a board with its place in words."""
    return f"{one.serial or one.uuid} in {one.node}, {one.place}"


def across(of: Delivery) -> list[str]:
    """Return what only the delivery as a whole shows, a sentence for all boards of the same nodes."""
    told = [
        f"{where}: {many(len(numbers), what)}: {listed(numbers, MOST_NAMED)}"
        for (what, where), numbers in _by_places(of).items()
    ]
    told += [f"Missing: {name} was to be examined, and has no record" for name in of.without_record]
    if not (against := of.against):
        return told
    told += [
        f"Swapped: {one.serial} is in {one.seen}, {one.place}, and listed for {one.listed}; "
        f"{other.serial} is in {other.seen}, {other.place}, and listed for {other.listed}"
        for one, other in against.swapped
    ]
    told += _grouped(
        against.moved, lambda each: f"In {each.seen}, but listed for {each.listed}", lambda each: each.serial
    )
    told += _grouped(
        against.unlisted, lambda each: f"In {each.node}, not on the list", lambda each: each.serial or each.uuid
    )
    told += [f"Not as listed: {board(each)}: {why}" for each, why in against.differing]
    told += [
        f"Listed without leading zeros: {board(each)}; line {row.line} has {row.serial}. A spreadsheet drops them: "
        "correct the list"
        for each, row in against.but_for_zeros
    ]
    told += _not_compared(against.unknown)
    told += [f"{name} on the packing list may be any of: {', '.join(meant)}" for name, meant in against.several]
    told += [f"Missing: {name} is on the packing list, and has no record" for name in against.absent_nodes]
    told += _grouped(
        against.unseen,
        lambda each: f"Listed for {each.node}, and seen in no node" if each.node else "Listed, and seen in no node",
        lambda each: each.serial,
    )
    return told


def all_in_place(of: Delivery) -> str:
    """Return that no board is missing or twice, as far as that is known."""
    if of.against:
        place = " in its node" if of.against.names_nodes else ""
        return f"Every board of the packing list was seen{place}, no other one, and none twice."
    return "No serial number and no UUID is there twice."


def _not_compared(unknown: Iterable[tuple[Board, str]]) -> list[str]:
    """Return a sentence for the boards of each node that could not be compared, with the reason of the first."""
    return [
        f"In {node}, not compared with the list: {many(len(several), 'board')}: "
        f"{listed([one.serial or one.place for one, _ in several], MOST_NAMED)}. {several[0][0].place}: {several[0][1]}"
        for node, several in grouped(unknown, lambda each: each[0].node).items()
    ]


def _by_places(of: Delivery) -> dict[tuple[str, str], list[str]]:
    """Return the numbers that are there twice, by what they are and the nodes that have them.

    UUIDs are left out where the boards have the same serial number as well.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for what, value, boards in of.duplicates:
        if what == "UUID" and boards[0].serial and len({same(each.serial) for each in boards}) == 1:
            continue  # their serial number, which is on the board, says the same
        places = list(dict.fromkeys(each.node for each in boards))
        where = f"Twice in {places[0]}" if len(places) == 1 else f"At once in {listed(places, MOST_NODES)}"
        found.setdefault((f"{what} number" if what == "serial" else what, where), []).append(value)
    return found


def _grouped(things: Iterable[T], place: Callable[[T], str], name: Callable[[T], str]) -> list[str]:
    """Return a sentence for all things of one place."""
    return [
        f"{where}: {many(len(some), 'board')}: {listed(list(map(name, some)), MOST_NAMED)}"
        for where, some in grouped(things, place).items()
    ]


# -- the metrics


def figures(of: Sequence[Distribution]) -> list[tuple[str, ...]]:
    """Return the lines of the table of figures, below `FIGURES_HEAD`."""
    return [
        (
            f"{each.metric} ({each.unit})",
            f"{each.n:,}",
            *(show(value, "1") for value in (each.least, each.low, each.middle, each.high, each.most)),
            "-" if each.spread is None else f"{100 * each.spread:.2g} %",
            _bound(each),
            _healthy(each),
        )
        for each in of
    ]


def _bound(of: Distribution) -> str:
    """Return the limit of a metric."""
    if of.bounds is None:
        return "none"
    parts = (("floor", of.bounds.floor), ("ceiling", of.bounds.ceiling))
    told = ", ".join(f"{name} {show(each, of.unit)}" for name, each in parts if each is not None) or "none"
    if of.limits > 1:
        told += f" (the commonest of {of.limits})"
    return f"{told} (only advises)" if of.bounds.advises else told


def _healthy(of: Distribution) -> str:
    """Return the published healthy range of a metric."""
    healthy = of.bounds and of.bounds.healthy
    return " to ".join(show(each, of.unit) for each in healthy) if healthy else "not stated"
