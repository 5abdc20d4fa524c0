"""Runs on simulated nodes whose parts are rejected by the floors of their classes, and what the run says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import in_process
from support.shipped import load

from pytest_accel.core.measurement import NODE
from pytest_accel.core.sku_types import Basis, Platform, Sku
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.judging.verdicts.like_devices import family_of
from pytest_accel.simulate.node import SIMULATED_VENDORS
from pytest_accel.skus import loader, readiness

pytestmark = pytest.mark.usefixtures("fast")

FAULTS = {"matmul": "slow-compute", "memory": "slow-memory"}
PARTS = {"matmul": "matrix units", "memory": "memory"}
DEVICES = 8


def usual(sku: Sku) -> Platform:
    return next(iter(sku.platforms.values()))


def by_class(sku: Sku, part: str) -> bool:
    found = readiness.Readiness(sku, usual(sku), ["quick"]).strongest.get(part)
    return found is not None and found.basis is Basis.CLASS


def simulated() -> Iterator[tuple[str, str]]:
    """Yield for every vendor and family the first product of eight devices that a class alone rejects."""
    for vendor in SIMULATED_VENDORS:
        for family, part in PARTS.items():
            own = (sku for sku in map(load, loader.names()) if sku.vendor == vendor and usual(sku).devices == DEVICES)
            yield from [(sku.name, family) for sku in own if by_class(sku, part)][:1]


CASES = list(simulated())


def ran(folder: Path, sku: str, family: str, by: float = 0.0) -> tuple[list[Verdict], Closing]:
    """Run what is measured of a family on a node that is slow by a share."""
    fault = f"faults: [{{fault: {FAULTS[family]}, device: {list(range(DEVICES))}, by: {by}}}]\n" if by else ""
    node = folder / f"{family}-{by:.3f}.yaml"
    node.write_text(f"sku: {sku}\n{fault}")
    probes = ["matmul", "matmul_mamf", "soak"] if family == "matmul" else ["stream"]
    here, closing = in_process.run(node, folder / f"{node.name}.d", measured=probes)
    own = [each for each in here.ledger.verdicts if each.decides and each.subject != NODE and _of(each, family)]
    return own, closing


def _of(verdict: Verdict, family: str) -> bool:
    of_speed = verdict.limit is not None and isinstance(verdict.value, float) and verdict.of_peak is not None
    return of_speed and family_of(verdict.metric, verdict.unit) == family


def told(closing: Closing, family: str) -> float:
    """The share of the datasheet below which the run says that it rejects all devices alike."""
    _, _, alike = closing.sensitivity.partition("all devices if they reach less of the datasheet than ")
    found = re.search(rf"(\d+)% in {family}\b", alike)
    assert found, closing.sensitivity
    return int(found.group(1)) / 100


def loss(verdicts: list[Verdict], share: float) -> float:
    """The loss that brings the best metric of every device to a share of the datasheet."""
    return 1 - share / max(each.of_peak or 0.0 for each in verdicts)


@pytest.mark.nightly
@pytest.mark.parametrize(("sku", "family"), CASES)
def test_what_a_run_says_that_it_rejects_is_rejected(sku: str, family: str, tmp_path: Path) -> None:
    """And what holds although it is short was not told to be rejected."""
    healthy, closing = ran(tmp_path, sku, family)
    assert healthy
    assert closing.result == "HELD"
    assert {each.status for each in healthy} <= {Status.PASS, Status.MARGINAL}
    share = told(closing, family)
    slow, closing = ran(tmp_path, sku, family, loss(healthy, share - 0.01))
    assert closing.result == "REJECTED"
    assert {each.subject for each in slow if each.status is Status.FAIL} == {each.subject for each in healthy}
    assert "class floor" in closing.line or any(each.basis is Basis.CLASS for each in closing.verdicts)
    short, closing = ran(tmp_path, sku, family, 0.05)
    assert closing.result == "HELD"
    best = {each.subject: 0.0 for each in short}
    for each in short:
        best[each.subject] = max(best[each.subject], each.of_peak or 0.0)
    assert min(best.values()) > told(closing, family)
