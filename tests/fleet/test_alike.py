"""Alikeness of a delivery: an odd firmware, a slow node, a node of another kind; and healthy ones that are not named."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import real_series
from accepted_nodes import LIMITS, instead, judged, whole
from delivered import made, needs_openssh, save, told
from known_good_nodes import closed, record

from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.sku import DELIVERY, Limit
from pytest_accel.core.verdict import Status
from pytest_accel.fleet.delivery import alike
from pytest_accel.fleet.delivery.alike import Unlike
from pytest_accel.fleet.delivery.records import NodeRecord
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.run import summaries

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
    """What a delivery keeps of a record."""
    facts, summary = alike.facts_of(one, demanded), summaries.summary(one)
    return NodeRecord(**vars(summary), name=one.info["host"], facts=facts, demanded=demanded)


def words(nodes: list[NodeRecord]) -> list[str]:
    return [each.words for each in alike.unlike(nodes)]


def pair(number: int) -> Run:
    """A node of four of the boards."""
    one = delivered(number)
    uuids = {each.uuid for each in one.devices[:4]}
    one.info["platform"] = "hgx4"
    one.measurements = [each for each in one.measurements if each.subject in {*uuids, NODE}]
    return replace(one, devices=one.devices[:4])


if __name__ == "__main__":
    import sys
    folder = Path(sys.argv[1])
    for number in range(12):
        one = pair(11) if number == 11 else delivered(
            number, host={NIC: ODD} if number == 7 else {}, lacks=0.055 if number == 9 else 0.0)
        save(judged(one), folder / "records" / f"node{number}")
