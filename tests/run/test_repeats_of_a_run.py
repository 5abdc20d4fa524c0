"""Repeats in a run on simulated devices: what falls short on most of them does not take the time of all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import as_user, data_files, in_process

from pytest_accel import probes
from pytest_accel.core.verdict import Status

PRODUCTS = ("bf16", "fp8", "fp16", "tf32", "int8", "fp32", "fp64")


def rerun(tmp_path: Path, devices: list[int], level: str, which: str) -> as_user.Ran:
    """Measure two products and the soak on a node whose `devices` lost 12 % of their compute."""
    (tmp_path / "ours.yaml").write_text(data_files.content("run/ours.yaml"))
    fault = f"{{fault: slow-compute, device: {devices}, by: 0.12}}"
    (tmp_path / "node.yaml").write_text(f"sku: ./ours.yaml\nplatform: hgx8\nfaults: [{fault}]\n")
    chosen = ("--accel-simulate=node.yaml", f"--accel-level={level}", "-k", which)
    return as_user.pytest(tmp_path, *chosen, sku="./ours.yaml", paths=())


def attempts(ran: as_user.Ran, metric: str) -> Counter[str]:
    """How often a metric was measured together and alone, on all devices."""
    return Counter(each["how"] for each in ran.record["measurements"] if each["metric"] == metric)


@pytest.mark.nightly
def test_what_falls_short_everywhere_is_repeated_once(tmp_path: Path) -> None:
    ran = rerun(tmp_path, list(range(8)), "quick", "(test_matmul and (bf16 or fp8)) or test_soak")
    assert attempts(ran, "matmul.fp8") == {"together": 16}
    assert attempts(ran, "matmul.bf16") == attempts(ran, "soak.rate") == {"together": 16}, "one load for both"
    for metric in ("matmul.bf16", "matmul.fp8", "soak.rate"):
        assert set(ran.statuses(metric).values()) == {"FAIL"}


@pytest.mark.nightly
def test_single_devices_are_measured_alone(tmp_path: Path) -> None:
    ran = rerun(tmp_path, [2], "standard", "test_matmul and bf16 and not best")
    assert attempts(ran, "matmul.bf16") == {"together": 16, "alone": 1}
    (verdict,) = [
        each for each in ran.record["verdicts"] if each["metric"] == "matmul.bf16" and each["status"] == "FAIL"
    ]
    assert [each["holds"] for each in verdict["reasons"] if each["kind"] == "alone"] == [False]


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("level", ["quick", pytest.param("standard", marks=pytest.mark.nightly)])
def test_slow_products_leave_a_slow_link_the_time_for_its_repeat(level: str, tmp_path: Path) -> None:
    """All products of one device together would use up the time of all; the link is that of another device."""
    (tmp_path / "linked.yaml").write_text(data_files.content("run/linked.yaml"))
    faults = "[{fault: clock-limited, device: 2, by: 0.15}, {fault: slow-link, device: 5, by: 0.08}]"
    node = tmp_path / "node.yaml"
    node.write_text(f"sku: ./linked.yaml\nplatform: hgx8\nfaults: {faults}\n")
    here = in_process.opened(node, tmp_path / "out", level)
    uuids = [device.uuid for device in here.target.devices]
    for dtype in PRODUCTS:
        here.check(probes.matmul, {"dtype": dtype}, uuids[2])
    linked = [here.check(probes.peer_copy, {"direction": "one_way"}, uuid)[0].status for uuid in uuids]
    here.finish()
    assert linked == [Status.FAIL if place == 5 else Status.PASS for place in range(8)]
