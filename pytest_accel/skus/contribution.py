"""Contributed files: the figures of known-good devices without anything that names them, their node or its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_accel.core import structured, yaml_nodes
from pytest_accel.core.measurement import NOT_IN_FILE
from pytest_accel.core.method import differences
from pytest_accel.core.sku import Sku
from pytest_accel.core.yaml_nodes import Findings, Located
from pytest_accel.probes.declare import unit_of
from pytest_accel.skus.methods import method_of

VERSION = 1
BEGINS = f"contribution: {VERSION}"
OF_PEAK = "of peak"
"""The unit of a figure whose limit is a fraction of its peak."""
MOST_NODES = 100_000


@dataclass(frozen=True)
class ContributedDevice:
    """The values of one device (0: the whole node) of one node, in the order of its runs. The numbers name nothing."""

    node: int
    device: int
    runs: tuple[float, ...]


@dataclass(frozen=True)
class ContributedMetric:
    """The figures of one metric. `conditions` are those of the measurement, its method included."""

    unit: str
    conditions: Mapping[str, Any]
    devices: Sequence[ContributedDevice]


@dataclass(frozen=True)
class Contribution:
    """The figures of one owner."""

    owner: str
    sku: str
    platform: str
    date: str
    """The month of the last run: 2026-11."""
    levels: Sequence[str] = ()
    software: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Every version of each software, by name."""
    simulated: bool = False
    left_out: int = 0
    """Devices that were left out as outliers."""
    metrics: Mapping[str, ContributedMetric] = field(default_factory=dict)
    places: Mapping[str, Located] = field(default_factory=dict, compare=False, metadata=NOT_IN_FILE)
    """Where the file states each metric."""


def plain(one: Contribution) -> dict[str, Any]:
    """Return the content of the file, which `read` accepts."""
    return {"contribution": VERSION, **structured.plain(one)}


_number = yaml_nodes.whole(1, MOST_NODES, f"a whole number from 1 to {MOST_NODES}")
_from_zero = yaml_nodes.whole(0, MOST_NODES, f"a whole number from 0 to {MOST_NODES}")
_FILE = yaml_nodes.record_of(
    {
        "contribution": _number,
        "owner": yaml_nodes.text,
        "sku": yaml_nodes.text,
        "platform": yaml_nodes.text,
        "date": yaml_nodes.date,
        "levels": yaml_nodes.list_of(yaml_nodes.text),
        "software": yaml_nodes.mapping_of(yaml_nodes.list_of(yaml_nodes.text)),
        "simulated": yaml_nodes.flag,
        "left_out": _from_zero,
        "metrics": yaml_nodes.mapping_of(
            yaml_nodes.record_of(
                {
                    "unit": yaml_nodes.text,
                    "conditions": yaml_nodes.mapping_of(yaml_nodes.anything),
                    "devices": yaml_nodes.list_of(
                        yaml_nodes.record_of(
                            {"node": _number, "device": _from_zero, "runs": yaml_nodes.list_of(yaml_nodes.positive)},
                            required=("node", "device", "runs"),
                        )
                    ),
                },
                required=("unit", "conditions", "devices"),
            )
        ),
    },
    required=("contribution", "owner", "sku", "platform", "date", "metrics"),
)


def read(path: Path) -> Contribution:
    """Read a contributed file. Raises BadFile with file, line and key for everything that is wrong in it."""
    root, _ = yaml_nodes.read(path, str(path), BEGINS)
    findings = Findings()
    if "contribution" not in root.data:
        findings.add(root, f"is no contributed file of pytest-accel: it must begin with '{BEGINS}'")
    findings.raise_if_any()
    found = _FILE(root, "", findings)
    findings.raise_if_any()
    if found["contribution"] != VERSION:
        at = root.data["contribution"]
        findings.add(at, f"contribution: version {at.data} is not known; this version reads {VERSION}")
    places = root.data["metrics"].data
    for metric, each in found["metrics"].items():
        _check_metric(metric, each, places[metric], findings)
    findings.raise_if_any()
    metrics = {name: _metric(each) for name, each in found["metrics"].items()}
    stated = {key: value for key, value in found.items() if key != "contribution"}
    return Contribution(**{**stated, "metrics": metrics}, places=places)


def _metric(raw: Mapping[str, Any]) -> ContributedMetric:
    devices = [ContributedDevice(**{**at, "runs": tuple(at["runs"])}) for at in raw["devices"]]
    return ContributedMetric(**{**raw, "devices": devices})


def _check_metric(metric: str, raw: Mapping[str, Any], at: Located, findings: Findings) -> None:
    """Find a metric that no probe measures, a wrong unit, lists that are empty, and a device that is stated twice."""
    key, unit = f"metrics.{metric}", unit_of(metric)
    if unit is None:
        findings.add(at, f"{key}: no packaged probe measures it; delete it")
    elif raw["unit"] not in (unit, OF_PEAK):
        findings.add(at.data["unit"], f"{key}.unit: {raw['unit']} should be {unit}; convert the figures and correct it")
    seen: set[tuple[int, int]] = set()
    for each, place in zip(raw["devices"], at.data["devices"].data, strict=True):
        who = (each["node"], each["device"])
        if not each["runs"]:
            findings.add(place, f"{key}.devices: device {who[1]} of node {who[0]} has no runs; delete it")
        if who in seen:
            findings.add(place, f"{key}.devices: device {who[1]} of node {who[0]} is stated twice; keep one")
        seen.add(who)


def check(one: Contribution, sku: Sku) -> None:
    """Find metrics that were measured by another method than that of the probe for this SKU. Raises BadFile."""
    findings = Findings()
    for metric, each in one.metrics.items():
        other = differences(method_of(metric, sku.probes), each.conditions)
        if other:
            findings.add(
                one.places[metric], f"metrics.{metric}.conditions: another method than the probe's: {', '.join(other)}"
            )
    findings.raise_if_any()
