"""The boards of a delivery against its packing list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_accel.core.groups import grouped
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.delivery.nodes import ACCEPTED, OPEN, REJECTED, Board, Node
from pytest_accel.fleet.delivery.records import NodeRecord
from pytest_accel.judging.facts.delivery import UNKNOWN, ListState, OnList, standing
from pytest_accel.skus.packing_list import Listed, NodeNames, PackingList, same

MOST_NAMED = 16
"""Boards that one sentence names; the JSON has all of them."""
AS_THEY_SHOULD_BE = (ListState.AS_LISTED, ListState.NOT_APPLICABLE)
SWAPPED, MISSING, UNSURE_NODE = "swapped", "missing", "unsure node"
"""Kinds of differences besides the states of single boards."""


@dataclass(frozen=True)
class Difference:
    """Boards that are not what, or where, they should be, or of which that is not known."""

    kind: str
    words: str
    boards: Sequence[str] = ()
    """Their serial numbers; the place of a board whose number is not known."""
    rejects: bool = False


class Against(NamedTuple):
    """How a delivery stands to its packing list."""

    nodes: Sequence[Node]
    """The nodes, of which only those boards are accepted that the list has there, as they are."""
    differences: Sequence[Difference]
    missing: int
    """The number of boards that were seen in no node."""
    absent_nodes: Sequence[str]


class Seen(NamedTuple):
    """A board that is not as listed."""

    board: Board
    host: str
    stands: OnList

    @property
    def rejects(self) -> bool:
        """False if nothing is known of the board: then the list, or what can be read, has to become better."""
        return self.stands.state not in UNKNOWN

    @property
    def name(self) -> str:
        """The serial number, or the place of a board whose number is not known."""
        return self.board.serial or self.board.place

    @property
    def listed_for(self) -> str:
        """The node that it is listed for."""
        return self.stands.row.node if self.stands.row else ""


def compare(boards: PackingList, records: Sequence[NodeRecord], nodes: Sequence[Node]) -> Against:
    """Return how the boards that were seen stand to the list: as `standing` tells it in the runs of the nodes."""
    wrong: list[Seen] = []
    found: set[str] = set()
    compared = []
    for record, node in zip(records, nodes, strict=True):
        here = []
        for board, device in zip(node.boards, record.devices, strict=True):
            seen = Seen(board, record.host, standing(boards, device, record.host))
            if seen.stands.row:
                found.add(same(seen.stands.row.serial))
            is_wrong = seen.stands.state not in AS_THEY_SHOULD_BE
            wrong += [seen] if is_wrong else []
            result = REJECTED if seen.rejects else OPEN
            here.append(replace(board, result=result) if is_wrong and board.result == ACCEPTED else board)
        compared.append(replace(node, boards=here))
    by_name = grouped(records, lambda each: boards.nodes.find(each.host))
    absent = [rows[0].node for name, rows in boards.by_node.items() if name not in by_name]
    unseen = [each for each in boards.rows if same(each.serial) not in found]
    told = [*_misplaced(wrong, boards.nodes), *_single(wrong), *_unsure(by_name), *_missing(unseen)]
    return Against(compared, told, len(unseen), absent)


def several(where: str, boards: Sequence[str]) -> str:
    """Return a sentence on boards of one place."""
    return f"{where}: {counted(len(boards), 'board')}: {listed(boards, MOST_NAMED)}"


def _misplaced(wrong: Iterable[Seen], nodes: NodeNames) -> list[Difference]:
    """Return the pairs of boards that are each in the node of the other, and the other boards in a wrong node."""
    pairs: list[tuple[Seen, Seen]] = []
    left: dict[tuple[str, str], list[Seen]] = {}
    for each in (each for each in wrong if each.stands.state is ListState.ELSEWHERE):
        own, here = nodes.find(each.listed_for), nodes.find(each.host)
        if partners := left.get((here, own)):
            pairs.append((partners.pop(0), each))
        else:
            left.setdefault((own, here), []).append(each)
    told = [
        Difference(SWAPPED, f"Swapped: {'; '.join(map(_elsewhere, pair))}", [each.name for each in pair], rejects=True)
        for pair in pairs
    ]
    moved = [each for some in left.values() for each in some]
    for (host, own), some in grouped(moved, lambda each: (each.host, each.listed_for)).items():
        names = [each.name for each in some]
        words = several(f"In {host}, but listed for {own}", names)
        told.append(Difference(ListState.ELSEWHERE.value, words, names, rejects=True))
    return told


def _elsewhere(seen: Seen) -> str:
    return f"{seen.name} is in {seen.host}, {seen.board.place}, and listed for {seen.listed_for}"


def _single(wrong: Iterable[Seen]) -> list[Difference]:
    """Return a difference for the boards of one node in one other state, with the words of the first board."""
    told = []
    for (node, state), some in grouped(wrong, lambda each: (each.board.node, each.stands.state)).items():
        if state is not ListState.ELSEWHERE:
            names = [each.name for each in some]
            why = f"{some[0].board.place}: {some[0].stands.words}"
            words = f"{several(f'In {node}, {state.value}', names)}. {why}"
            told.append(Difference(state.value, words, names, rejects=some[0].rejects))
    return told


def _unsure(by_name: Mapping[str, Sequence[NodeRecord]]) -> list[Difference]:
    """Return the nodes of the list that more than one node with a record may be."""
    return [
        Difference(UNSURE_NODE, f"{name} on the packing list may be any of: {', '.join(each.node for each in meant)}")
        for name, meant in by_name.items()
        if name and len(meant) > 1
    ]


def _missing(boards: Iterable[Listed]) -> list[Difference]:
    """Return the boards that are listed, and were seen in no node."""
    told = []
    for node, rows in grouped(boards, lambda each: each.node).items():
        names = [each.serial for each in rows]
        words = several(f"Listed for {node}, and seen in no node" if node else "Listed, and seen in no node", names)
        told.append(Difference(MISSING, words, names))
    return told
