"""The boards of a delivery: each by itself, those that are there twice, and all against the packing list. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.delivery.records import ACCEPTED, OPEN, REJECTED, NodeRecord, place_of
from pytest_accel.judging.facts.delivery import UNKNOWN, ListState, OnList, standing
from pytest_accel.skus.packing_list import Listed, PackingList, same

MOST_NAMED = 16
"""Boards that one sentence names; the JSON has all of them."""
AS_THEY_SHOULD_BE = (ListState.AS_LISTED, ListState.NOT_APPLICABLE)
NO_LIST: Final = OnList(ListState.NOT_APPLICABLE, "there is no packing list")


class Difference(NamedTuple):
    """A sentence on boards that are not as they should be. It rejects unless nothing is known of them."""

    words: str
    rejects: bool = False


class Board(NamedTuple):
    """A device of the delivery, where it was seen, and how it stands to the packing list."""

    node: NodeRecord
    device: Device
    stands: OnList = NO_LIST

    @property
    def serial(self) -> str:
        """The serial number as the list may have it; empty if it is not known."""
        return self.device.serial or ""

    @property
    def uuid(self) -> str:
        """The UUID of the device."""
        return self.device.uuid

    @property
    def place(self) -> str:
        """The place in its node."""
        return place_of(self.device)

    @property
    def name(self) -> str:
        """The serial number, or the place of a board whose number is not known."""
        return self.serial or self.place

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
        faulty = any(each.uuid == self.uuid for each in self.node.rejections)
        return OPEN if result == REJECTED and not faulty else result


def boards_of(nodes: Iterable[NodeRecord], packing_list: PackingList | None) -> list[Board]:
    """Return the boards of the nodes; how they stand to the list is what `standing` tells in the runs of the nodes."""
    seen = [Board(node, device) for node in nodes for device in node.devices]
    if packing_list is None:
        return seen
    return [each._replace(stands=standing(packing_list, each.device, each.node.host)) for each in seen]


def unseen(boards: Iterable[Board], packing_list: PackingList | None) -> list[Listed]:
    """Return the rows of the list whose boards were seen in no node."""
    found = {same(each.stands.row.serial) for each in boards if each.stands.row}
    return [each for each in packing_list.rows if same(each.serial) not in found] if packing_list else []


def twice(boards: Sequence[Board]) -> list[Difference]:
    """Return the serial numbers that several boards have, and the UUIDs where their serial numbers do not say it."""
    unlike = grouped(boards, lambda each: (same(each.uuid), same(each.serial) or id(each)))
    by_uuid = _shared("UUID", [some[0] for some in unlike.values()], lambda each: each.uuid)
    return [*_shared("serial number", boards, lambda each: each.serial), *by_uuid]


def _shared(what: str, boards: Iterable[Board], number: Callable[[Board], str]) -> Iterator[Difference]:
    """Yield the numbers that several boards have, those in the same nodes together."""
    by_number = sorted(grouped((each for each in boards if number(each)), lambda each: same(number(each))).items())
    nodes = {each: tuple(dict.fromkeys(one.node.name for one in some)) for each, some in by_number if len(some) > 1}
    for places, numbers in grouped(nodes, lambda each: nodes[each]).items():
        where = f"Twice in {places[0]}" if len(places) == 1 else f"At once in {listed(places, MOST_NAMED)}"
        yield Difference(f"{where}: {counted(len(numbers), what)}: {listed(numbers, MOST_NAMED)}")


def against(packing_list: PackingList, nodes: Iterable[NodeRecord], boards: Sequence[Board]) -> Iterator[Difference]:
    """Yield how the boards differ from the list: pairs that were swapped, others by node, and what was not seen."""
    wrong = [each for each in boards if each.wrong]
    find = packing_list.nodes.find
    moved = grouped(
        (each for each in wrong if each.elsewhere), lambda each: (find(each.elsewhere), find(each.node.host))
    )
    left = []
    while moved:
        own, here = next(iter(moved))
        some, others = moved.pop((own, here)), moved.pop((here, own), [])
        for pair in zip(some, others, strict=False):
            yield Difference(f"Swapped: {'; '.join(map(_elsewhere, pair))}", rejects=True)
        left += [*some[len(others) :], *others[len(some) :]]
    left += [each for each in wrong if not each.elsewhere]
    for alike in grouped(left, lambda each: (each.node.name, each.stands.state, each.elsewhere)).values():
        yield Difference(_alike(alike), alike[0].rejects)
    for name, meant in grouped(nodes, lambda each: find(each.host)).items():
        if name and len(meant) > 1:
            yield Difference(f"{name} on the packing list may be any of: {', '.join(each.name for each in meant)}")
    for node, rows in grouped(unseen(boards, packing_list), lambda each: each.node).items():
        where = f"Listed for {node}, and seen in no node" if node else "Listed, and seen in no node"
        yield Difference(_several(where, [each.serial for each in rows]))


def _elsewhere(board: Board) -> str:
    return f"{board.name} is in {board.node.name}, {board.place}, and listed for {board.elsewhere}"


def _alike(boards: Sequence[Board]) -> str:
    """Return a sentence on boards of one node in one state, with the words of the first one."""
    first, names = boards[0], [each.name for each in boards]
    if first.elsewhere:
        return _several(f"In {first.node.name}, but listed for {first.elsewhere}", names)
    told = _several(f"In {first.node.name}, {first.stands.state.value}", names)
    return f"{told}. {first.place}: {first.stands.words}"


def _several(where: str, boards: Sequence[str]) -> str:
    return f"{where}: {counted(len(boards), 'board')}: {listed(boards, MOST_NAMED)}"
