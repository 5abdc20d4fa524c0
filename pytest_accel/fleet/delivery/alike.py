"""The differences between the nodes of a delivery: kinds, facts, and figures by the one comparison. Pure.

The figures of the devices, and the medians of a node's devices, are compared with their median over all nodes, by the
rules of the reference "fleet".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple, TypeVar

from pytest_accel.core.fact_metrics import FACT_METRICS
from pytest_accel.core.fault_codes import of_metric
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Names
from pytest_accel.core.run import Run
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.core.verdict import Result, Status
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.delivery.records import NodeRecord, Rejection, location_of
from pytest_accel.judging.facts.inventory import FIRMWARE, read_fact
from pytest_accel.judging.records.calibration import EFFICIENCY, deviation
from pytest_accel.judging.verdicts.distance import Distance, Reference, distance
from pytest_accel.judging.verdicts.history import parts_of
from pytest_accel.judging.verdicts.like_devices import family_of

KIND, BOARD = "kind", "inventory.pci_subsystem"
# fmt: off
FACTS: Mapping[str, str] = {
    KIND: "kind", BOARD: "board", "inventory.driver_version": "driver", "inventory.vbios": "VBIOS",
    "inventory.inforom": "InfoROM", "inventory.gsp_firmware": "GSP firmware", "inventory.firmware": "firmware",
    "inventory.firmware_bundle": "firmware bundle", "host.nic_firmware": "NIC firmware", "host.firmware": "BIOS",
    "host.kernel_arguments": "boot arguments", "kernel": "kernel", "torch": "torch",
}
# fmt: on
"""The facts that are compared, each with its name in a sentence: the kind of node, metrics, and software."""
MOST_NAMED = 6
"""Nodes or values that one sentence names."""
Key = TypeVar("Key")


class Unlike(NamedTuple):
    """Nodes with another value of a fact than most of their kind, or a node or device that is behind its like."""

    metric: str
    """One of the `FACTS`, another fact that is demanded, or the figure in which it is the farthest behind."""
    nodes: Sequence[str]
    """The names; none where no value of a fact is that of most, or there are fewer than three nodes."""
    subjects: Sequence[str]
    """The UUIDs of single devices, or NODE."""
    value: str | float
    """The value of a fact; of a figure the share of speed that is lost."""
    usual: str | float
    """The value that most have, empty if there is none; of a figure the median in its unit."""
    number: int
    """The nodes that have the usual value; of a figure the nodes, or devices, that the median is of."""
    words: str
    """The difference as a sentence without a full stop."""
    rejects: bool = False


def facts_of(run: Run, demanded: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the `FACTS` of a record, and those that are `demanded`, as far as they are known.

    The keys are that of the fact and the subject. Firmware is compared on boards of one maker, whose id stands behind
    the metric: "inventory.vbios 10de:16c1".
    """
    products, platform = Counter(device.product for device in run.devices), run.info.get("platform", "no platform")
    boards = " and ".join(f"{number} x {product}" for product, number in sorted(products.items()))
    of_host = [(fact.metric, fact.value) for fact in run.measurements if fact.subject == NODE]
    of_node = {KIND: f"{boards} on {platform}", **run.software, **dict(of_host)}
    rows: list[tuple[str, str, object]] = []
    for metric in dict.fromkeys((*FACTS, *demanded)):
        rows += [(metric, NODE, of_node.get(metric))]
        for device in run.devices if metric in FACT_METRICS else ():
            maker = device.facts.get("pci_subsystem", "") if metric in FIRMWARE else ""
            rows.append((f"{metric} {maker}".strip(), device.uuid, read_fact(metric, device)[1]))
    groups = grouped((row for row in rows if row[2] is not None), lambda row: row[0])
    return {key: {subject: str(value) for _, subject, value in group} for key, group in groups.items()}


def common(nodes: Sequence[NodeRecord]) -> list[str]:
    """Return the `FACTS` that all nodes have alike, each with its value: "torch 2.7.0"."""
    keys = nodes[0].facts.keys() - {KIND}
    values = {key: {value for node in nodes for value in node.facts.get(key, {"": ""}).values()} for key in keys}
    return sorted(f"{_name(key)} {value}" for key, (value, *others) in values.items() if value and not others)


