"""What stands beside a figure in the record: shares of what it is a part of, of a whole run on a simulated node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import in_process

from pytest_accel import probes
from pytest_accel.core.measurement import Measurement
from pytest_accel.run.session import Session


@pytest.fixture
def here(fast: None, tmp_path: Path) -> Iterator[Session]:
    """A run on a node of one H100, which copies slowly to the host when it does it alone."""
    node = tmp_path / "node.yaml"
    node.write_text("sku: h100-sxm\nplatform: single\nfaults: [{fault: slow-downloads, device: 0}]\n", encoding="utf-8")
    run = in_process.opened(node, tmp_path / "out")
    yield run
    run.finish()


def measured(run: Session, probe: Any, metric: str, seconds: float, **conditions: str) -> Measurement:
    run.measuring.budget = lambda probe, metric: seconds  # type: ignore[method-assign]
    run.check(probe, conditions, run.target.devices[0].uuid)
    return next(each for each in reversed(run.ledger.record.measurements) if each.metric == metric)


def test_a_product_is_a_share_of_the_datasheet_and_of_its_clock(here: Session) -> None:
    found = measured(here, probes.matmul, "matmul.bf16", 20.0, dtype="bf16")
    assert isinstance(found.value, float), found
    assert found.details["of_clock"]["share"] == pytest.approx(found.value / (132 * 4096 * 0.8 * 1980 / 1e6), rel=0.01)


def test_a_copy_beside_all_others_is_a_share_of_the_same_alone(here: Session) -> None:
    alone = measured(here, probes.host_copy, "host_copy.d2h", 5.0, direction="d2h")
    together = measured(here, probes.host_copy_all, "host_copy_all.d2h", 5.0, direction="d2h")
    assert isinstance(together.value, float)
    assert isinstance(alone.value, float)
    assert "of_alone" not in alone.details
    assert together.details["of_alone"] == pytest.approx(together.value / alone.value)
    assert together.details["of_alone"] > 1.1


def test_a_long_soak_at_the_power_limit_proves_something(here: Session) -> None:
    rate = measured(here, probes.soak, "soak.rate", 90.0)
    assert isinstance(rate.value, float)
    assert not rate.note("unproven")
