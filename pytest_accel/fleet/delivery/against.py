"""The boards of a delivery against its packing list. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_accel.core.groups import grouped
from pytest_accel.fleet.delivery.nodes import ACCEPTED, OPEN, REJECTED, Board, Node
from pytest_accel.fleet.delivery.records import NodeRecord
from pytest_accel.judging.facts.delivery import UNKNOWN, ListState, differences, standing
from pytest_accel.skus.packing_list import Listed, NodeNames, PackingList, same

RESULTS = {
    ListState.NOT_LISTED: REJECTED,
    ListState.ELSEWHERE: REJECTED,
    ListState.DIFFERENT: REJECTED,
    **dict.fromkeys(UNKNOWN, OPEN),
}
"""The results of boards that their runs accepted, and that are not as listed."""


@dataclass(frozen=True)
class Misplaced:
    """A board that was seen in another node than it is listed for."""

    serial: str
    listed: str
    seen: str
    place: str
    line: int


@dataclass(frozen=True)
class Against:
    """The delivery against its packing list."""

    file: str
    sha256: str
    boards: int
    names_nodes: bool
    """True if every row names the node that its board belongs in."""
    swapped: Sequence[tuple[Misplaced, Misplaced]]
    """Two boards, each in the node that the other is listed for."""
    moved: Sequence[Misplaced]
    """The other boards in a wrong node."""
    unseen: Sequence[Listed]
    unlisted: Sequence[Board]
    but_for_zeros: Sequence[tuple[Board, Listed]]
    """Boards that the list has but for leading zeros, which a spreadsheet drops."""
    differing: Sequence[tuple[Board, str]]
    """Boards whose UUID, model or slot is not as listed, with the difference."""
    unknown: Sequence[tuple[Board, str]]
    """Boards of which nothing is known, with the reason: no serial number, or a node that the list does not have."""
    absent_nodes: Sequence[str]
    several: Sequence[tuple[str, Sequence[str]]]
    """Each node of the list that more than one node with a record may be, with the names of those."""

    @property
    def vague(self) -> bool:
        """True if the list cannot be compared with everything that was seen."""
        return bool(self.but_for_zeros or self.unknown or self.several)

    @property
    def rejects(self) -> bool:
        """True if a board is not what, or where, the list says."""
        return bool(self.swapped or self.moved or self.unlisted or self.differing)


def compare(boards: PackingList, records: Sequence[NodeRecord], nodes: Sequence[Node]) -> tuple[Against, list[Node]]:
    """Return how the boards that were seen stand to the list: as `standing` tells it in the runs of the nodes.

    Of the nodes that are returned only those boards are accepted that the list has there, as they are.
    """
    misplaced, unlisted, zeros, differing, unknown = [], [], [], [], []
    found: set[str] = set()
    compared = []
    for record, node in zip(records, nodes, strict=True):
        here = []
        for seen, device in zip(node.boards, record.devices, strict=True):
            stands, board = standing(boards, device, record.host), seen
            if seen.result == ACCEPTED:
                board = replace(seen, result=RESULTS.get(stands.state, ACCEPTED))
            here.append(board)
            if stands.row:
                found.add(same(stands.row.serial))
            if stands.state is ListState.NOT_LISTED:
                unlisted.append(board)
            elif stands.state is ListState.BUT_FOR_ZEROS and stands.row:
                zeros.append((board, stands.row))
            elif stands.state is ListState.ELSEWHERE and stands.row:
                row = stands.row
                misplaced.append(Misplaced(board.serial, row.node, record.host, board.place, row.line))
            elif stands.state is ListState.DIFFERENT and stands.row:
                differing.append((board, "; ".join(differences(stands.row, device))))
            elif stands.state in UNKNOWN:
                unknown.append((board, stands.words))
        compared.append(replace(node, boards=here))
    swapped, moved = _pairs(misplaced, boards.nodes)
    by_name = grouped(records, lambda each: boards.nodes.find(each.host))
    against = Against(
        file=boards.file,
        sha256=boards.sha256,
        boards=len(boards.rows),
        names_nodes=all(each.node for each in boards.rows),
        swapped=swapped,
        moved=moved,
        unseen=[each for each in boards.rows if same(each.serial) not in found],
        unlisted=unlisted,
        but_for_zeros=zeros,
        differing=differing,
        unknown=unknown,
        absent_nodes=[rows[0].node for name, rows in boards.by_node.items() if name not in by_name],
        several=[(name, [each.node for each in meant]) for name, meant in by_name.items() if name and len(meant) > 1],
    )
    return against, compared


def _pairs(
    misplaced: Sequence[Misplaced], nodes: NodeNames
) -> tuple[list[tuple[Misplaced, Misplaced]], list[Misplaced]]:
    """Return the pairs of boards that are each in the node of the other, and the boards that are in no such pair."""
    pairs: list[tuple[Misplaced, Misplaced]] = []
    left: dict[tuple[str, str], list[Misplaced]] = defaultdict(list)
    for each in misplaced:
        listed, seen = nodes.find(each.listed), nodes.find(each.seen)
        if partners := left[seen, listed]:
            pairs.append((partners.pop(0), each))
        else:
            left[listed, seen].append(each)
    return pairs, [each for several in left.values() for each in several]