def unlike(nodes: Sequence[NodeRecord]) -> list[Unlike]:
    """Return the differences between the nodes of a delivery: kinds of nodes, then facts and figures of each kind."""
    differences = [*_in_fact(KIND, nodes)]
    # Nodes of one kind are compared with each other: the same devices, as many of them, on one platform.
    for group in grouped(nodes, lambda node: node.facts[KIND][NODE]).values():
        for key in dict.fromkeys(key for node in group for key in node.facts):
            differences += _in_fact(key, [node for node in group if key in node.facts])
        differences += _in_figures(group)
    return differences


def against(node: NodeRecord, differences: Iterable[Unlike]) -> NodeRecord:
    """Return a node with what rejects it because it is unlike the others."""
    rejecting = [diff for diff in differences if diff.rejects and node.name in diff.nodes]
    rejections = [*node.rejections]
    for diff in rejecting:
        code = of_metric(diff.metric)
        for device in map(node.by_uuid.get, diff.subjects):
            position = (device.uuid, location_of(device), device.serial or "") if device else (NODE, NODE, "")
            rejections.append(Rejection(*position, diff.metric, f"{code.code} {code.name}", diff.words, code.do))
    line = f"{node.line}; REJECTED here: {'; '.join(diff.words for diff in rejecting)}"
    return replace(node, result=Result.REJECTED, line=line, rejections=rejections) if rejecting else node


def _name(key: str) -> str:
    metric = key.partition(" ")[0]
    return FACTS.get(metric, metric)


def _in_fact(key: str, nodes: Sequence[NodeRecord]) -> Iterator[Unlike]:
    """Yield the nodes whose value of a fact is not that of most; those with the same one together."""
    metric, name = key.partition(" ")[0], _name(key)
    # A fact that is unlike the others rejects only where the buyer's file demands it.
    rejects = any(metric in node.demanded for node in nodes)
    text_of = {node.name: " and ".join(sorted({*node.facts[key].values()})) for node in nodes}
    (mode, count), *others = Counter(text_of.values()).most_common()
    if others and (2 * count <= len(nodes) or len(nodes) < 3):
        of_value = grouped(text_of, text_of.__getitem__)
        texts = [
            f"{text} on {group[0] if len(group) == 1 else counted(len(group), 'node')}"
            for text, group in of_value.items()
        ]
        words = f"no common {name}: {listed(texts, MOST_NAMED)}"
        yield Unlike(metric, (), (), listed(texts, len(texts)), "", count, words, rejects)
        return

    def different(node: NodeRecord) -> tuple[str, ...]:
        """Return the devices with another value, if other devices of the node have the usual one."""
        members = tuple(uuid for uuid, value in node.facts[key].items() if value != mode)
        return members if len(members) < len(node.facts[key]) else ()

    odd = (node for node in nodes if text_of[node.name] != mode)
    for (text, uuids), group in grouped(odd, lambda node: (text_of[node.name], different(node))).items():
        names = [node.name for node in group]
        value = " and ".join(sorted({group[0].facts[key][uuid] for uuid in uuids})) or text
        subject = listed(names, MOST_NAMED) + "".join(f" {group[0].by_uuid[uuid].name}" for uuid in uuids)
        odd_part, mode_part = _differing(value, mode)
        words = f"unlike the other {count}: {subject} {name} {odd_part} ({mode_part})"
        if key == KIND and len(group) == 1:
            words = f"{subject} is the only node of its kind, and compared with no other: {value}"
        yield Unlike(metric, names, uuids or (NODE,), value, mode, count, words, rejects)


def _differing(value: str, mode: str) -> Sequence[str]:
    """Return the parts that only one of two lists has: of thirteen versions of firmware those that differ."""
    parts, mode_parts = (re.split("[;,] ", text) for text in (value, mode))
    differing = [part for part in parts if part not in mode_parts], [part for part in mode_parts if part not in parts]
    return [", ".join(items) for items in differing] if all(differing) else (value, mode)


