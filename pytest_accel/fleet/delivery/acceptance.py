"""The acceptance of a whole delivery: its records, and its packing list if there is one. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.fleet.delivery.against import Against, compare
from pytest_accel.fleet.delivery.distribution import Distribution, Figure, distribution
from pytest_accel.fleet.delivery.nodes import ACCEPTED, MISSING, OPEN, REJECTED, Board, Node, node_of
from pytest_accel.fleet.delivery.records import TERMS, Fault, NodeRecord, Records
from pytest_accel.skus.packing_list import NodeNames, PackingList, same

JUDGED_BY = ("contract", "SKU", "platform", "level", "threshold files")
"""Those of `TERMS` that decide what a node is accepted for. The others only explain its figures."""


@dataclass(frozen=True)
class Term:
    """One of `TERMS`, with every value that nodes have and the number of nodes, the commonest first."""

    name: str
    values: Sequence[tuple[str, int]]
    absent: int
    """The number of nodes whose record does not state it."""


@dataclass(frozen=True)
class Delivery:
    """Everything that the document of a delivery says."""

    name: str
    simulated: int
    """The number of its nodes that were simulated."""
    first: str
    last: str
    """The days of the first and the last record."""
    nodes: Sequence[Node]
    of_nodes: Mapping[str, int]
    """The number of nodes by result."""
    of_devices: Mapping[str, int]
    terms: Sequence[Term]
    duplicates: Sequence[tuple[str, str, Sequence[Board]]]
    """Each serial number or UUID that several boards have: its kind ("serial" or "UUID"), its value, and the boards."""
    against: Against | None
    metrics: Sequence[Distribution]
    rejections: Sequence[Fault]
    """What rejects boards and nodes; the faults of one board are together."""
    older: int
    """Records that a newer one of the same node replaces."""
    refused: Sequence[str] = ()
    shared: Sequence[str] = field(default=())
    """Hosts of which several records with different devices count, each as a node of its own."""
    without_record: Sequence[str] = field(default=())
    """Nodes that a fleet's run was asked to examine, and that have no record."""
    waived: Sequence[tuple[str, Sequence[str]]] = field(default=())
    """Each limit that waivers covered on accepted nodes, with the names of those."""
    overridden: Sequence[str] = field(default=())
    """Accepted nodes that were judged by limits other than those of the shipped threshold file."""
    rejected_before: Sequence[tuple[str, str]] = field(default=())
    """Accepted nodes that were rejected before, with what is known of it."""

    @property
    def mixed(self) -> list[Term]:
        """The terms that are not the same on all nodes."""
        return [each for each in self.terms if len(each.values) > 1 or (each.values and each.absent)]

    @property
    def unalike(self) -> list[str]:
        """The terms of the judgement in which nodes differ: then they were not accepted for the same."""
        return [each.name for each in self.mixed if each.name in JUDGED_BY]

    @property
    def partly_simulated(self) -> bool:
        """True if simulated nodes are among real ones: nobody delivered them, so the delivery is not accepted."""
        return 0 < self.simulated < len(self.nodes)

    @property
    def exit(self) -> int:
        """The exit status: 1 if anything is rejected, 6 if anything is missing, or was not judged or not alike, else 0.

        A rehearsal, in which every node is simulated, ends as the delivery that it rehearses.
        """
        if self.of_nodes[REJECTED] or (self.against and self.against.rejects):
            return exits.REJECTED
        unclear = self.of_nodes[OPEN] or self.of_nodes[MISSING] or self.of_devices[MISSING] or self.partly_simulated
        vague = self.against is not None and self.against.vague
        return exits.NOT_JUDGED if unclear or vague or self.unalike or self.duplicates or self.refused else exits.HOLDS


def delivery(
    name: str,
    records: Records,
    boards: PackingList | None,
    *,
    expected: Sequence[str] = (),
) -> Delivery:
    """Return what the records of a delivery show.

    `expected` are nodes that have to have a record, whether the packing list names them or not.
    """
    nodes = [node_of(each) for each in records.nodes]
    against, nodes = compare(boards, records.nodes, nodes) if boards else (None, nodes)
    seen = [board for node in nodes for board in node.boards]
    hosts = [each.host for each in records.nodes]
    days = sorted(each.started[:10] for each in nodes if each.started)
    found = Counter(each.result for each in nodes)
    names = NodeNames(expected)
    here = {names.find(each) for each in hosts}
    if against:
        here |= {names.find(each) for each in against.absent_nodes}
    without_record = [name for name in dict.fromkeys(expected) if names.find(name) not in here]
    found[MISSING] += (len(against.absent_nodes) if against else 0) + len(without_record)
    devices = Counter(each.result for each in seen)
    devices[MISSING] += len(against.unseen) if against else 0
    return Delivery(
        name=name,
        simulated=sum(each.simulated for each in records.nodes),
        first=days[0] if days else "",
        last=days[-1] if days else "",
        nodes=nodes,
        of_nodes={result: found[result] for result in (ACCEPTED, REJECTED, OPEN, MISSING)},
        of_devices={result: devices[result] for result in (ACCEPTED, REJECTED, OPEN, MISSING)},
        terms=[_term(each, records.nodes) for each in TERMS],
        duplicates=[*_twice("serial", seen), *_twice("UUID", seen)],
        against=against,
        metrics=_metrics(records.nodes),
        rejections=[
            replace(fault, node=node.node)
            for node in records.nodes
            for some in grouped(node.faults, lambda each: each.uuid).values()
            for fault in some
        ],
        older=records.older,
        shared=records.shared,
        refused=records.refused,
        without_record=without_record,
        waived=_waived(records.nodes),
        overridden=[each.node for each in records.nodes if each.accepted and each.overridden],
        rejected_before=list(_rejected_before(records)),
    )


def _waived(records: Sequence[NodeRecord]) -> list[tuple[str, Sequence[str]]]:
    found: dict[str, list[str]] = {}
    for record in records:
        for metric in record.waived if record.accepted else ():
            found.setdefault(metric, []).append(record.node)
    return list(found.items())


def _rejected_before(records: Records) -> Iterator[tuple[str, str]]:
    """Yield every accepted node of which an older record here, or one that its run knew of, rejects something."""
    for record in records.nodes:
        if record.accepted and (record.rejected_before or record.host in records.rejected_before):
            yield record.node, ", ".join(record.rejected_before) or "by an older record in this folder"


def _term(name: str, records: Sequence[NodeRecord]) -> Term:
    values = Counter(each.judged_on[name] for each in records if name in each.judged_on)
    return Term(name, values.most_common(), len(records) - values.total())


def _twice(what: str, boards: Iterable[Board]) -> Iterator[tuple[str, str, list[Board]]]:
    """Yield every serial number, or UUID, that several boards have."""
    found: dict[str, list[Board]] = defaultdict(list)
    for each in boards:
        value = each.serial if what == "serial" else each.uuid
        if value:
            found[same(value)].append(each)
    yield from ((what, value, several) for value, several in sorted(found.items()) if len(several) > 1)


def _metrics(records: Sequence[NodeRecord]) -> list[Distribution]:
    """Return the distribution of every metric of the delivery, in the order of the records."""
    found: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for record in records:
        for each in record.measured:
            found[each.metric, each.unit].append(each)
    return [distribution(*metric, figures) for metric, figures in found.items()]
