"""The acceptance of a whole delivery: its records, and its packing list if there is one. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.sku import Limit, Spread
from pytest_accel.fleet.delivery.records import TERMS, Fault, NodeRecord, Records, place_of
from pytest_accel.fleet.delivery.risk import Distribution, distribution
from pytest_accel.judging.closing import NOT_JUDGED
from pytest_accel.judging.delivery import UNKNOWN, State, differences, standing
from pytest_accel.skus.packing_list import Listed, NodeNames, PackingList, same

ACCEPTED, REJECTED, OPEN, MISSING = "accepted", "rejected", "not judged", "missing"
"""The results of a node and of a device."""
JUDGED_BY = ("contract", "SKU", "platform", "level", "threshold files")
"""Those of `TERMS` that decide what a node is accepted for. The others only explain its figures."""


@dataclass(frozen=True)
class Board:
    """A device of the delivery, where it was seen."""

    node: str
    place: str
    serial: str
    uuid: str
    model: str
    result: str


@dataclass(frozen=True)
class Node:
    """A node of the delivery with its result."""

    name: str
    result: str
    line: str
    started: str
    boards: Sequence[Board]
    marginal: int
    """The number of its devices with a MARGINAL verdict."""
    record: str
    sha256: str
    changed: bool | None


@dataclass(frozen=True)
class Rejection:
    """A finding that rejects a board, or a node as a whole (`place` is "node")."""

    node: str
    place: str
    serial: str
    fault: Fault


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
    rejections: Sequence[Rejection]
    older: int
    """Records that a newer one of the same node replaces."""
    refused: Sequence[tuple[str, str]] = field(default=())
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
    def verified(self) -> bool:
        """True if the hash of every record was checked."""
        return all(each.changed is not None for each in self.nodes)

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
            return 1
        unclear = self.of_nodes[OPEN] or self.of_nodes[MISSING] or self.of_devices[MISSING] or self.partly_simulated
        vague = self.against is not None and self.against.vague
        return NOT_JUDGED if unclear or vague or self.unalike or self.duplicates or self.refused else 0


def delivery(
    name: str,
    records: Records,
    boards: PackingList | None,
    limit_of: Callable[[str], Limit],
    spread_of: Callable[[str], Spread | None],
    *,
    expected: Sequence[str] = (),
) -> Delivery:
    """Return what the records of a delivery show.

    `limit_of` returns the limit of a key of `records.limits`, and `spread_of` the spread that the threshold file states
    of a metric. `expected` are nodes that have to have a record, whether the packing list names them or not.
    """
    nodes = [_node(each) for each in records.nodes]
    seen = [board for node in nodes for board in node.boards]
    hosts = [each.host for each in records.nodes]
    against = _against(boards, records.nodes, nodes) if boards else None
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
        metrics=list(_metrics(records.nodes, limit_of, spread_of)),
        rejections=[each for node in records.nodes for each in _rejections(node)],
        older=records.older,
        shared=records.shared,
        refused=records.refused,
        without_record=without_record,
        waived=_waived(records.nodes),
        overridden=[each.node for each in records.nodes if each.accepted and each.overridden],
        rejected_before=list(_rejected_before(records)),
    )


def result_of(record: NodeRecord) -> str:
    """Return the result of a node."""
    if record.exit == 1:
        return REJECTED
    return ACCEPTED if record.accepted else OPEN


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


def _node(record: NodeRecord) -> Node:
    result = result_of(record)
    faulty = {each.uuid for each in record.faults}

    def of_device(device: Device) -> str:
        """Return the result of a device: one of a node that is not accepted, and has no fault itself, is not judged."""
        if result == REJECTED:
            return REJECTED if device.uuid in faulty else OPEN
        return result

    boards = [
        Board(record.node, place_of(each), each.serial or "", each.uuid, each.model, of_device(each))
        for each in record.devices
    ]
    marginal = len(record.marginal - {NODE})
    line = f"{record.line}; CHANGED after it was written" if record.changed else record.line
    if record.contradiction:
        line += f"; NOT ACCEPTED here, the record contradicts itself: {record.contradiction}"
    return Node(record.node, result, line, record.started, boards, marginal, record.path, record.sha256, record.changed)


def _term(name: str, records: Sequence[NodeRecord]) -> Term:
    values = Counter(each.terms[name] for each in records if name in each.terms)
    return Term(name, values.most_common(), len(records) - values.total())


def _twice(what: str, boards: Iterable[Board]) -> Iterator[tuple[str, str, list[Board]]]:
    """Yield every serial number, or UUID, that several boards have."""
    found: dict[str, list[Board]] = defaultdict(list)
    for each in boards:
        value = each.serial if what == "serial" else each.uuid
        if value:
            found[same(value)].append(each)
    yield from ((what, value, several) for value, several in sorted(found.items()) if len(several) > 1)


def _rejections(record: NodeRecord) -> Iterator[Rejection]:
    """Yield what rejects the boards of a node, those of one board together."""
    devices = {each.uuid: each for each in record.devices}
    order = {uuid: place for place, uuid in enumerate(dict.fromkeys(each.uuid for each in record.faults))}
    for fault in sorted(record.faults, key=lambda each: order[each.uuid]):
        device = devices.get(fault.uuid)
        place = place_of(device) if device else NODE
        yield Rejection(record.node, place, (device.serial or "") if device else "", fault)


# -- the packing list


def _against(boards: PackingList, records: Sequence[NodeRecord], nodes: Sequence[Node]) -> Against:
    """Return how the boards that were seen stand to the list: as `standing` tells it in the runs of the nodes."""
    misplaced, unlisted, zeros, differing, unknown = [], [], [], [], []
    found: set[str] = set()
    seen = [
        (board, device, record.host)
        for record, node in zip(records, nodes, strict=True)
        for board, device in zip(node.boards, record.devices, strict=True)
    ]
    for board, device, host in seen:
        stands = standing(boards, device, host)
        if stands.row:
            found.add(same(stands.row.serial))
        if stands.state is State.NOT_LISTED:
            unlisted.append(board)
        elif stands.state is State.BUT_FOR_ZEROS and stands.row:
            zeros.append((board, stands.row))
        elif stands.state is State.ELSEWHERE and stands.row:
            misplaced.append(Misplaced(board.serial, stands.row.node, host, board.place, stands.row.line))
        elif stands.state is State.DIFFERENT and stands.row:
            differing.append((board, "; ".join(differences(stands.row, device))))
        elif stands.state in UNKNOWN:
            unknown.append((board, stands.words))
    swapped, moved = _pairs(misplaced, boards.nodes)
    here: dict[str, list[str]] = defaultdict(list)
    for each in records:
        here[boards.nodes.find(each.host)].append(each.node)
    return Against(
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
        absent_nodes=[rows[0].node for name, rows in boards.by_node.items() if name not in here],
        several=[(name, meant) for name, meant in here.items() if name and len(meant) > 1],
    )


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


# -- the metrics


def _metrics(
    records: Sequence[NodeRecord], limit_of: Callable[[str], Limit], spread_of: Callable[[str], Spread | None]
) -> Iterator[Distribution]:
    """Yield the distribution of every metric of the delivery, in the order of the records."""
    values: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    judged_by: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    accepted = Counter[tuple[str, str]]()
    for record in records:
        counts = result_of(record) == ACCEPTED
        for metric, unit, subject, value, key in record.figures:
            accepted[metric, unit] += counts
            values[metric, unit][record.node, subject] = value
            if key:
                judged_by[metric, unit][key] += 1
    for (metric, unit), found in values.items():
        limits: dict[object, Limit] = {}
        for key, _ in judged_by[metric, unit].most_common():
            limit = limit_of(key)
            limits.setdefault(_demands(limit), limit)
        yield distribution(metric, unit, found, list(limits.values()), spread_of, of_accepted=accepted[metric, unit])


def _demands(limit: Limit) -> object:
    """Return what a limit demands, so that two that were written in different places are the same."""
    return limit.floor, limit.ceiling, limit.warn, limit.reference, limit.healthy, limit.severity, limit.differs
