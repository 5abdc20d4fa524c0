"""What the rounds of a fabric run show so far: who is connected by good pairs, who is not, and what is still to try.

Two nodes are connected if a pair of them was good. The largest connected part is the fabric. A node outside of it is a
suspect: no pair with a good node was good. A smaller part of several nodes is an island. So one good partner proves a
node, if that partner is good itself: two nodes behind one slow switch do not prove each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_high
from typing import Final, NamedTuple

from pytest_accel.core.details import Found, RoundKind
from pytest_accel.core.fabric import SCORED, SHORT, Fabric, ReportOutcome
from pytest_accel.core.groups import grouped

PROVEN: Final = 0.97
"""A node is a partner to confirm others with from this share of the median on."""
PARTNERS: Final = 2
"""A suspect is named after it was short with so many proven partners in rounds of its own."""
ALL_PARTNERS: Final = 5
"""It was short with so many good nodes in all: in one of thirty pairs a healthy node is short by chance."""
ISLANDS: Final = 3
"""It meets as many members of each island, of so many islands at most."""
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
    """What the rounds of a fabric run show so far. Nodes are places in its list."""

    fabric: Fabric
    meetings: Sequence[Meeting]
    out: dict[int, tuple[Found, str]]
    """Nodes that take no part any more: "not reached" or "left out", and why."""

    @cached_property
    def taking(self) -> list[int]:
        """The nodes that take part from the start."""
        return [place for place, each in enumerate(self.fabric.nodes) if not each.left_out]

    @cached_property
    def here(self) -> list[int]:
        """The nodes that still take part."""
        return [each for each in self.taking if each not in self.out]

    @cached_property
    def of(self) -> dict[int, list[Meeting]]:
        """The meetings of each node that had one."""
        pairs = [(node, each) for each in self.meetings for node in each.nodes]
        return {node: [each for _, each in own] for node, own in grouped(pairs, lambda pair: pair[0]).items()}

    # -- speed

    def best(self, node: int, kinds: Sequence[RoundKind] = SCORED) -> float | None:
        """Return the best value of a node in pairs, None if it has none."""
        values = [each.value for each in self.of.get(node, ()) if each.value is not None and each.kind in kinds]
        return max(values, default=None)

    @cached_property
    def median(self) -> float | None:
        """The median of the nodes' best values in the first pairs; the upper one of two."""
        scores = [score for each in self.taking if (score := self.best(each, ("pairs",))) is not None]
        return median_high(scores) if scores else None

    @cached_property
    def all_short(self) -> bool:
        """True if the nodes as a whole are below the floor, so that the floor cannot tell one from another."""
        return self.median is not None and self.fabric.floor is not None and self.median < self.fabric.floor

    def bar(self, share: float = SHORT) -> float:
        """Return the value from which on a pair counts: a share of the median, and the floor."""
        floor = None if self.all_short else self.fabric.floor
        return max(share * (self.median or math.inf), floor or 0.0)

    def good(self, meeting: Meeting) -> bool:
        """Return True if a pair was good."""
        return meeting.value is not None and meeting.value >= self.bar()

    # -- who is connected

    @cached_property
    def parts(self) -> list[list[int]]:
        """The parts of the fabric that good pairs connect, the largest first."""
        part = {each: [each] for each in self.taking}
        for meeting in filter(self.good, self.meetings):
            small, large = sorted((part[each] for each in meeting.nodes), key=len)
            if small is not large:
                large += small
                part.update(dict.fromkeys(small, large))
        every = {id(each): each for each in part.values()}.values()
        left = [sorted(set(each) - self.out.keys()) for each in every]
        return sorted(filter(None, left), key=lambda each: (-len(each), each))

    @cached_property
    def fabric_part(self) -> set[int]:
        """The nodes that are good: the largest part, if it has a pair at all."""
        return set(self.parts[0]) if self.parts and any(map(self.good, self.meetings)) else set()

    @cached_property
    def islands(self) -> list[list[int]]:
        """The other parts of several nodes."""
        return [each for each in self.parts[1:] if len(each) > 1]

    @cached_property
    def suspects(self) -> list[int]:
        """The nodes that no good pair connects with the good ones."""
        return [each for each in self.here if each not in self.fabric_part]

    @cached_property
    def proven(self) -> set[int]:
        """The good nodes that are fast enough to confirm suspects with, and showed no wrong data."""
        bar = self.bar(PROVEN)
        return {each for each in self.fabric_part - self.wrong_suspects if (self.best(each) or 0.0) >= bar}

    @cached_property
    def too_many(self) -> bool:
        """True if more nodes are suspects than are proven, so that nobody can be named by its speed."""
        return len(self.suspects) > len(self.proven)

    # -- wrong data

    @cached_property
    def wrong(self) -> set[int]:
        """The nodes that showed wrong data again with a proven partner."""
        return {each.nodes[0] for each in self.meetings if each.kind == "confirm" and each.wrong}

    @cached_property
    def wrong_pairs(self) -> list[Meeting]:
        """The pairs that showed wrong data, without those of a node that is named for it."""
        return [each for each in self.meetings if each.wrong and not self.wrong.intersection(each.nodes)]

    @cached_property
    def wrong_suspects(self) -> set[int]:
        """The nodes that are or may be the reason of wrong data: those with several such pairs, else both of a pair."""
        cleared = {
            node for each in self.wrong_pairs for node in each.nodes if len(self.confirmed_with(node)) >= PARTNERS
        }
        count = Counter(node for each in self.wrong_pairs for node in each.nodes if node not in cleared)
        found = set(self.wrong)
        for node, _ in count.most_common():
            left = [each for each in self.of[node] if each.wrong and found.isdisjoint(each.nodes)]
            if left:
                found.update([node] if len(left) > 1 else {*left[0].nodes} - cleared)
        return found - self.out.keys()

    # -- what is still to try, and who is named

    def confirmed_with(self, node: int) -> set[int]:
        """Return the partners that a suspect met to be confirmed."""
        own = [each for each in self.of.get(node, ()) if each.kind == "confirm" and each.tried]
        return {each.nodes[1] for each in own if each.nodes[0] == node}

    def lacks(self, node: int) -> tuple[int, list[list[int]]]:
        """Return with how many more proven nodes, and with which islands, a suspect has to meet before it is named."""
        met = self.confirmed_with(node)
        every = {other for each in self.of.get(node, ()) for other in each.nodes} & self.fabric_part
        proven = sum(self.between(node, each) for each in self.proven) if self.apart else len(self.proven)
        confirmed = len(met & self.fabric_part)
        if node in self.fabric_part or any(node in each for each in self.islands):
            return max(0, min(PARTNERS, proven) - confirmed), []
        partners = max(min(PARTNERS, proven) - confirmed, min(ALL_PARTNERS, proven) - len(every))
        return max(0, partners), [each for each in self.islands[:ISLANDS] if len(met.intersection(each)) < PARTNERS]

    @cached_property
    def slow(self) -> list[int]:
        """The nodes that are named: short, or out of reach, with every partner and with proven ones in own rounds."""
        if self.too_many or self.all_short or not self.proven:
            return []
        alone = set(self.suspects).difference(*self.islands)
        found = [each for each in sorted(alone) if self.lacks(each) == (0, [])]
        return found if len(found) <= max(1, MOST_NAMED * len(self.taking)) else []

    def between(self, first: int, second: int) -> bool:
        """Return True if a pair of the nodes measures the network that is judged: that between the NVLink domains."""
        one, other = (self.fabric.nodes[each].domain for each in (first, second))
        return not self.apart or not one or one != other

    @cached_property
    def apart(self) -> bool:
        """True if there are several NVLink domains: pairs inside of one are faster, and would hide what is slow."""
        return 0 < max(map(len, self.domains.values()), default=0) < len(self.taking)

    @cached_property
    def domains(self) -> dict[str, list[int]]:
        """The nodes of each NVLink domain of which several take part."""
        named = grouped(self.taking, lambda node: self.fabric.nodes[node].domain)
        return {name: nodes for name, nodes in named.items() if name and len(nodes) > 1}


def standing(fabric: Fabric) -> Standing:
    """Return what the rounds of a fabric run show."""
    meetings: list[Meeting] = []
    out: dict[int, tuple[Found, str]] = {
        place: ("left out", each.left_out) for place, each in enumerate(fabric.nodes) if each.left_out
    }
    for each in fabric.rounds:
        for result in each.results:
            outcomes = {report.outcome for report in result.reports}
            for node, report in zip(result.nodes, result.reports, strict=True):
                if report.outcome in OUT:
                    by_device = report.outcome == "not reached" and report.kind == "device"
                    out.setdefault(node, ("not reached" if by_device else "left out", report.text))
            if each.kind in SCORED and len(result.nodes) == 2:
                first, second = result.nodes
                tried = outcomes.isdisjoint(OUT)
                meetings.append(Meeting(each.kind, (first, second), result.value, "wrong" in outcomes, tried))
    return Standing(fabric, meetings, out)
