"""The sentences and figures of the document of a delivery, for every format. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pytest_accel.core.verdict import show
from pytest_accel.core.words import counted, listed

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Board, Delivery
    from pytest_accel.fleet.delivery.risk import Distribution, Risk

T = TypeVar("T")
MOST_NAMED = 16
"""Boards that one sentence names; the JSON has all of them."""
LIKELY = 0.5
"""The chance of acceptance from which on a limit does not see a loss."""
NEARLY = 0.99999
FEWEST = 0.001
"""The smallest expected number of devices that is told as a figure."""
BLOCKS = " ▁▂▃▄▅▆▇█"
SHARED = (
    "SEVERAL NODES named {host}: their records hold different devices, and each counts as a node of its own. Give the "
    "nodes names; if a board of one node was exchanged, take its older record out of the folder."
)
RISK_HEAD = ("metric", "accepted", "spread", "8 % slow accepted", "expected", "found at 95 % from", "in words")
FIGURES_HEAD = ("metric", "n", "least", "5 %", "median", "95 %", "most", "spread", "limit", "healthy", "distribution")


def verdict(of: Delivery) -> tuple[str, str]:
    """Return the result of the delivery in one word and in one sentence."""
    nodes = of.of_nodes
    total = sum(nodes.values())
    if of.exit == 1:
        return "REJECTED", f"{_what(of)}. {nodes['accepted']} of {counted(total, 'node')} are accepted."
    if of.exit:
        return "NOT JUDGED", f"Nothing is rejected, but not everything is known: {_what(of)}."
    return (
        "ACCEPTED",
        f"All {counted(total, 'node')} with {counted(sum(of.of_devices.values()), 'device')} are accepted.",
    )


def _what(of: Delivery) -> str:
    """Return what keeps the delivery from being accepted."""
    nodes, against = of.of_nodes, of.against
    told = [
        f"{counted(nodes[result], 'node')} {result}"
        for result in ("rejected", "not judged", "missing")
        if nodes[result]
    ]
    told += [f"{counted(of.of_devices['missing'], 'listed board')} never seen"] if of.of_devices["missing"] else []
    if against:
        told += [f"{counted(len(against.swapped), 'pair')} of boards swapped"] if against.swapped else []
        wrong = len(against.moved) + len(against.unlisted) + len(against.differing)
        told += [f"{counted(wrong, 'board')} not as listed"] if wrong else []
        zeros = len(against.but_for_zeros)
        unknown = len(against.unknown)
        told += [f"{counted(unknown, 'board')} not compared with the list"] if unknown else []
        told += [f"{counted(zeros, 'board')} listed without leading zeros"] if zeros else []
    told += [f"{counted(of.simulated, 'node')} simulated"] if of.partly_simulated else []
    told += [f"{counted(len(of.duplicates), 'number')} twice"] if of.duplicates else []
    told += [f"{counted(len(of.refused), 'file')} not read"] if of.refused else []
    return ", ".join(told)


def head(of: Delivery) -> list[tuple[str, str]]:
    """Return name and value of what the delivery is, for the head of the document."""
    days = of.first if of.first == of.last else f"{of.first} to {of.last}"
    given = of.against.sha256 if of.against else ""
    terms = [(each.name, _values(each.values)) for each in of.terms if each.values and each.values[0][0] != given]
    packing = (
        [("packing list", f"{of.against.file}, {of.against.boards:,} boards, SHA-256 {of.against.sha256}")]
        if of.against
        else []
    )
    return [("delivery", of.name), ("records of", days or "no day stated"), *packing, *terms]


def _values(values: Sequence[tuple[str, int]]) -> str:
    if len(values) == 1:
        return values[0][0]
    return listed([f"{value} ({counted(number, 'node')})" for value, number in values], 6)


def warnings(of: Delivery) -> list[str]:
    """Return what a reader has to know before anything else."""
    told = []
    if of.simulated:
        told.append(
            f"SIMULATED: {of.simulated} of {counted(len(of.nodes), 'node')} are simulated ones. "
            "Nothing here is about hardware."
        )
    for each in of.mixed:
        absent = [f"not stated ({counted(each.absent, 'node')})"] if each.absent else []
        values = [f"{value} ({counted(number, 'node')})" for value, number in each.values]
        told.append(f"MIXED {each.name}: {listed([*values, *absent], 6)}. The nodes were not judged alike.")
    if not any(each.name == "contract" and each.values for each in of.terms):
        told.append(
            "No contract: the nodes were judged by threshold files that are not frozen (pytest-accel sku freeze)."
        )
    if of.against is None:
        told.append("No packing list: nothing shows that all that was ordered is here (--expect).")
    if not of.verified:
        told.append("The hashes of the records were not checked (--verify).")
    changed = [each.name for each in of.nodes if each.changed]
    if changed:
        told.append(f"CHANGED after they were written, and not judged: the records of {listed(changed, 6)}.")
    if of.older:
        told.append(f"{counted(of.older, 'older record')} of the same nodes: the newest of every node counts.")
    told += [SHARED.format(host=each) for each in of.shared]
    told += [f"Not read: {path}: {why}" for path, why in of.refused]
    return told


def counts(of: Delivery) -> list[tuple[str, int, int]]:
    """Return the number of nodes and of devices by result."""
    return [(result, number, of.of_devices[result]) for result, number in of.of_nodes.items()]


def board(one: Board) -> str:
    """Return a board with its place in words."""
    return f"{one.serial or one.uuid} in {one.node}, {one.place}"


def across(of: Delivery) -> list[str]:
    """Return what only the delivery as a whole shows, a sentence for all boards of the same nodes."""
    told = [
        f"There twice, {boards[0]}: {counted(len(numbers), what)}: {listed(numbers, MOST_NAMED)}"
        for (what, *boards), numbers in _by_places(of).items()
    ]
    told += [f"Missing: {name} was to be examined, and has no record" for name in of.without_record]
    if not (against := of.against):
        return told
    told += [
        f"Swapped: {one.serial} is in {one.seen}, {one.place}, and listed for {one.listed}; "
        f"{other.serial} is in {other.seen}, {other.place}, and listed for {other.listed}"
        for one, other in against.swapped
    ]
    told += _grouped(against.moved, lambda each: f"In {each.seen}, listed for {each.listed}", lambda each: each.serial)
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
    told += [f"Missing: {name} is on the list, and has no record" for name in against.absent_nodes]
    told += _grouped(
        against.unseen,
        lambda each: f"Never seen, listed for {each.node}" if each.node else "Never seen",
        lambda each: each.serial,
    )
    return told


def _not_compared(unknown: Iterable[tuple[Board, str]]) -> list[str]:
    """Return a sentence for the boards of each node that could not be compared, with the reason of the first."""
    found: dict[str, list[tuple[Board, str]]] = {}
    for one, why in unknown:
        found.setdefault(one.node, []).append((one, why))
    return [
        f"In {node}, not compared with the list: {counted(len(several), 'board')}: "
        f"{listed([one.serial or one.place for one, _ in several], MOST_NAMED)}. {several[0][0].place}: {several[0][1]}"
        for node, several in found.items()
    ]


def _by_places(of: Delivery) -> dict[tuple[str, str], list[str]]:
    """Return the numbers that are there twice, by what they are and the nodes that have them."""
    found: dict[tuple[str, str], list[str]] = {}
    for what, value, boards in of.duplicates:
        places = " and ".join(dict.fromkeys(each.node for each in boards))
        found.setdefault((f"{what} number" if what == "serial" else what, f"in {places}"), []).append(value)
    return found


def _grouped(things: Iterable[T], place: Callable[[T], str], name: Callable[[T], str]) -> list[str]:
    """Return a sentence for all things of one place."""
    found: dict[str, list[str]] = {}
    for each in things:
        found.setdefault(place(each), []).append(name(each))
    return [f"{where}: {counted(len(names), 'board')}: {listed(names, MOST_NAMED)}" for where, names in found.items()]


# -- the metrics


def spread(of: Distribution) -> str:
    """Return the deviations of a metric within the delivery."""
    parts = [
        f"{100 * each:.2g} % {name}"
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
    return f"{told}, advises" if of.advises else told


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
        for origin, risk in (("found", each.found), ("stated", each.stated))
        if risk is not None
    ]


def _risk_row(of: Distribution, origin: str, risk: Risk) -> tuple[str, ...]:
    start = (of.metric, f"{of.accepted:,}", f"{origin}: {risk.basis}")
    if risk.accepted is None or risk.expected is None:
        return (*start, "not known", "not known", "not known", "")
    finds = "not even at 90 %" if risk.finds is None else f"{100 * risk.finds:.2g} %"
    return (*start, chance(risk.accepted), _devices(risk.expected), finds, in_words(of, risk))


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
        sure = f"this limit only advises: it would have accepted a {what} that is 8 % slow"
        return sure if risk.accepted > LIKELY else "this limit only advises, and leaves such a loss unjudged"
    if risk.accepted > LIKELY:
        return (
            f"the limit does not see a loss of 8 %: nearly every such {what} was accepted"
            if risk.accepted > 0.9
            else f"more than half of the {what}s that are 8 % slow were accepted"
        )
    least = risk.expected < 0.05
    return (
        f"hardly a {what} that is 8 % slow was accepted"
        if least
        else f"if 1 in 100 were 8 % slow, about {risk.expected:.2g} of them were accepted"
    )
