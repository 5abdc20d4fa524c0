"""The standing of a network run: the nodes that good pairs connect, those that none does, and what is still to try.

Two nodes are connected if a pair of them was good. The largest connected part is the network. A node outside of it is a
suspect: no pair with a good node was good. A smaller part of several nodes is an island.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_high
from typing import Final, NamedTuple

from pytest_accel.core.details import NetworkOutcome, RoundKind
from pytest_accel.core.groups import grouped
from pytest_accel.core.network_run import SCORED, SHORT, NetworkRun, ReportOutcome

PROVEN: Final = 0.97
"""A node is a partner to confirm others with from this share of the median on."""
PARTNERS: Final = 2
"""A suspect is named after it was short with so many proven partners in rounds of its own."""
ALL_PARTNERS: Final = 5
"""A suspect is named after it was short with so many good nodes in all: in one of thirty pairs a healthy node is short
by chance."""
ISLANDS: Final = 3
"""A suspect meets `PARTNERS` members of each island, of so many islands at most."""
MOST_NAMED: Final = 0.3
"""Of more than this share of the nodes (and more than one) none is named: what is common to them is to blame."""
OUT: Final[tuple[ReportOutcome, ...]] = ("not reached", "no report")
"""After these a node takes no part any more: rank 0 waits longer for a report than any round of a node may take."""


class Meeting(NamedTuple):
    """Two nodes that measured as a pair; in a round "confirm" the first is the suspect."""

    kind: RoundKind
    nodes: tuple[int, int]
    value: float | None
    """GB/s; None if they did not measure, or data arrived changed."""
    wrong: bool
    tried: bool
    """False if one of them did not reach the call or did not answer, which says nothing about the other."""


@dataclass(frozen=True)
class Standing:
    """The standing of the nodes after the rounds of a network run so far. Nodes are indices in its list."""

    run: NetworkRun
    meetings: Sequence[Meeting]
    excluded: dict[int, tuple[NetworkOutcome, str]]
    """Nodes that take no part any more: "not reached" or "left out", and the reason."""

    @cached_property
    def participants(self) -> list[int]:
        """The nodes that take part from the start."""
        return [index for index, node in enumerate(self.run.nodes) if not node.left_out]

    @cached_property
    def active(self) -> list[int]:
        """The nodes that still take part."""
        return [node for node in self.participants if node not in self.excluded]

    @cached_property
    def pairs_of(self) -> dict[int, list[Meeting]]:
        """The meetings of each node that had one."""
        pairs = [(node, meeting) for meeting in self.meetings for node in meeting.nodes]
        return {node: [meeting for _, meeting in group] for node, group in grouped(pairs, lambda pair: pair[0]).items()}

    # -- speed

    def best_value(self, node: int, kinds: Sequence[RoundKind] = SCORED) -> float | None:
        """Return the best value of a node in pairs, None if it has none."""
        values = (meeting.value for meeting in self.pairs_of.get(node, ()) if meeting.kind in kinds)
        return max((value for value in values if value is not None), default=None)

    @cached_property
    def median(self) -> float | None:
        """The median of the nodes' best values in the first pairs; the upper one of two."""
        scores = [score for node in self.participants if (score := self.best_value(node, ("pairs",))) is not None]
        return median_high(scores) if scores else None

    @cached_property
    def all_short(self) -> bool:
        """True if the nodes as a whole are below the floor, so that the floor cannot tell one from another."""
        return self.median is not None and self.run.floor is not None and self.median < self.run.floor

    def bar(self, share: float = SHORT) -> float:
        """Return the value from which on a pair counts: a share of the median, and the floor."""
        floor = None if self.all_short else self.run.floor
        return max(share * (self.median or math.inf), floor or 0.0)

    def good(self, meeting: Meeting) -> bool:
        """Return True if a pair was good."""
        return meeting.value is not None and meeting.value >= self.bar()

    # -- who is connected

    @cached_property
    def parts(self) -> list[list[int]]:
        """The parts of the network that good pairs connect, the largest first."""
        part = {node: [node] for node in self.participants}
        for meeting in filter(self.good, self.meetings):
            small, large = sorted((part[node] for node in meeting.nodes), key=len)
            if small is not large:
                large += small
                part.update(dict.fromkeys(small, large))
        groups = {id(group): group for group in part.values()}.values()
        remaining = [sorted(set(group) - self.excluded.keys()) for group in groups]
        return sorted(filter(None, remaining), key=lambda group: (-len(group), group))

    @cached_property
    def good_nodes(self) -> set[int]:
        """The nodes that are good: the largest part, if it has a pair at all."""
        # one partner proves a node, if it is good itself: two nodes behind one slow switch do not prove each other
        return set(self.parts[0]) if self.parts and any(map(self.good, self.meetings)) else set()

    @cached_property
    def islands(self) -> list[list[int]]:
        """The other parts of several nodes."""
        return [part for part in self.parts[1:] if len(part) > 1]

    @cached_property
    def suspects(self) -> list[int]:
        """The nodes that no good pair connects with the good ones."""
        return [node for node in self.active if node not in self.good_nodes]

    @cached_property
    def proven(self) -> set[int]:
        """The good nodes that are fast enough to confirm suspects with, and showed no wrong data."""
        bar = self.bar(PROVEN)
        return {node for node in self.good_nodes - self.wrong_suspects if (self.best_value(node) or 0.0) >= bar}

    @cached_property
    def too_many(self) -> bool:
        """True if more nodes are suspects than are proven, so that nobody can be named by its speed."""
        return len(self.suspects) > len(self.proven)

    # -- wrong data

    @cached_property
    def corrupt(self) -> set[int]:
        """The nodes that showed wrong data again with a proven partner."""
        return {meeting.nodes[0] for meeting in self.meetings if meeting.kind == "confirm" and meeting.wrong}

    @cached_property
    def wrong_pairs(self) -> list[Meeting]:
        """The pairs that showed wrong data, without those of a node that is named for it."""
        return [meeting for meeting in self.meetings if meeting.wrong and not self.corrupt.intersection(meeting.nodes)]

    @cached_property
    def wrong_suspects(self) -> set[int]:
        """The nodes that are or may be the reason of wrong data: those with several such pairs, else both of a pair."""
        cleared = {
            node for meeting in self.wrong_pairs for node in meeting.nodes if len(self.confirmers(node)) >= PARTNERS
        }
        count = Counter(node for meeting in self.wrong_pairs for node in meeting.nodes if node not in cleared)
        suspects = set(self.corrupt)
        for node, _ in count.most_common():
            pairs = [meeting for meeting in self.pairs_of[node] if meeting.wrong and suspects.isdisjoint(meeting.nodes)]
            if pairs:
                suspects.update([node] if len(pairs) > 1 else {*pairs[0].nodes} - cleared)
        return suspects - self.excluded.keys()

    # -- what is still to try, and who is named

    def confirmers(self, node: int) -> set[int]:
        """Return the partners that a suspect met to be confirmed."""
        meetings = [meeting for meeting in self.pairs_of.get(node, ()) if meeting.kind == "confirm" and meeting.tried]
        return {meeting.nodes[1] for meeting in meetings if meeting.nodes[0] == node}

    def lacks(self, node: int) -> tuple[int, list[list[int]]]:
        """Return the number of proven nodes, and the islands, that a suspect has yet to meet before it is named."""
        partners_met = self.confirmers(node)
        met_nodes = {other for meeting in self.pairs_of.get(node, ()) for other in meeting.nodes} & self.good_nodes
        proven = sum(self.crosses(node, other) for other in self.proven) if self.apart else len(self.proven)
        confirmed = len(partners_met & self.good_nodes)
        if node in self.good_nodes or any(node in island for island in self.islands):
            return max(0, min(PARTNERS, proven) - confirmed), []
        partners = max(min(PARTNERS, proven) - confirmed, min(ALL_PARTNERS, proven) - len(met_nodes))
        islands = [island for island in self.islands[:ISLANDS] if len(partners_met.intersection(island)) < PARTNERS]
        return max(0, partners), islands

    @cached_property
    def slow(self) -> list[int]:
        """The nodes that are named: short, or out of reach, with every partner and with proven ones in own rounds."""
        if self.too_many or self.all_short or not self.proven:
            return []
        alone = set(self.suspects).difference(*self.islands)
        slow_nodes = [node for node in sorted(alone) if self.lacks(node) == (0, [])]
        return slow_nodes if len(slow_nodes) <= max(1, MOST_NAMED * len(self.participants)) else []

    def crosses(self, first: int, second: int) -> bool:
        """Return True if a pair of the nodes measures the network that is judged: that between the NVLink domains."""
        domains = {self.run.nodes[node].domain for node in (first, second)}
        return not self.apart or len(domains) > 1 or domains == {""}

    @cached_property
    def apart(self) -> bool:
        """True if there are several NVLink domains: pairs inside of one are faster, and would hide what is slow."""
        return 0 < max(map(len, self.domains.values()), default=0) < len(self.participants)

    @cached_property
    def domains(self) -> dict[str, list[int]]:
        """The nodes of each NVLink domain of which several take part."""
        groups = grouped(self.participants, lambda node: self.run.nodes[node].domain)
        return {name: nodes for name, nodes in groups.items() if name and len(nodes) > 1}


def standing(run: NetworkRun) -> Standing:
    """Return the standing after the rounds of a network run."""
    meetings: list[Meeting] = []
    excluded: dict[int, tuple[NetworkOutcome, str]] = {
        index: ("left out", node.left_out) for index, node in enumerate(run.nodes) if node.left_out
    }
    for network_round in run.rounds:
        for result in network_round.results:
            outcomes = {report.outcome for report in result.reports}
            for node, report in zip(result.nodes, result.reports, strict=True):
                if report.outcome in OUT:
                    by_device = report.outcome == "not reached" and report.kind == "device"
                    excluded.setdefault(node, ("not reached" if by_device else "left out", report.text))
            if network_round.kind in SCORED and len(result.nodes) == 2:
                first, second = result.nodes
                tried = outcomes.isdisjoint(OUT)
                meetings.append(Meeting(network_round.kind, (first, second), result.value, "wrong" in outcomes, tried))
    return Standing(run, meetings, excluded)
