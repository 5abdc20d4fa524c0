"""The boards, figures and risks of the document of a delivery in words, for every format. Pure."""

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
    from pytest_accel.fleet.delivery.nodes import Board
    from pytest_accel.fleet.delivery.risk import Distribution, Risk

T = TypeVar("T")
MOST_NAMED = 16
"""Boards that one sentence names; the JSON has all of them."""
SELDOM, LIKELY, MOSTLY = 0.01, 0.5, 0.9
"""The chances of acceptance from which on a limit accepts some, most and nearly all devices with a loss."""
NEARLY = 0.99999
FEWEST = 0.001
"""The smallest expected number of devices that is told as a figure."""
BLOCKS = " ▁▂▃▄▅▆▇█"
FAULTS = "What to return, repair or correct"
BOARDS = "Boards that are missing, in the wrong place, or there twice"
RISKS = "Could a slow device have been accepted?"
FIGURES = "The figures of all devices"
NODES = "The nodes"
"""The headings of the document."""
COUNTED = (
    "A device is accepted with its node. In a node that is not accepted, only devices with a fault of their own are "
    "rejected; the others count as not judged. A board that is not what, or where, the packing list says is rejected, "
    "too."
)
NO_FAULT = "No node and no device was rejected by a run."
NO_LIMIT = "No limit on a speed was judged."
NO_FIGURE = "Nothing was measured."
HOW_RISKY = (
    "The table says, for every limit on a speed, what would have become of a device that is 8 % slower than it should "
    "be, if this limit alone had judged it. A shortfall counts only if its repeat shows it, too. Every node was also "
    "compared with its neighbours and its earlier runs, which finds more."
)
TWO_LINES = (
    "How sure a limit is depends on how much healthy devices differ (the spread). Each metric has two lines: "
    '"delivery" goes by the spread of these devices, for a device 8 % below their median; "threshold file" goes by the '
    "spread and the healthy figure that were published. A loss is noticed if the device is at least MARGINAL; a "
    "MARGINAL device is accepted."
)
RISK = (HOW_RISKY, TWO_LINES)
"""The text above the table of risks, in paragraphs."""
RISK_HEAD = (
    "metric",
    "this limit",
    "chance that such a device is accepted",
    "accepted",
    "slow among these, if 1 in 100 is",
    "smallest loss noticed at 95 %",
    "spread",
)
FIGURES_HEAD = ("metric", "n", "least", "5 %", "median", "95 %", "most", "spread", "limit", "healthy", "distribution")


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


def spread(of: Distribution) -> str:
    """Return the deviations of a metric within the delivery."""
    parts = [
        f"{100 * each:.2g} % between {name}"
        for name, each in (("devices", of.between_devices), ("nodes", of.between_nodes))
        if each is not None
    ]
    return ", ".join(parts) or "-"


def bound(of: Distribution) -> str:
    """Return the limit of a metric."""
    parts = [
        f"{name} {show(each, of.unit)}"
        for name, each in (("floor", of.floor), ("ceiling", of.ceiling))
        if each is not None
    ]
    told = ", ".join(parts) or "none"
    if of.limits > 1:
        told += f" (the commonest of {of.limits})"
    return f"{told} (only advises)" if of.advises else told


def healthy(of: Distribution) -> str:
    """Return the published healthy range of a metric."""
    return " to ".join(show(each, of.unit) for each in of.healthy) if of.healthy else "not stated"


def blocks(bars: Sequence[int]) -> str:
    """Return a histogram as text."""
    most = max(bars)
    return "".join(BLOCKS[0 if not each else max(1, round(each / most * (len(BLOCKS) - 1)))] for each in bars)


def number(value: float) -> str:
    """Return a figure with four digits."""
    return show(value, "1")


def chance(value: float) -> str:
    """Return a chance as a percentage, honest at both ends."""
    if value > NEARLY:
        return "above 99.999 %"
    if value < 1 - NEARLY:
        return "below 0.001 %"
    return f"{100 * value:.3g} %" if value < LIKELY else f"{100 * value:.5g} %"


def risks(of: Sequence[Distribution]) -> list[tuple[str, ...]]:
    """Return the lines of the table of risks, below `RISK_HEAD`: for each metric by the found and the stated spread."""
    return [
        _risk_row(each, origin, risk)
        for each in of
        for origin, risk in (("delivery", each.found), ("threshold file", each.stated))
        if risk is not None
    ]


def _risk_row(of: Distribution, origin: str, risk: Risk) -> tuple[str, ...]:
    spread_by = f"{origin}: {risk.basis}"
    if risk.accepted is None or risk.expected is None:
        return (of.metric, "not known", "-", f"{of.accepted:,}", "-", "-", spread_by)
    finds = "not even 90 %" if risk.finds is None else f"{100 * risk.finds:.2g} %"
    share = _devices(risk.expected)
    return (of.metric, in_words(of, risk), chance(risk.accepted), f"{of.accepted:,}", share, finds, spread_by)


def _devices(expected: float) -> str:
    """Return how many slow devices are expected among those that were accepted."""
    return f"{expected:.2g}" if not expected or expected >= FEWEST else f"below {FEWEST:g}"


def in_words(of: Distribution, risk: Risk) -> str:
    """Return a risk in one sentence."""
    what = "node" if of.of_node else "device"
    if risk.accepted is None or risk.expected is None:
        return risk.basis
    if not of.accepted:
        return f"no {what} was accepted"
    if of.advises:
        sure = f"only advises, and accepts a {what} that is 8 % slow"
        return sure if risk.accepted > LIKELY else f"only advises; a {what} that is 8 % slow is left not judged"
    if risk.accepted > MOSTLY:
        return f"accepts nearly every {what} that is 8 % slow"
    if risk.accepted > LIKELY:
        return f"accepts more than half of the {what}s that are 8 % slow"
    if risk.accepted > SELDOM:
        return f"accepts some of the {what}s that are 8 % slow"
    return f"rejects nearly every {what} that is 8 % slow"


def risk_summary(of: Sequence[Distribution]) -> list[str]:
    """Return which limits reject a device that is 8 % slow and which do not, a sentence for each kind.

    The spread of the delivery counts where it is known, else that of the threshold file.
    """
    kinds: dict[str, list[str]] = {}
    for each in of:
        known = [risk.accepted for risk in (each.found, each.stated) if risk and risk.accepted is not None]
        if each.found or each.stated:
            kinds.setdefault(_kind(known[0] if known else None, advises=each.advises), []).append(each.metric)
    return [f"{SUMMARY[kind]}: {', '.join(kinds[kind])}." for kind in SUMMARY if kind in kinds]


SUMMARY = {
    "rejects": "These limits reject nearly every device that is 8 % slow",
    "accepts some": "These limits accept some of the devices that are 8 % slow",
    "accepts most": "These limits accept most devices that are 8 % slow, and reject only larger losses",
    "advises": "These limits only advise: a device is rejected below the floor of its class, if at all",
    "not known": "For lack of a spread it is not known what these limits accept",
}
"""The beginnings of the sentences of `risk_summary`, by the kind of the limit."""


def _kind(accepted: float | None, *, advises: bool) -> str:
    if advises:
        return "advises"
    if accepted is None:
        return "not known"
    return "accepts most" if accepted > LIKELY else "accepts some" if accepted > SELDOM else "rejects"
