"""A fabric run, which is what was measured between nodes, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_accel.core.details import Found
from pytest_accel.core.fabric import NAMED, Fabric, NodeFinding, short_rails
from pytest_accel.core.groups import grouped
from pytest_accel.core.verdict import show
from pytest_accel.core.words import counted, listed
from pytest_accel.views.terminal import Line, closing_lines, folded

SHOWN: Final[tuple[Found, ...]] = ("wrong", "not reached", "slow", "unclear", "unmeasured", "left out")
"""What a node may be, the worst first; one of an island is shown with it, and a good one is counted."""
MOST: Final = 8
"""Nodes that a line names."""
WHY: Final = {
    "wrong": "data arrived changed",
    "not reached": "a worker of it did not reach the call",
    "unclear": "slow, and nobody could be named",
    "unmeasured": "no group of it could be measured",
}


def lines(found: Fabric, width: int | None = None) -> list[Line]:
    """Return what a fabric run found of nodes, pairs and islands, the worst first, its figures and its closing line."""
    rows = [*_nodes(found), *_pairs(found), *_islands(found)]
    one, two = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    told = [(f"{kind:<{one}}  {names:<{min(two, 24)}}  {why}".rstrip(), colour) for kind, names, why, colour in rows]
    told.append((_figures(found), ""))
    return [*folded(told, width), *closing_lines(found.conclusion.closing, (), width)]


Row = tuple[str, str, str, str]


def _nodes(found: Fabric) -> Iterator[Row]:
    """Yield a row for each named node, and one for others with the same text."""
    pairs = [*zip(found.nodes, found.conclusion.findings, strict=False)]
    for kind in SHOWN:
        of_kind = [(node.name, each, node.left_out) for node, each in pairs if each.found == kind]
        alike = grouped(of_kind, (lambda row: row[0]) if kind in NAMED else (lambda row: row[1].text or row[2]))
        for some in alike.values():
            _, finding, left_out = some[0]
            why = _why(finding, found.conclusion.median) or left_out
            yield kind, listed([name for name, *_ in some], MOST), why, "red" if kind in NAMED else "yellow"


def _why(finding: NodeFinding, middle: float | None) -> str:
    """Return what was found of a node, in words."""
    if finding.found != "slow":
        return finding.text or WHY.get(finding.found, "")
    of_median = f", {finding.score / middle:.0%} of the median" if finding.score and middle else ""
    rails = short_rails(finding.rails) if finding.rails else ()
    alone = f"; slow by itself: device {listed([*map(str, rails)], MOST)}" if rails else ""
    return f"{show(finding.score, 'GB/s')}{of_median}, with {counted(finding.partners, 'partner')}{alone}"


def _pairs(found: Fabric) -> Iterator[Row]:
    for each in found.conclusion.paths:
        why = "data arrived changed" if each.wrong else show(each.value, "GB/s")
        names = " - ".join(_named(found, each.nodes))
        yield "path", names, f"{why}, both good with others", "red"


def _islands(found: Fabric) -> Iterator[Row]:
    for each in found.conclusion.islands:
        yield "island", listed(_named(found, each), MOST), "fast with each other, slow with all others", "red"


def _named(found: Fabric, places: Sequence[int]) -> list[str]:
    return [found.nodes[place].name for place in places]


def _figures(found: Fabric) -> str:
    """Return how many nodes took part in how many rounds, and the median and the joint figure with their floors."""
    ends, concluded = [each.ended for each in found.rounds], found.conclusion
    seconds = f" in {max(ends) - min(each.started for each in found.rounds):.0f} s" if ends else ""
    good = sum(each.found == "good" for each in concluded.findings)
    told = [f"{counted(len(found.nodes), 'node')}, {good} good: {counted(len(ends), 'round')}{seconds}"]
    named = (
        ("median of a rank", concluded.median, found.floor),
        ("together", concluded.together, found.together_floor),
    )
    for what, value, floor in named:
        if value is not None:
            told.append(f"{what} {show(value, 'GB/s')} ({'floor ' + show(floor, 'GB/s') if floor else 'no floor'})")
    return "; ".join(told)
