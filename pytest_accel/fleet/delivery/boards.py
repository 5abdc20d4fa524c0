"""The boards of a delivery: each by itself, those that are there twice, and all against the packing list. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.delivery.records import ACCEPTED, OPEN, REJECTED, NodeRecord, location_of
from pytest_accel.judging.facts.packing import UNKNOWN, Listing, ListState, standing
from pytest_accel.skus.packing_list import ListedBoard, PackingList, same

MOST_NAMED = 16
"""Boards that one sentence names; the JSON has all of them."""
AS_THEY_SHOULD_BE = (ListState.AS_LISTED, ListState.NOT_APPLICABLE)
NO_LIST: Final = Listing(ListState.NOT_APPLICABLE, "there is no packing list")


class Difference(NamedTuple):
    """A sentence on boards that are not as they should be. It rejects unless nothing is known of them."""

    words: str
    rejects: bool = False


class Board(NamedTuple):
    """A device of the delivery, where it was seen, and how it stands to the packing list."""

    node: NodeRecord
    device: Device
    stands: Listing = NO_LIST

    @property
    def serial(self) -> str:
        """The serial number as the list may have it; empty if it is not known."""
        return self.device.serial or ""

    @property
    def uuid(self) -> str:
        """The UUID of the device."""
        return self.device.uuid

    @property
    def location(self) -> str:
        """The location in its node."""
        return location_of(self.device)

    @property
    def name(self) -> str:
        """The serial number, or the location of a board whose number is not known."""
        return self.serial or self.location

    @property
    def elsewhere(self) -> str:
        """The node that it is listed for, if that is another one than it is in."""
        return self.stands.row.node if self.stands.row and self.stands.state is ListState.ELSEWHERE else ""

    @property
    def wrong(self) -> bool:
        """True if it is not as listed."""
        return self.stands.state not in AS_THEY_SHOULD_BE

    @property
    def rejects(self) -> bool:
        """False if nothing is known of it: then the list, or what can be read, has to become better."""
        return self.wrong and self.stands.state not in UNKNOWN

    @property
    def result(self) -> str:
        """The result of its node, unless that is rejected for another board, or this one is not as listed."""
        result = self.node.outcome
        if result == ACCEPTED and self.wrong:
            return REJECTED if self.rejects else OPEN
        faulty = any(rejection.uuid == self.uuid for rejection in self.node.rejections)
        return OPEN if result == REJECTED and not faulty else result


def boards_of(nodes: Iterable[NodeRecord], packing_list: PackingList | None) -> list[Board]:
    """Return the boards of the nodes; how they stand to the list is what `standing` tells in the runs of the nodes."""
    boards = [Board(node, device) for node in nodes for device in node.devices]
    if packing_list is None:
        return boards
    return [board._replace(stands=standing(packing_list, board.device, board.node.host)) for board in boards]


def unseen(boards: Iterable[Board], packing_list: PackingList | None) -> list[ListedBoard]:
    """Return the rows of the list whose boards were seen in no node."""
    serials = {same(board.stands.row.serial) for board in boards if board.stands.row}
    return [row for row in packing_list.rows if same(row.serial) not in serials] if packing_list else []


def twice(boards: Sequence[Board]) -> list[Difference]:
    """Return the serial numbers that several boards have, and the UUIDs where their serial numbers do not say it."""
    by_board = grouped(boards, lambda board: (same(board.uuid), same(board.serial) or id(board)))
    by_uuid = _shared("UUID", [group[0] for group in by_board.values()], lambda board: board.uuid)
    return [*_shared("serial number", boards, lambda board: board.serial), *by_uuid]


def _shared(noun: str, boards: Iterable[Board], key: Callable[[Board], str]) -> Iterator[Difference]:
    """Yield the numbers that several boards have, those in the same nodes together."""
    rows = sorted(grouped((board for board in boards if key(board)), lambda board: same(key(board))).items())
    nodes = {value: tuple(dict.fromkeys(board.node.name for board in group)) for value, group in rows if len(group) > 1}
    for names, numbers in grouped(nodes, nodes.__getitem__).items():
        heading = f"Twice in {names[0]}" if len(names) == 1 else f"At once in {listed(names, MOST_NAMED)}"
        yield Difference(f"{heading}: {counted(len(numbers), noun)}: {listed(numbers, MOST_NAMED)}")


def against(packing_list: PackingList, nodes: Iterable[NodeRecord], boards: Sequence[Board]) -> Iterator[Difference]:
    """Yield how the boards differ from the list: pairs that were swapped, others by node, and what was not seen."""
    odd_boards = [board for board in boards if board.wrong]
    find = packing_list.nodes.find
    moved = grouped(
        (board for board in odd_boards if board.elsewhere), lambda board: (find(board.elsewhere), find(board.node.host))
    )
    remaining = []
    while moved:
        expected, actual = next(iter(moved))
        group, counterparts = moved.pop((expected, actual)), moved.pop((actual, expected), [])
        # Boards that are listed for the node of each other were swapped.
        for pair in zip(group, counterparts, strict=False):
            yield Difference(f"Swapped: {'; '.join(map(_elsewhere, pair))}", rejects=True)
        remaining += [*group[len(counterparts) :], *counterparts[len(group) :]]
    remaining += [board for board in odd_boards if not board.elsewhere]
    for group in grouped(remaining, lambda board: (board.node.name, board.stands.state, board.elsewhere)).values():
        yield Difference(_sentence(group), group[0].rejects)
    for name, matches in grouped(nodes, lambda node: find(node.host)).items():
        if name and len(matches) > 1:
            yield Difference(f"{name} on the packing list may be any of: {', '.join(match.name for match in matches)}")
    for node, rows in grouped(unseen(boards, packing_list), lambda row: row.node).items():
        heading = f"Listed for {node}, and seen in no node" if node else "Listed, and seen in no node"
        yield Difference(_several(heading, [row.serial for row in rows]))


def _elsewhere(board: Board) -> str:
    return f"{board.name} is in {board.node.name}, {board.location}, and listed for {board.elsewhere}"


def _sentence(boards: Sequence[Board]) -> str:
    """Return a sentence on boards of one node in one state, with the words of the first one."""
    first, names = boards[0], [board.name for board in boards]
    if first.elsewhere:
        return _several(f"In {first.node.name}, but listed for {first.elsewhere}", names)
    text = _several(f"In {first.node.name}, {first.stands.state.value}", names)
    return f"{text}. {first.location}: {first.stands.words}"


def _several(heading: str, boards: Sequence[str]) -> str:
    return f"{heading}: {counted(len(boards), 'board')}: {listed(boards, MOST_NAMED)}"
