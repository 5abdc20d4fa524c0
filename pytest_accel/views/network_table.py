"""A network run, which is what was measured between nodes, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_accel.core.details import NetworkOutcome
from pytest_accel.core.groups import grouped
from pytest_accel.core.network_run import NAMED, NetworkRun, NodeConclusion, short_rails
from pytest_accel.core.verdict import show
from pytest_accel.core.words import counted, listed
from pytest_accel.views.terminal import Line, closing_lines, folded

SHOWN: Final[tuple[NetworkOutcome, ...]] = ("wrong", "not reached", "slow", "unclear", "unmeasured", "left out")
"""The findings that a row shows, worst first; a node of an island is shown with it, and a good one is counted."""
MOST: Final = 8
"""Nodes that a line names."""
WHY: Final = {
    "wrong": "data arrived changed",
    "not reached": "a worker of it did not reach the call",
    "unclear": "slow, and nobody could be named",
    "unmeasured": "no group of it could be measured",
}


def lines(network: NetworkRun, width: int | None = None) -> list[Line]:
    """Return the nodes, pairs and islands of a network run, worst first, its figures and its closing line."""
    rows = [*_nodes(network), *_pairs(network), *_islands(network)]
    left, right = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    texts = [
        (f"{kind:<{left}}  {names:<{min(right, 24)}}  {note}".rstrip(), colour) for kind, names, note, colour in rows
    ]
    texts.append((_figures(network), ""))
    return [*folded(texts, width), *closing_lines(network.conclusion.closing, (), width)]


Row = tuple[str, str, str, str]


def _nodes(network: NetworkRun) -> Iterator[Row]:
    """Yield a row for each named node, and one for others with the same text."""
    pairs = [*zip(network.nodes, network.conclusion.nodes, strict=False)]
    for kind in SHOWN:
        of_kind = [(node.name, finding, node.left_out) for node, finding in pairs if finding.found == kind]
        groups = grouped(of_kind, (lambda row: row[0]) if kind in NAMED else (lambda row: row[1].text or row[2]))
        for group in groups.values():
            _, finding, left_out = group[0]
            reason = _why(finding, network.conclusion.median) or left_out
            yield kind, listed([name for name, *_ in group], MOST), reason, "red" if kind in NAMED else "yellow"


def _why(finding: NodeConclusion, median: float | None) -> str:
    """Return the finding on a node in words."""
    if finding.found != "slow":
        return finding.text or WHY.get(finding.found, "")
    of_median = f", {finding.score / median:.0%} of the median" if finding.score and median else ""
    rails = short_rails(finding.rails) if finding.rails else ()
    suffix = f"; slow by itself: device {listed([*map(str, rails)], MOST)}" if rails else ""
    return f"{show(finding.score, 'GB/s')}{of_median}, with {counted(finding.partners, 'partner')}{suffix}"


def _pairs(network: NetworkRun) -> Iterator[Row]:
    for path in network.conclusion.paths:
        reason = "data arrived changed" if path.wrong else show(path.value, "GB/s")
        names = " - ".join(_named(network, path.nodes))
        yield "path", names, f"{reason}, both good with others", "red"


def _islands(network: NetworkRun) -> Iterator[Row]:
    for island in network.conclusion.islands:
        yield "island", listed(_named(network, island), MOST), "fast with each other, slow with all others", "red"


def _named(network: NetworkRun, indexes: Sequence[int]) -> list[str]:
    return [network.nodes[index].name for index in indexes]


def _figures(network: NetworkRun) -> str:
    """Return the numbers of nodes and rounds, and the median and the joint figure with their floors."""
    ends, conclusion = [round_.ended for round_ in network.rounds], network.conclusion
    seconds = f" in {max(ends) - min(round_.started for round_ in network.rounds):.0f} s" if ends else ""
    good = sum(finding.found == "good" for finding in conclusion.nodes)
    parts = [f"{counted(len(network.nodes), 'node')}, {good} good: {counted(len(ends), 'round')}{seconds}"]
    figures = (
        ("median of a rank", conclusion.median, network.floor),
        ("together", conclusion.together, network.together_floor),
    )
    for title, value, floor in figures:
        if value is not None:
            parts.append(f"{title} {show(value, 'GB/s')} ({'floor ' + show(floor, 'GB/s') if floor else 'no floor'})")
    return "; ".join(parts)