def _in_figures(nodes: Sequence[NodeRecord]) -> Iterator[Unlike]:
    """Yield the nodes of a kind, and the devices, that are behind their like, the metrics of a family together."""
    keys = dict.fromkeys(key for node in nodes for key in node.figures)
    pairs = [pair for key in keys for pair in _in_figure(key, [node for node in nodes if key in node.figures])]
    for (family, *_), group in grouped(pairs, lambda pair: (pair[0], pair[1].nodes, pair[1].subjects)).items():
        worst = sorted((diff for _, diff in group), key=lambda diff: -float(diff.value))
        words = f"{worst[0].words} in {family} ({listed([diff.metric for diff in worst])})"
        yield worst[0]._replace(words=words, rejects=any(diff.rejects for diff in worst))


def _in_figure(key: str, nodes: Sequence[NodeRecord]) -> Iterator[tuple[str, Unlike]]:
    """Yield the nodes and devices that are behind in a figure, with its family, unless their run rejects them for it.

    A node is behind by the median of its devices, or if most of them are, and explains those that are no worse.
    """
    of_nodes = {(node.name, NODE): median(node.figures[key].values()) for node in nodes}
    of_devices = {(node.name, uuid): value for node in nodes for uuid, value in node.figures[key].items()}
    distances = (
        {**_by_position(key, of_devices, nodes), **_distances(key, of_nodes)} if len(nodes) >= ENOUGH_ALIKE else {}
    )
    for node in nodes if distances else ():
        losses = {uuid: loss for uuid in (NODE, *node.figures[key]) if (loss := distances.get((node.name, uuid)))}
        if NODE not in losses and 2 * len(losses) > len(node.figures[key]):
            losses = {NODE: sorted(losses.values(), key=lambda loss: loss.loss)[(len(losses) - 1) // 2], **losses}
        node_loss, metric = losses.get(NODE), parts_of(key)[0]
        rejected = {rejection.uuid for rejection in node.rejections if rejection.metric == metric}
        for uuid, loss in losses.items():
            worse = node_loss is None or 1 - (1 - loss.loss) / (1 - node_loss.loss) > loss.allowed_loss
            if uuid not in rejected and (uuid == NODE or worse):
                device_name = "" if uuid == NODE else f" {Names.of(node.devices)[uuid]}"
                middle, count, rejects = loss.reference.middle, loss.reference.count, loss.status is Status.FAIL
                kind = "nodes" if uuid == NODE and (node.name, NODE) in distances else "devices"
                words = f"{node.name}{device_name} {loss.loss:.1%} behind the median of {count} {kind}"
                yield loss.family, Unlike(metric, (node.name,), (uuid,), loss.loss, middle, count, words, rejects)


def _by_position(
    key: str, of_devices: Mapping[tuple[str, str], float], nodes: Sequence[NodeRecord]
) -> dict[tuple[str, str], Distance]:
    """Return the distances of devices that count, also beside those of other nodes in the same position."""
    index_of = {device.uuid: device.index for node in nodes for device in node.devices}
    positions = grouped(of_devices, lambda device: index_of.get(device[1]))
    # A position may have a slower path, and then all nodes are alike in it.
    medians = {index: median(of_devices[device] for device in devices) or 1.0 for index, devices in positions.items()}
    shares = {device: value / medians[index_of.get(device[1])] for device, value in of_devices.items()}
    counting = _distances(key, shares)
    return {device: loss for device, loss in _distances(key, of_devices).items() if device in counting}


def _distances(key: str, values: Mapping[Key, float]) -> dict[Key, Distance]:
    """Return the distances that count behind the median of some values, whose spread is estimated from them."""
    metric, unit, _ = parts_of(key)
    middle, freedom = median(values.values()), max(1.0, EFFICIENCY * (len(values) - 1))
    spread = deviation([*values.values()], middle) / middle
    reference = Reference("fleet", middle, len(values), spread, freedom=freedom)
    losses = {subject: distance(value, unit, family_of(metric, unit), reference) for subject, value in values.items()}
    return {subject: loss for subject, loss in losses.items() if loss and loss.status is not Status.PASS}
