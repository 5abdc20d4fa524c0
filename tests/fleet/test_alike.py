"""Whether the nodes of a delivery are alike: an odd firmware, a slow node, another kind; healthy ones are not named."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from support import real_series
from support.accepted_nodes import LIMITS, instead, judged, whole
from support.deliveries import needs_openssh, save, told
from support.known_good_nodes import record
from support.rows import each_row

from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import DELIVERY, Limit
from pytest_accel.core.verdict import Status
from pytest_accel.fleet.delivery import alike
from pytest_accel.fleet.delivery.records import NodeRecord, Rejection
from pytest_accel.judging.verdicts.history import key_of
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run import summaries
from pytest_accel.skus import loader

NIC, USUAL, ODD = "host.nic_firmware", "MT_0000000838 28.41.1000", "MT_0000000838 28.39.1002"
BOARD_FACTS = {
    "driver_version": "580.95.05",
    "vbios": "96.00.A5.00.03",
    "inforom": "G520.0200.00.05",
    "gsp_firmware": "580.95.05",
    "pci_subsystem": "10de:16c1",
}
HOST_FACTS = {NIC: USUAL, "host.firmware": "1.2 (01/02/2026)", "host.kernel_arguments": "iommu=pt"}


def stating(made_: Run, host: Mapping[str, str] = HOST_FACTS, **facts: str) -> Run:
    """A record whose host states these facts, and whose devices state the usual ones, with others instead."""
    for metric, value in {**HOST_FACTS, **host}.items():
        instead(made_, Measurement(metric, NODE, "text", value))
    made_.devices = [replace(each, facts={**BOARD_FACTS, **facts}) for each in made_.devices]
    return made_


def delivered(number: int, *, lacks: float = 0.0, of: str = "stream.triad", **facts: Any) -> Run:
    """A whole node of a delivery, which lacks a share of one figure on all of its devices."""
    one = stating(whole(record(number)), **facts)
    one.info["host"] = f"node{number}"
    one.measurements = [
        replace(each, value=float(each.value or 0) * (1 - lacks)) if each.metric == of else each
        for each in one.measurements
    ]
    return one


def kept(one: Run, demanded: tuple[str, ...] = ()) -> NodeRecord:
    """The part of a record that a delivery keeps."""
    facts, summary = alike.facts_of(one, demanded), summaries.summary(one)
    return NodeRecord(**vars(summary), name=one.info["host"], facts=facts, demanded=demanded)


def words(nodes: list[NodeRecord]) -> list[str]:
    return [each.words for each in alike.unlike(nodes)]


def smaller(number: int) -> Run:
    """A node of four of the boards."""
    one = delivered(number)
    one.info["platform"] = "hgx4"
    one.devices = one.devices[:4]
    kept_ = {NODE, *(each.uuid for each in one.devices)}
    one.measurements = [each for each in one.measurements if each.subject in kept_]
    instead(one, Measurement("inventory.count", NODE, "count", 4))
    return one


@pytest.fixture
def healthy() -> list[NodeRecord]:
    return [kept(delivered(number)) for number in range(12)]


@pytest.mark.nightly
@needs_openssh
def test_twelve_nodes_with_one_odd_firmware_one_slow_and_one_of_another_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The slow one holds its own limits: only the others show it. The rule of the fleet fails memory from 2 %."""
    for number in range(12):
        odd, lacks = {NIC: ODD} if number == 7 else {}, 0.055 if number == 9 else 0.0
        one = smaller(number) if number == 11 else delivered(number, host=odd, lacks=lacks)
        save(judged(one), tmp_path / "records" / f"node{number}")
    status, found = told(tmp_path)
    slow = "node9 5.3% behind the median of 88 devices in memory (stream.triad)"
    firmware = f"unlike the other 10: node7 NIC firmware {ODD} ({USUAL})"
    kind = "node11 is the only node of its kind, and compared with no other: 4 x NVIDIA H100 80GB HBM3 on hgx4"
    assert (status, {each["words"] for each in found["unlike"]}) == (1, {slow, firmware, kind})
    assert f"{slow}." in found["reasons"]
    assert {f"{firmware}.", f"{kind}."} <= {*found["notes"]}
    outcomes = {each["name"]: each["outcome"] for each in found["nodes"]}
    assert [name for name, each in outcomes.items() if each == "rejected"] == ["node9"]
    (back,) = (each for each in found["rejections"] if each["node"] == "node9")
    assert (back["location"], back["title"], back["words"]) == ("node", "A208 memory-slow", slow)
    assert {f"- {slow}.", f"- {firmware}.", f"- {kind}."} <= {*capsys.readouterr().out.splitlines()}


