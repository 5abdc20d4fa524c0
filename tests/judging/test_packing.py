"""The devices of a node against its packing list: not listed, of another node, absent, clerical, unknown."""

from __future__ import annotations

from dataclasses import replace

from support import shipped
from support.judged_tables import tabled

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.facts import packing
from pytest_accel.judging.facts.packing import LIST, SERIAL
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.skus.packing_list import PackingList, parse

MODEL = "NVIDIA H100 80GB HBM3"
GPUS = [
    Device(f"GPU-{place}", place, "nvidia", MODEL, serial=f"00{place}", pci_address=f"0000:{place:02x}:00.0")
    for place in range(2)
]
WHOLE = "serial,node\n000,n1\n001,n1\n002,n2\n"


def judged(text: str, devices: list[Device] = GPUS, host: str = "n1", sku: str = "h100-sxm") -> dict[str, Verdict]:
    boards = PackingList("delivery.csv", "5ha", tuple(parse(text, "delivery.csv")))
    limits = packing.limits(boards.sha256, shipped.load(sku), names_nodes=bool(boards.by_node))
    found = [each for metric in limits for each in packing.facts(metric, boards, devices, host)]
    return {each.subject: judge([each], limits[each.metric]) for each in found}


def test_a_complete_node_passes() -> None:
    assert {each.status for each in judged(WHOLE).values()} == {Status.PASS}
    assert set(judged(WHOLE)) == {NODE, "GPU-0", "GPU-1"}
    assert {each.status for each in judged(WHOLE, host="N1.example.org").values()} == {Status.PASS}


def test_names_with_different_domains_are_different_nodes() -> None:
    text = "serial,node\n000,n1.a\n001,n1.b\n"
    found = judged(text, host="n1.a")
    assert (found["GPU-0"].status, found["GPU-1"].status) == (Status.PASS, Status.FAIL)
    assert "001 is listed for n1.b (line 3): a board of another node" in sentence_of(found["GPU-1"])
    assert found[NODE].status is Status.PASS
    short = judged(text, host="n1")  # either could be meant
    assert {each.status for each in short.values()} == {Status.UNMEASURED}
    ip = judged("serial,node\n000,10.0.0.1\n001,10.0.0.2\n", host="10.0.0.1")
    assert (ip["GPU-0"].status, ip["GPU-1"].status) == (Status.PASS, Status.FAIL)


def test_a_list_without_nodes_says_nothing_of_the_node() -> None:
    found = judged("serial\n000\n001\n")
    assert set(found) == {"GPU-0", "GPU-1"}
    assert {each.status for each in found.values()} == {Status.PASS}


@tabled("text, subject, status, words", "data/judging/delivery.yaml")
def test_what_is_wrong_is_said(text: str, subject: str, status: Status, words: str) -> None:
    found = judged(text)[subject]
    assert (found.status, words in sentence_of(found)) == (status, True), sentence_of(found)
    others = {each.status for key, each in judged(text).items() if key not in (subject, NODE)}
    assert Status.FAIL not in others


def test_a_device_whose_serial_cannot_be_read_is_not_judged_and_may_be_the_absent_one() -> None:
    blind = [GPUS[0], replace(GPUS[1], serial=None, facts={"unread": {"serial": "no permission"}})]
    found = judged(WHOLE, blind)
    assert (found["GPU-1"].status, sentence_of(found["GPU-1"])) == (Status.UNMEASURED, "serial number: no permission")
    assert found[NODE].status is Status.UNMEASURED
    assert "absent, unless gpu1 is meant: 001 (line 3)" in sentence_of(found[NODE])


def test_a_version_that_the_list_demands_is_compared_and_one_that_cannot_be_read_is_not_judged() -> None:
    text = "serial,node,vbios,inforom\n000,n1,96.00.a5.00.03,\n001,n1,96.00.A5.00.03,G520\n"
    usual = {"vbios": "96.00.A5.00.03", "inforom": "G520"}
    other = {**usual, "vbios": "96.00.61.00.01"}
    unread = {"vbios": "96.00.A5.00.03", "unread": {"inforom": "no permission"}}
    found = [judged(text, [replace(GPUS[0], facts=usual), replace(GPUS[1], facts=facts)])["GPU-1"]
             for facts in (usual, other, unread)]  # fmt: skip
    assert [each.status for each in found] == [Status.PASS, Status.FAIL, Status.UNMEASURED]
    assert "its vbios is 96.00.61.00.01, listed 96.00.A5.00.03" in sentence_of(found[1])
    assert "001: the list (line 3) demands a version; inforom: no permission" in sentence_of(found[2])


def test_processors_have_no_serial_number() -> None:
    cpus = [Device("CPU-0", 0, "cpu", "EPYC")]
    found = judged(WHOLE, cpus, sku="cpu")
    assert {each.status for each in found.values()} == {Status.NOT_APPLICABLE}
    assert "no serial number" in sentence_of(found["CPU-0"])


def test_the_metrics_are_those_of_the_inventory() -> None:
    assert packing.limits("5ha", None, names_nodes=True) == {}
    assert set(packing.limits("5ha", shipped.load("h100-sxm"), names_nodes=True)) == {SERIAL, LIST}
