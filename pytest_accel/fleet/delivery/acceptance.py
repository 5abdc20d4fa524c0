"""The acceptance of a whole delivery: its records, and its packing list if there is one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pytest_accel.core.verdict import Result
from pytest_accel.fleet.delivery import alike, boards
from pytest_accel.fleet.delivery.alike import Unlike
from pytest_accel.fleet.delivery.boards import Board, Difference
from pytest_accel.fleet.delivery.records import ACCEPTED, MISSING, OPEN, REJECTED, TERMS, NodeRecord, Records
from pytest_accel.skus.packing_list import NodeNames, PackingList

JUDGED_BY = ("SKU", "platform", "level", "threshold files")
"""Those of `TERMS` that decide what a node is accepted for. The others only explain its figures."""


@dataclass(frozen=True)
class Delivery:
    """A delivery with its result."""

    name: str
    records: Records
    packing_list: PackingList | None
    boards: Sequence[Board]
    differences: Sequence[Difference]
    """Boards that are twice, or not as the packing list has them; nodes that are unlike the others and rejected."""
    unlike: Sequence[Unlike]
    """In what the nodes differ from each other."""
    absent: Sequence[str]
    """Nodes that are on the packing list, or that a fleet's run was asked to examine, and that have no record."""

    @property
    def nodes(self) -> Sequence[NodeRecord]:
        """The records that count, one of every node."""
        return self.records.nodes

    @property
    def simulated(self) -> int:
        """The number of its nodes that were simulated."""
        return sum(each.simulated for each in self.nodes)

    @cached_property
    def of_nodes(self) -> Mapping[str, int]:
        """The number of nodes by result."""
        return _results((each.outcome for each in self.nodes), len(self.absent))

    @cached_property
    def of_devices(self) -> Mapping[str, int]:
        """The number of devices by result."""
        return _results((each.result for each in self.boards), len(boards.unseen(self.boards, self.packing_list)))

    @cached_property
    def terms(self) -> Mapping[str, Mapping[str, int]]:
        """The values of each of the `TERMS`, the commonest first, with the number of nodes that have it."""
        values = {term: Counter(each.judged_on.get(term, "not stated") for each in self.nodes) for term in TERMS}
        return {
            term: {} if list(found) == ["not stated"] else dict(found.most_common()) for term, found in values.items()
        }

    @property
    def unalike(self) -> list[str]:
        """The terms of the judgement in which nodes differ: then they were not accepted for the same."""
        return [name for name in JUDGED_BY if len(self.terms[name]) > 1]

    @property
    def partly_simulated(self) -> bool:
        """True if simulated nodes are among real ones: nobody delivered them, so the delivery is not accepted."""
        return 0 < self.simulated < len(self.nodes)

    @property
    def result(self) -> Result:
        """The result; NOT JUDGED if anything is missing, or was not judged or not alike.

        A rehearsal, in which every node is simulated, ends as the delivery that it rehearses.
        """
        if self.of_nodes[REJECTED] or any(each.rejects for each in self.differences):
            return Result.REJECTED
        unalike = self.partly_simulated or self.differences or self.unalike
        unclear = self.of_nodes[OPEN] or self.of_nodes[MISSING] or unalike or self.records.refused
        return Result.NOT_JUDGED if unclear else Result.ACCEPTED


def delivery(name: str, records: Records, packing_list: PackingList | None, expected: Sequence[str] = ()) -> Delivery:
    """Return what the records of a delivery show.

    `expected` are nodes that have to have a record, whether the packing list names them or not.
    """
    unlike = alike.unlike(records.nodes)
    records = replace(records, nodes=[alike.against(each, unlike) for each in records.nodes])
    hosts = [each.host for each in records.nodes]
    seen = boards.boards_of(records.nodes, packing_list)
    differences, absent = boards.twice(seen), []
    if packing_list:
        differences += boards.against(packing_list, records.nodes, seen)
        absent = _absent([rows[0].node for rows in packing_list.by_node.values()], hosts)
    differences += [Difference(each.words, rejects=True) for each in unlike if each.rejects]
    absent += _absent(expected, [*hosts, *absent])
    return Delivery(name, records, packing_list, seen, differences, unlike, absent)


def _absent(expected: Iterable[str], hosts: Iterable[str]) -> list[str]:
    """Return those of the expected nodes that none of the hosts is."""
    names = NodeNames(expected)
    here = {names.find(each) for each in hosts}
    return [each for each in dict.fromkeys(expected) if names.find(each) not in here]


def _results(found: Iterable[str], missing: int) -> dict[str, int]:
    counts = Counter({MISSING: missing}) + Counter(found)
    return {result: counts[result] for result in (ACCEPTED, REJECTED, OPEN, MISSING)}