def test_twelve_healthy_nodes_are_alike(healthy: list[NodeRecord]) -> None:
    assert words(healthy) == []
    assert "NIC firmware MT_0000000838 28.41.1000" in alike.common(healthy)


def test_without_a_majority_the_values_are_named_and_nobody_is_blamed() -> None:
    nodes = [kept(delivered(number, host={NIC: ODD} if number < 6 else {})) for number in range(12)]
    assert words(nodes) == [f"no common NIC firmware: {ODD} on 6 nodes, {USUAL} on 6 nodes"]
    assert words(nodes[5:7]) == [f"no common NIC firmware: {ODD} on node5, {USUAL} on node6"]


def test_a_device_is_named_where_the_others_of_its_node_are_as_usual(healthy: list[NodeRecord]) -> None:
    one = delivered(3)
    one.devices[5] = replace(one.devices[5], facts={**BOARD_FACTS, "vbios": "96.00.61.00.01"})
    (found,) = alike.unlike([*healthy[:3], kept(one), *healthy[4:]])
    assert found.words == "unlike the other 11: node3 gpu5 VBIOS 96.00.61.00.01 (96.00.A5.00.03)"
    assert (found.subjects, found.number, found.rejects) == ((one.devices[5].uuid,), 11, False)


def test_the_firmware_of_another_maker_s_boards_is_not_compared(healthy: list[NodeRecord]) -> None:
    other = kept(delivered(3, vbios="96.00.61.00.01", pci_subsystem="10de:1839"))
    found = words([*healthy[:3], other, *healthy[4:]])
    assert found == ["unlike the other 11: node3 board 10de:1839 (10de:16c1)"]


def test_of_many_versions_those_that_differ_are_shown(healthy: list[NodeRecord]) -> None:
    host = {NIC: f"{USUAL}; MT_0000000970 22.41.1"}
    nodes = [kept(delivered(number, host=host)) for number in range(3)]
    nodes.append(kept(delivered(3, host={NIC: f"{USUAL}; MT_0000000970 22.39.1"})))
    assert words(nodes) == ["unlike the other 3: node3 NIC firmware MT_0000000970 22.39.1 (MT_0000000970 22.41.1)"]


def test_a_slow_device_is_named_and_one_that_its_run_rejects_is_not_named_again(healthy: list[NodeRecord]) -> None:
    one = delivered(4)
    slow = one.devices[2]
    one.measurements = [
        replace(each, value=2500.0) if (each.metric, each.subject) == ("stream.triad", slow.uuid) else each
        for each in one.measurements
    ]
    nodes = [*healthy[:4], kept(one), *healthy[5:]]
    assert [each.partition(" behind")[0] for each in words(nodes)] == ["node4 gpu2 15.3%"]
    known = Rejection(slow.uuid, "gpu2", "", "stream.triad", "", "", "")
    assert words([*healthy[:4], replace(nodes[4], rejections=[known]), *healthy[5:]]) == []


def test_one_odd_node_neither_moves_the_median_nor_widens_the_spread() -> None:
    nodes = [kept(delivered(number, lacks=0.5 if number == 3 else 0.0)) for number in range(12)]
    (found,) = alike.unlike(nodes)
    assert found.nodes == ("node3",)
    assert found.value == pytest.approx(0.5, abs=0.01)
    assert found.usual == pytest.approx(2950, rel=0.005)


def test_a_slower_place_is_no_fault_of_the_devices_in_it(healthy: list[NodeRecord]) -> None:
    """Where the first device of every node has a slower path, all nodes are alike."""

    def slower(node: NodeRecord, index: int, by: float) -> NodeRecord:
        uuid = node.devices[index].uuid
        figures = {
            key: {**values, uuid: values[uuid] * (1 - by)}
            if key.startswith("stream.triad") and uuid in values
            else values
            for key, values in node.figures.items()
        }
        return replace(node, figures=figures)

    nodes = [slower(node, 0, 0.07) for node in healthy]
    assert words(nodes) == []
    (found,) = words([*nodes[:5], slower(nodes[5], 3, 0.07), *nodes[6:]])
    assert found.startswith("node5 gpu3 7.")


# -- what the buyer demands


