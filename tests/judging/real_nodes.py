"""Nodes as their owners published them (tests/real/inventories): facts with source, and the verdict that is right.

A node has `count` devices with the facts `gpu`, of which single devices have others (`each`, by index). `absent` are
facts that the source shows as not there. What a source does not show is not filled in; an `excerpt` does not show all
devices. `expect` is the SKU and, where the node is no plain one, what `fails`, what is `unmeasured`, or why the run is
`refused`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_accel.core.measurement import Device
from pytest_accel.core.software import versions_of
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts import inventory
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.options import Refused
from pytest_accel.run.terms import TermOptions, refuse_divided, sku_of
from pytest_accel.skus import requirements

FOLDER = Path(__file__).parents[1] / "real" / "inventories"


@dataclass
class Judged:
    """The verdict on a node: SKU and platform, or the refusal, and the metrics by status."""

    sku: str = ""
    platform: str = ""
    refused: str = ""
    metrics: dict[Status, set[str]] = field(default_factory=dict)

    def of(self, *statuses: Status) -> set[str]:
        """Return the metrics with one of these statuses."""
        return {metric for status in statuses for metric in self.metrics.get(status, ())}


def nodes() -> list[dict[str, Any]]:
    """Return all published nodes."""
    files = sorted(FOLDER.glob("*.yaml"))
    return [
        {"vendor": path.stem, **node} for path in files for node in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]


def devices(node: dict[str, Any]) -> list[Device]:
    """Return the devices as the driver delivers them."""
    return [_device(node, index) for index in range(node["count"])]


def _device(node: dict[str, Any], index: int) -> Device:
    facts = {**node["gpu"], **node.get("each", {}).get(index, {})}
    absent = [*node.get("absent", ()), *facts.pop("absent", ())]
    name, pci_id, mib = facts.pop("name", ""), facts.pop("pci_id", None), facts.pop("memory_mib", 0)
    facts = {fact: value for fact, value in facts.items() if fact not in absent}
    facts.setdefault("power_limit_requested_w", facts.get("power_limit_w"))
    facts = {fact: value for fact, value in facts.items() if value is not None}
    facts["unsupported"] = dict.fromkeys(absent, "this GPU or its driver does not support it")
    return Device(f"GPU-{index:08d}", index, node["vendor"], name, mib * 2**20, pci_id=pci_id, facts=facts)


def judged(node: dict[str, Any]) -> Judged:
    """Judge the facts of a node as a run with --accel-sku=auto does."""
    found = devices(node)
    try:
        sku = sku_of(found)
        assert sku
        terms = TermOptions(sku.name, node.get("platform", "auto")).terms_for(sku, found)
        refuse_divided(found, terms.platform)
    except Refused as why:
        return Judged(refused=str(why))
    result = Judged(sku.name, terms.platform.name)
    discovery = Discovery(tuple(found), expected_by=node.get("platform", ""))
    for metric, limit in requirements.applying(terms.required, sku, terms.platform).items():
        if metric.partition(".")[0] in ("inventory", "health"):
            for one in inventory.facts(metric, discovery, sku):
                if not (one.trouble and one.trouble.reason.endswith(NOT_REPORTED)):
                    status = judge([one], limit, versions_of(found)).status
                    result.metrics.setdefault(status, set()).add(metric)
    return result


NOT_REPORTED = "the driver does not report it"
"""How the reason ends of a fact that the source does not show: neither a value nor "N/A"."""
