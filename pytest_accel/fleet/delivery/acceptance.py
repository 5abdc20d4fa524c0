"""The acceptance of a whole delivery: its records, and its packing list if there is one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.run import PackingListEntry
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.delivery.against import MOST_NAMED, Against, Difference, compare
from pytest_accel.fleet.delivery.limits import DecidingLimit, deciding
from pytest_accel.fleet.delivery.nodes import ACCEPTED, MISSING, OPEN, REJECTED, Board, Node, node_of
from pytest_accel.fleet.delivery.records import TERMS, Fault, NodeRecord, Records
from pytest_accel.run.record import packing_entry
from pytest_accel.skus.packing_list import NodeNames, PackingList, same

JUDGED_BY = ("SKU", "platform", "level", "threshold files")
"""Those of `TERMS` that decide what a node is accepted for. The others only explain its figures."""
RESULTS = (ACCEPTED, REJECTED, OPEN, MISSING)


@dataclass(frozen=True)
class Delivery:
    """Everything that the document of a delivery says."""

    name: str
    simulated: int
    """The number of its nodes that were simulated."""
    days: Sequence[str]
    """The days of the first and the last record."""
    nodes: Sequence[Node]
    of_nodes: Mapping[str, int]
    """The number of nodes by result."""
    of_devices: Mapping[str, int]
    terms: Mapping[str, Mapping[str, int]]
    """The values of each of the `TERMS`, the commonest first, with the number of nodes that have it."""
    packing_list: PackingListEntry
    """Empty without one."""
    differences: Sequence[Difference]
    """Boards that are twice, or not as the packing list has them."""
    limits: Sequence[DecidingLimit]
    rejections: Sequence[Fault]
    """What rejects boards and nodes; the faults of one board are together."""
    older: int
    """Records that a newer one of the same node replaces."""
    refused: Sequence[str]
    shared: Sequence[str]
    """Hosts of which several records with different devices count, each as a node of its own."""
    absent: Sequence[str]
    """Nodes that are on the packing list, or that a fleet's run was asked to examine, and that have no record."""
    waived: Mapping[str, Sequence[str]]
    """Each limit that waivers covered on accepted nodes, with the names of those."""
    overridden: Sequence[str]
    """Accepted nodes that were judged by limits other than those of the shipped threshold file."""
    rejected_before: Mapping[str, str]
    """Accepted nodes that were rejected before, with what is known of it."""

    @property
    def unalike(self) -> list[str]:
        """The terms of the judgement in which nodes differ: then they were not accepted for the same."""
        return [name for name in JUDGED_BY if len(self.terms[name]) > 1]

    @property
    def partly_simulated(self) -> bool:
        """True if simulated nodes are among real ones: nobody delivered them, so the delivery is not accepted."""
        return 0 < self.simulated < len(self.nodes)

    @property
    def exit(self) -> int:
        """The exit status: 1 if anything is rejected, 6 if anything is missing, or was not judged or not alike, else 0.

        A rehearsal, in which every node is simulated, ends as the delivery that it rehearses.
        """
        if self.of_nodes[REJECTED] or any(each.rejects for each in self.differences):
            return exits.REJECTED
        unclear = self.of_nodes[OPEN] or self.of_nodes[MISSING] or self.partly_simulated
        return exits.NOT_JUDGED if unclear or self.differences or self.unalike or self.refused else exits.HOLDS


def delivery(name: str, records: Records, boards: PackingList | None, *, expected: Sequence[str] = ()) -> Delivery:
    """Return what the records of a delivery show.

    `expected` are nodes that have to have a record, whether the packing list names them or not.
    """
    against = Against([node_of(each) for each in records.nodes], [], 0, [])
    if boards:
        against = compare(boards, records.nodes, against.nodes)
    nodes, names = against.nodes, NodeNames(expected)
    seen = [board for node in nodes for board in node.boards]
    here = {names.find(each) for each in [*(record.host for record in records.nodes), *against.absent_nodes]}
    absent = [*against.absent_nodes, *(each for each in dict.fromkeys(expected) if names.find(each) not in here)]
    days = sorted(each.started[:10] for each in nodes if each.started)
    return Delivery(
        name=name,
        simulated=sum(each.simulated for each in records.nodes),
        days=[*dict.fromkeys([*days[:1], *days[-1:]])],
        nodes=nodes,
        of_nodes=_results([each.result for each in nodes], len(absent)),
        of_devices=_results([each.result for each in seen], against.missing),
        terms={each: _values(each, records.nodes) for each in TERMS},
        packing_list=_packing_list(boards) if boards else {},
        differences=[*_twice(seen), *against.differences],
        limits=deciding(each for record in records.nodes for each in record.measured),
        rejections=[*_rejections(records.nodes)],
        older=records.older,
        refused=records.refused,
        shared=records.shared,
        absent=absent,
        waived=_waived(records.nodes),
        overridden=[each.node for each in records.nodes if each.accepted and each.overridden],
        rejected_before=dict(_rejected_before(records)),
    )


def _results(found: Sequence[str], missing: int) -> dict[str, int]:
    counts = Counter({MISSING: missing}) + Counter(found)
    return {result: counts[result] for result in RESULTS}


def _packing_list(boards: PackingList) -> PackingListEntry:
    """Return the packing list, which names the nodes only if every row does."""
    return {**packing_entry(boards), "names_nodes": all(each.node for each in boards.rows)}


def _rejections(records: Iterable[NodeRecord]) -> Iterator[Fault]:
    for record in records:
        for faults in grouped(record.faults, lambda each: each.uuid).values():
            yield from (replace(each, node=record.node) for each in faults)


def _waived(records: Sequence[NodeRecord]) -> dict[str, Sequence[str]]:
    found = [(metric, record.node) for record in records if record.accepted for metric in record.waived]
    return {metric: [node for _, node in some] for metric, some in grouped(found, lambda each: each[0]).items()}


def _rejected_before(records: Records) -> Iterator[tuple[str, str]]:
    """Yield every accepted node of which an older record here, or one that its run knew of, rejects something."""
    for record in records.nodes:
        if record.accepted and (record.rejected_before or record.host in records.rejected_before):
            yield record.node, ", ".join(record.rejected_before) or "by an older record in this folder"


def _values(term: str, records: Sequence[NodeRecord]) -> dict[str, int]:
    """Return the values of a term; empty if no record states it."""
    found = Counter(each.judged_on.get(term, "not stated") for each in records)
    return {} if list(found) == ["not stated"] else dict(found.most_common())


def _twice(boards: Iterable[Board]) -> list[Difference]:
    """Return the serial numbers that several boards have, and the UUIDs where their serial numbers do not say it."""
    by_serial = grouped((each for each in boards if each.serial), lambda each: same(each.serial))
    by_uuid = grouped((each for each in boards if each.uuid), lambda each: same(each.uuid))
    twice = [("serial number", number, some) for number, some in sorted(by_serial.items()) if len(some) > 1]
    twice += [
        ("UUID", uuid, some)
        for uuid, some in sorted(by_uuid.items())
        if len(some) > 1 and (not some[0].serial or len({same(each.serial) for each in some}) > 1)
    ]
    told = []
    for (what, nodes), several in grouped(twice, lambda each: (each[0], tuple(one.node for one in each[2]))).items():
        numbers = [number for _, number, _ in several]
        places = list(dict.fromkeys(nodes))
        where = f"Twice in {places[0]}" if len(places) == 1 else f"At once in {listed(places, MOST_NAMED)}"
        words = f"{where}: {counted(len(numbers), what)}: {listed(numbers, MOST_NAMED)}"
        told.append(Difference("twice", words, numbers))
    return told
