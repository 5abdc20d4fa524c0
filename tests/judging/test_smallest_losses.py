"""The smallest losses that a run rejects, held against verdicts on drawn nodes with exactly these losses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support import shipped
from support.rows import each_row

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import NODE, Device, Measurement, Peak, estimate_of
from pytest_accel.core.sku_types import ClassFloor, Limit, Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.attempts import RequestAttempts, RunAttempts
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.judging.verdicts.smallest_losses import RejectedLosses, sentence, smallest_losses

DEVICES = [Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3", numa_node=place // 4) for place in range(8)]
KINDS = {device.uuid: kind_of(device) for device in DEVICES}
PEAKS = {"GB/s": Peak(2000.0, "memory datasheet peak"), "TFLOPS": Peak(2000.0, "bf16 datasheet peak")}
SLOW = "GPU-3"
NODES = 60


class Drawn:
    """A node whose devices differ by 0.6 %, and whose goes differ by 0.3 %."""

    def __init__(self, seed: int, metric: str, unit: str, count: int, statistic: str = "mean") -> None:
        self.metric, self.unit, self._count, self._statistic = metric, unit, count, statistic
        self._draw = random.Random(f"{metric} {seed}")  # noqa: S311  the same every time
        self._own = {device.uuid: 1 + self._draw.gauss(0, 0.006) for device in DEVICES}

    def go(self, slow: Mapping[str, float], *, by_clock: bool = False) -> list[Measurement]:
        """Return what all devices reach where some are slow by a share."""
        return [self._one(uuid, own, slow.get(uuid, 0.0), by_clock=by_clock) for uuid, own in self._own.items()]

    def _one(self, uuid: str, own: float, lost: float, *, by_clock: bool) -> Measurement:
        pace = 1000 * own * (1 - lost) * (1 + self._draw.gauss(0, 0.003))
        samples = tuple(pace * (1 + self._draw.gauss(0, 0.003)) for _ in range(self._count))
        clock = 1400.0 * (1 - lost if by_clock else 1.0)
        gauge = {"mean": clock, "min": clock, "max": clock}
        details: Details = {"telemetry": {"clock_mhz": gauge}}  # type: ignore[typeddict-item]
        value = estimate_of(samples, self.unit, self._statistic).mean  # type: ignore[arg-type]
        one = Measurement(self.metric, uuid, self.unit, value, samples, peak=PEAKS[self.unit], details=details)
        return replace(one, statistic=self._statistic)  # type: ignore[arg-type]


SOFTWARE = {"torch": "2.13"}


def verdicts(
    node: Drawn, slow: Mapping[str, float], spread: Spread | None, **how: Any
) -> tuple[RequestAttempts, list[Verdict]]:
    """Judge a go, and the repeat that a run makes of whatever falls short."""
    result = RequestAttempts(kinds=KINDS, spread_of=lambda _: spread, software=SOFTWARE)
    limit = how.pop("limit", None)
    for _ in range(2):
        for one in node.go(slow, **how):
            result.add(one)
        if not result.shortfalls(node.metric, limit):
            break
    result.end_rounds()
    return result, [result.verdict_on(node.metric, device.uuid, limit) for device in DEVICES]


def promised(node: Drawn, spread: Spread | None, **how: Any) -> dict[str, RejectedLosses]:
    """Return the losses that a run of the node promises when all of its devices are healthy."""
    result, judged = verdicts(node, {}, spread, **how)
    return smallest_losses(judged, result)


def losses(every: Sequence[Measurement], limit: Limit | None = None, **status: Status) -> dict[str, RejectedLosses]:
    """Return the losses that a run promises that measured these, which all pass but for those of one device."""
    attempts = RunAttempts({(each.metric, each.subject): [each] for each in every}, KINDS, software=SOFTWARE)
    statuses = {place: status.get(place[1].replace("-", "_"), Status.PASS) for place in attempts.by_key}
    judged = [Verdict(*place, its_status, limit=limit) for place, its_status in statuses.items()]
    return smallest_losses(judged, attempts)


H200 = shipped.load("h200-sxm").spread_of
CASES: dict[str, tuple[Callable[[int], Drawn], Spread | None, dict[str, Any]]] = {
    "memory": (lambda seed: Drawn(seed, "stream.triad", "GB/s", 5), H200("stream.triad"), {}),
    "host link": (lambda seed: Drawn(seed, "host_copy.d2h", "GB/s", 8, "median"), H200("host_copy.d2h"), {}),
    "peer links": (lambda seed: Drawn(seed, "peer_copy.one_way", "GB/s", 5, "median"), None, {}),
    "matmul": (lambda seed: Drawn(seed, "matmul.bf16", "TFLOPS", 60), H200("matmul.bf16"), {"by_clock": True}),
    "matmul at the clock": (lambda seed: Drawn(seed, "matmul.bf16", "TFLOPS", 60), H200("matmul.bf16"), {}),
}


@pytest.mark.nightly
@each_row("family", CASES)
def test_a_device_with_exactly_the_promised_loss_is_rejected(family: str) -> None:
    drawn, spread, how = CASES[family]
    rejected = 0
    for seed in range(NODES):
        loss = promised(drawn(seed), spread)[family].behind
        assert loss
        assert loss < 0.16
        _, judged = verdicts(drawn(seed), {SLOW: loss}, spread, **how)
        rejected += judged[3].status is Status.FAIL
        assert {each.status for each in judged if each.subject != SLOW} == {Status.NOT_APPLICABLE}
    assert rejected >= 0.95 * NODES


def test_devices_that_are_all_below_the_promised_share_are_rejected() -> None:
    limit, rejected = Limit("stream.triad", "GB/s", floor=900.0), 0
    for seed in range(NODES):
        node = Drawn(seed, "stream.triad", "GB/s", 5)
        share = promised(node, None, limit=limit)["memory"].below or 0.0
        assert 0.44 < share < 0.45
        loss = 1 - share * 2000 / 1000
        _, judged = verdicts(node, dict.fromkeys(KINDS, loss), None, limit=limit)
        rejected += Status.FAIL in {each.status for each in judged}
    assert rejected >= 0.95 * NODES


def found_by(values: Mapping[str, str], limits: Mapping[str, Limit]) -> dict[str, RejectedLosses]:
    """Return the losses that a run of eight devices promises for metrics with these units."""
    every = [one for metric, unit in values.items() for one in Drawn(0, metric, unit, 20).go({})]
    every = [replace(one, subject=NODE) if one.metric.startswith("all_reduce") else one for one in every]
    attempts = RunAttempts({(one.metric, one.subject): [one] for one in every}, KINDS, software=SOFTWARE)
    judged = [Verdict(one.metric, one.subject, Status.PASS, limit=limits.get(one.metric)) for one in every]
    return smallest_losses(judged, attempts)


CLASS = ClassFloor(700.0, 0.35, 0.42, 0.5, 0.85, ("us",), "row", "bf16 datasheet peak", "classes.yaml:1")


def test_what_a_run_rejects_of_one_device_and_of_all_alike() -> None:
    values = {
        "stream.copy": "GB/s", "stream.triad": "GB/s", "matmul.bf16": "TFLOPS", "host_copy.h2d": "GB/s",
        "all_reduce.busbw@8GiB": "GB/s", "inventory.nvlink_speed": "GB/s",
    }  # fmt: skip
    limits = {
        "stream.triad": Limit("stream.triad", "GB/s", floor=900.0),
        "matmul.bf16": Limit("matmul.bf16", "TFLOPS", floor=950.0, software={"torch": "<2"}, class_floor=CLASS),
    }
    found = found_by(values, limits)
    assert found["memory"].behind == pytest.approx(0.045, abs=0.01), "3 %, and what healthy devices differ by"
    assert found["matmul"].behind == pytest.approx(0.25, abs=0.01), "the widest of whole clusters"
    assert found["memory"].below == pytest.approx(0.45, abs=0.005)
    assert found["matmul"].below == pytest.approx(0.35, abs=0.005), "its own floor is for another torch"
    said = sentence(found)
    assert said.startswith(
        "with 95% probability this run rejects one of 8 devices that is slower than the others by 25."
    )
    assert said.endswith("44% in memory; no limit rejects all devices together in host link, collectives")


def test_a_metric_without_clocks_is_promised_at_the_clock_as_it_is() -> None:
    """The sensor read no clock in one of two products: there the wider bound alone rejects."""
    read, unread = (Drawn(0, metric, "TFLOPS", 20).go({}) for metric in ("matmul.bf16", "matmul.fp8"))
    both = losses([*read, *(replace(one, details={}) for one in unread)])
    assert (losses(read)["matmul at the clock"].behind or 1.0) < 0.14
    assert both["matmul at the clock"].behind == both["matmul"].behind


def test_the_weakest_metric_of_a_part_counts() -> None:
    loose = Limit("stream.copy", "GB/s", floor=500.0)
    tight = Limit("stream.triad", "GB/s", floor=900.0)
    found = found_by({"stream.copy": "GB/s", "stream.triad": "GB/s"}, {each.metric: each for each in (loose, tight)})
    assert found["memory"].below == pytest.approx(0.25, abs=0.005)


def test_no_loss_is_rounded_down_and_no_share_up() -> None:
    assert sentence({"memory": RejectedLosses(0.02001, 8, 0.4599, True)}) == (
        "with 95% probability this run rejects one of 8 devices that is slower than the others by 2.1% in memory; "
        "and all devices if they reach less of the datasheet than 45% in memory"
    )
    assert sentence({}) == ""


def test_a_device_without_neighbours_is_judged_by_floors_alone() -> None:
    limit = Limit("stream.triad", "GB/s", floor=900.0)
    one = Drawn(0, "stream.triad", "GB/s", 20).go({})[0]
    said = "all devices if they reach less of the datasheet than 44% in memory; fewer than 4 devices are alike"
    assert said in sentence(losses([one], limit))
    single = replace(one, value=1000.0, samples=())  # all have the figure of the node, or a collective has one sample
    found = losses([replace(single, subject=device.uuid) for device in DEVICES], limit)["memory"]
    assert found == RejectedLosses(None, 8, None, has_limit=True), "nobody knows how far devices differ"
    zero = replace(one, value=1000.0, samples=(0.0, 0.0))  # as only a forged record has them
    assert losses([zero], limit)["memory"].below is None


def test_a_device_that_is_short_does_not_widen_what_the_run_finds_on_the_others() -> None:
    every = Drawn(0, "stream.triad", "GB/s", 20).go({"GPU-0": 0.3})
    statuses = (Status.PASS, Status.FAIL, Status.MARGINAL)
    passes, fails, marginal = (losses(every, GPU_0=status)["memory"].behind or 1.0 for status in statuses)
    assert passes > fails + 0.1
    assert marginal == fails < 0.06


def test_a_loss_that_a_ring_explains_is_not_told() -> None:
    """No algorithm is stated, so that a shortfall down to what a ring reaches is INCONCLUSIVE."""
    metric = "all_reduce.busbw@8GiB"
    one = replace(Drawn(0, metric, "GB/s", 5).go({})[0], subject=NODE)
    limit = Limit(metric, "GB/s", floor=940.0, conditions={"by_ring": 800.0})
    for conditions, share in (({}, 0.39), ({"algorithm": "NVLS"}, 0.465)):
        found = losses([replace(one, conditions=conditions)], limit)
        assert found["collectives"].below == pytest.approx(share, abs=0.01)
