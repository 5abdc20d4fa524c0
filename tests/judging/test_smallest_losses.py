"""The smallest losses that a run rejects, held against verdicts that the judge gave on drawn nodes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import shipped

from pytest_accel.core.measurement import NODE, Device, Measurement, Peak
from pytest_accel.core.sku import ClassFloor, Limit, Source, Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.judging.verdicts.smallest_losses import (
    FAMILIES,
    RejectedLosses,
    before_a_run,
    sentence,
    smallest_losses,
)

OURS = Source("measured", "us", "2026-11")
SPREAD = Spread(OURS, between_devices=0.016, between_runs=0.012, runs=30)
DEVICES = [Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3", numa_node=place // 4) for place in range(8)]
KINDS = {device.uuid: kind_of(device) for device in DEVICES}


def one(value: float, subject: str = "GPU-0", metric: str = "stream.triad", unit: str = "GB/s") -> Measurement:
    return Measurement(metric, subject, unit, value)


DRAWN = json.loads((Path(__file__).parents[2] / "benchmarks" / "detection.json").read_text())
NAMES = {"memory": "stream.triad", "host": "host_copy.h2d", "link": "peer_copy.one_way"}
CURVES = [each for each in DRAWN["curves"] if each["way"] == "neighbours" and each["family"] in NAMES]


@pytest.mark.parametrize("curve", CURVES, ids=lambda each: f"{each['family']} {each['spread']}")
def test_the_drawn_benchmark_rejects_what_the_line_says_and_hardly_less(curve: dict[str, object]) -> None:
    """docs/comparison.md draws one device of eight that is slow, and counts how many of the nodes are rejected."""
    family, deviation, trials = str(curve["family"]), float(str(curve["spread"])), DRAWN["trials"]
    spread = Spread(OURS, between_devices=0.8 * deviation, between_runs=0.6 * deviation, runs=30)
    least = found_by({NAMES[family]: spread}, {NAMES[family]: "GB/s"}, {})[FAMILIES[family]].behind
    assert least is not None
    rejected = dict(zip(DRAWN["losses"], map(float, curve["rejected"]), strict=True))  # type: ignore[call-overload]
    surely = 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)
    assert all(share >= surely for loss, share in rejected.items() if loss >= least)
    assert all(share < 0.95 for loss, share in rejected.items() if loss < 0.85 * least)


def found_by(spreads: dict[str, Spread], values: dict[str, str], limits: dict[str, Limit]) -> dict[str, RejectedLosses]:
    peak = {"GB/s": Peak(2000.0, "memory datasheet peak"), "TFLOPS": Peak(2000.0, "bf16 datasheet peak")}
    every = [
        replace(one(1000.0, NODE if metric.startswith("all_reduce") else device.uuid, metric, unit), peak=peak[unit])
        for metric, unit in values.items()
        for device in DEVICES
    ]
    attempts = {(each.metric, each.subject): [each] for each in every}
    verdicts = [Verdict(each.metric, each.subject, Status.PASS, limit=limits.get(each.metric)) for each in every]
    return smallest_losses(verdicts, attempts, KINDS, spreads.get, software={})


CLASS = ClassFloor(700.0, 0.35, 0.42, "row", "bf16 datasheet peak", "classes.yaml:1")


def test_what_a_run_rejects_of_one_device_and_of_all_alike() -> None:
    narrow = Spread(OURS, between_devices=0.003)
    values = {
        "stream.copy": "GB/s", "stream.triad": "GB/s", "matmul.bf16": "TFLOPS", "host_copy.h2d": "GB/s",
        "all_reduce.busbw@8GiB": "GB/s",
    }  # fmt: skip
    limits = {
        "stream.triad": Limit("stream.triad", "GB/s", floor=900.0),
        "matmul.bf16": Limit("matmul.bf16", "TFLOPS", floor=950.0, advises=True, because="shape", beneath=CLASS),
    }
    found = found_by({"stream.copy": SPREAD, "stream.triad": narrow}, values, limits)
    assert found["memory"].behind == pytest.approx(0.024, abs=0.005), "six deviations and 1.955, not below 2 %"
    assert found["products"].behind == pytest.approx(0.24, abs=0.001), "the widest of whole clusters"
    assert found["memory"].below == pytest.approx(0.45)
    assert found["products"].below == pytest.approx(0.35)
    said = sentence(found)
    assert said.startswith("rejects at 95%: one of 8 below its neighbours by 24.0% (products), 2.")
    assert said.endswith(
        "; all alike below 0.35 (products), 0.45 (memory) of the datasheet, nothing in host link; "
        "nothing in collectives"
    ), "an advisory floor rejects nothing, that of its class does"


def test_no_loss_is_rounded_down_and_no_share_up() -> None:
    said = sentence({"memory": RejectedLosses(0.02001, 8, 0.4599, True)})
    assert (
        said == "rejects at 95%: one of 8 below its neighbours by 2.1% (memory); all alike below 0.45 (memory) of the "
        "datasheet"
    )


def test_a_device_that_is_short_does_not_widen_what_the_run_finds_on_the_others() -> None:
    every = [one(1000.0, device.uuid) for device in DEVICES]
    noisy = Measurement("stream.triad", "GPU-0", "GB/s", 700.0, (660.0, 700.0, 740.0, 690.0, 710.0))
    attempts = {(each.metric, each.subject): [each] for each in [noisy, *every[1:]]}

    def loss(status: Status) -> float:
        verdicts = [Verdict(m, s, status if s == "GPU-0" else Status.PASS) for m, s in attempts]
        return smallest_losses(verdicts, attempts, KINDS, lambda _: SPREAD, software={})["memory"].behind or 1.0

    assert loss(Status.PASS) > loss(Status.FAIL) + 0.01
    assert loss(Status.MARGINAL) == loss(Status.FAIL) < 0.2


def test_a_run_that_measured_no_speed_says_nothing() -> None:
    assert sentence({}) == ""


def test_what_a_file_lets_a_run_reject_is_known_before_a_run() -> None:
    sku = shipped.load("h100-sxm")
    narrow = replace(sku, spread={"stream": Spread(OURS, between_devices=0.003)})
    node, single, vm = (before_a_run(narrow, sku.platforms[name]) for name in ("hgx8", "single", "vm-passthrough"))
    assert node["memory"].behind == pytest.approx(0.024, abs=0.005), "as of a run of eight"
    assert {each.count for family, each in node.items() if family != "collectives"} == {8}
    floor = sku.limits_on(sku.platforms["hgx8"])["stream.triad"].floor or 0.0
    assert node["memory"].below == pytest.approx(floor / float(sku.datasheet.memory["gb_per_s"]))
    assert {each.behind for each in single.values()} == {None}, "a device alone has no neighbours"
    assert "peer links" not in single
    assert not vm["host link"].bounded