def by(file: Path, number: int, **facts: Any) -> Run:
    """A node that was judged by a file."""
    sku = loader.load(str(file))
    own = sku.limits_on(sku.platforms["hgx8"])[NIC]
    return judged(delivered(number, **facts), {**LIMITS, NIC: own}, sku={"name": sku.name, "files": sku.files})


@pytest.mark.nightly
@needs_openssh
@pytest.mark.parametrize("demand", ["same_on_all: delivery", "warn: {same_on_all: delivery}"])
def test_an_odd_firmware_rejects_where_an_own_file_demands_one(demand: str, tmp_path: Path) -> None:
    file = tmp_path / "agreed.yaml"
    source = "{kind: agreed, by: both, date: 2026-11}"
    file.write_text(f"extends: h100-sxm\nlimits:\n  {NIC}: {{{demand}, unit: text, source: {source}}}\n")
    for number in range(4):
        save(by(file, number, host={NIC: ODD} if number == 2 else {}), tmp_path / "records" / f"node{number}")
    status, found = told(tmp_path, f"--sku={file}")
    odd = f"unlike the other 3: node2 NIC firmware {ODD} ({USUAL})."
    demanded = "warn" not in demand
    assert (status, odd in found["reasons"], odd in found["notes"]) == (int(demanded), demanded, not demanded)
    assert found["of_nodes"]["accepted"] == 4 - demanded


def test_the_run_of_a_node_demands_what_it_can_tell() -> None:
    """The same on its own devices; of the host, which has one value, that of the others is not known."""
    devices = Measurement("inventory.vbios", "GPU-0", "version", "1", on_all={"gpu0": "1", "gpu1": "2", "gpu2": "2"})
    host = Measurement(NIC, NODE, "text", USUAL)
    found = [judge([each], Limit(each.metric, each.unit, same_on_all=DELIVERY)) for each in (devices, host)]
    assert [each.status for each in found] == [Status.FAIL, Status.NOT_APPLICABLE]
    assert found[1].value == USUAL


# -- how often a healthy node is named


def of_rates(number: int, rates: list[float], metric: str) -> NodeRecord:
    """A node whose devices have these rates."""
    devices = [Device(f"GPU-{number}-{place}", place, "nvidia", "any") for place in range(len(rates))]
    figures = {key_of(metric, "TFLOPS", {}): {each.uuid: rate for each, rate in zip(devices, rates, strict=True)}}
    return NodeRecord(name=f"node{number}", devices=devices, figures=figures, facts={alike.KIND: {NODE: "any"}})


@cache
def published() -> dict[str, list[list[float]]]:
    """The rates of the devices of healthy nodes, as they were published: V100, and B200 and RTX PRO 6000 by dtype."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in real_series.table("longhorn_v100.csv"):
        if row["node"]:
            found.setdefault("V100", {}).setdefault(row["node"], []).append(float(row["tflops"]))
    for each in real_series.gpu_fryer():
        found.setdefault(f"{each.sku} {each.dtype}", {}).setdefault(each.run, []).append(fmean(each.rates))
    return {name: [*nodes.values()] for name, nodes in found.items()}


@each_row("size", [12, 128])
@each_row("name", published())
def test_a_healthy_node_of_a_real_fleet_is_named_at_most_once_in_a_hundred(name: str, size: int) -> None:
    nodes, named = published()[name], 0
    drawn = random.Random(f"{name}/{size}")  # noqa: S311  the same every time
    goes = 1 + 240 // size
    for _ in range(goes):
        delivery = [of_rates(number, drawn.choice(nodes), "matmul.bf16") for number in range(size)]
        named += len({each.nodes[0] for each in alike.unlike(delivery)})
    assert named <= goes * size // 100


def test_a_thousand_nodes_with_one_that_is_slow() -> None:
    drawn = random.Random("a thousand")  # noqa: S311  the same every time
    rates = [[drawn.gauss(700, 8) for _ in range(8)] for _ in range(1000)]
    nodes = [of_rates(number, some, "matmul.bf16") for number, some in enumerate(rates)]
    figures = {key: {uuid: 0.9 * rate for uuid, rate in of.items()} for key, of in nodes[17].figures.items()}
    nodes[17] = replace(nodes[17], figures=figures)
    (found,) = alike.unlike(nodes)
    assert (found.nodes, found.subjects, found.rejects) == (("node17",), (NODE,), False)
    assert found.words.endswith(" behind the median of 1000 nodes in matmul (matmul.bf16)")
