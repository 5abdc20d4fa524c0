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
    """The differences between the nodes."""
    absent: Sequence[str]
    """Nodes that are on the packing list, or that a fleet's run was asked to examine, and that have no record."""

    @property
    def nodes(self) -> Sequence[NodeRecord]:
        """The records that count, one of every node."""
        return self.records.nodes

    @property
    def simulated(self) -> int:
        """The number of its nodes that were simulated."""
        return sum(node.simulated for node in self.nodes)

    @cached_property
    def of_nodes(self) -> Mapping[str, int]:
        """The number of nodes by result."""
        return _results((node.outcome for node in self.nodes), len(self.absent))

    @cached_property
    def of_devices(self) -> Mapping[str, int]:
        """The number of devices by result."""
        return _results((board.result for board in self.boards), len(boards.unseen(self.boards, self.packing_list)))

    @cached_property
    def terms(self) -> Mapping[str, Mapping[str, int]]:
        """The values of each of the `TERMS`, the commonest first, with the number of nodes that have it."""
        values = {term: Counter(node.judged_on.get(term, "not stated") for node in self.nodes) for term in TERMS}
        return {
            term: {} if list(count) == ["not stated"] else dict(count.most_common()) for term, count in values.items()
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
        if self.of_nodes[REJECTED] or any(difference.rejects for difference in self.differences):
            return Result.REJECTED
        unalike = self.partly_simulated or self.differences or self.unalike
        unclear = self.of_nodes[OPEN] or self.of_nodes[MISSING] or unalike or self.records.refused
        return Result.NOT_JUDGED if unclear else Result.ACCEPTED


def delivery(name: str, records: Records, packing_list: PackingList | None, expected: Sequence[str] = ()) -> Delivery:
    """Return a delivery with its result, from its records.

    `expected` are nodes that have to have a record, whether the packing list names them or not.
    """
    unlike = alike.unlike(records.nodes)
    records = replace(records, nodes=[alike.against(node, unlike) for node in records.nodes])
    hosts = [node.host for node in records.nodes]
    all_boards = boards.boards_of(records.nodes, packing_list)
    differences, absent = boards.twice(all_boards), []
    if packing_list:
        differences += boards.against(packing_list, records.nodes, all_boards)
        absent = _absent([rows[0].node for rows in packing_list.by_node.values()], hosts)
    differences += [Difference(difference.words, rejects=True) for difference in unlike if difference.rejects]
    absent += _absent(expected, [*hosts, *absent])
    return Delivery(name, records, packing_list, all_boards, differences, unlike, absent)


def _absent(expected: Iterable[str], hosts: Iterable[str]) -> list[str]:
    """Return the expected nodes that none of the hosts is."""
    names = NodeNames(expected)
    present = {names.find(host) for host in hosts}
    return [name for name in dict.fromkeys(expected) if names.find(name) not in present]


def _results(results: Iterable[str], missing: int) -> dict[str, int]:
    counts = Counter({MISSING: missing}) + Counter(results)
    return {result: counts[result] for result in (ACCEPTED, REJECTED, OPEN, MISSING)}
