"""Every limit of the soak, and the comparison with neighbours, over published series (tests/real/series)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

import pytest
from support.judged_tables import tabled
from support.real_series import GPU, Series, gpu_fryer, judged, limits, table
from support.rows import each_row

from pytest_accel.core.details import Details, TelemetrySummary
from pytest_accel.core.measurement import Measurement, estimate_of
from pytest_accel.core.sku_types import Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.facts.telemetry import soak_measurements
from pytest_accel.judging.verdicts.distance import Distance
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.judging.verdicts.references import behind
from pytest_accel.skus import loader

STEADY = "soak.droop_slow", "soak.slowest_window"
ONE_OF_EACH = [series for place, series in enumerate(gpu_fryer()) if series.gpu == place // 24 % 8]
"""The same device of a node under all three loads, another of each node."""
LENGTHS = {"quick": 7, "standard": 120}
"""Seconds: those of `quick`, and the least that a series of 10-s windows has; standard's 300 s are slow to compute."""


def statuses(many: Iterable[Series], metric: str, level: str = "standard") -> Counter[Status]:
    return Counter(judged(series, metric, level=level).status for series in many)


def mostly_pass(found: Counter[Status]) -> bool:
    """Return True for no FAIL, and at most one MARGINAL in a hundred."""
    return set(found) <= {Status.PASS, Status.MARGINAL} and found[Status.MARGINAL] <= found.total() / 100


@each_row("metric", STEADY)
@each_row("level", LENGTHS)
def test_healthy_devices_pass_at_any_length(metric: str, level: str) -> None:
    assert mostly_pass(statuses([series.cut(LENGTHS[level]) for series in ONE_OF_EACH], metric, level))


@pytest.mark.nightly
@pytest.mark.parametrize("metric", STEADY)
@pytest.mark.parametrize("seconds", [60, 120, 300])
def test_all_healthy_devices_pass(metric: str, seconds: int) -> None:
    assert mostly_pass(statuses([series.cut(seconds) for series in gpu_fryer()], metric))


def test_a_warning_allows_for_the_heat_of_a_die_that_was_cold() -> None:
    """Without the rise it hits nearly all RTX PRO 6000 that start cold."""
    cold = [series.cut(120) for series in ONE_OF_EACH if (series.sku, series.dtype) == ("rtx-pro-6000-server", "tf32")]
    droops = [judged(series, "soak.droop_slow") for series in cold]
    assert {verdict.status for verdict in droops} == {Status.PASS}
    assert sum(float(verdict.value or 0) > 0.02 for verdict in droops) > 0.8 * len(droops)


def test_a_dip_of_twelve_seconds_is_found() -> None:
    for share, expected in ((0.05, Status.MARGINAL), (0.08, Status.FAIL), (0.12, Status.FAIL)):
        for series in ONE_OF_EACH[::3]:
            dip = [share if 101 <= at < 113 else 0.0 for at in range(len(series.rates))]
            assert judged(series.slowed(dip), "soak.slowest_window").status is expected, series.run


def test_a_rate_that_falls_all_the_time_is_found() -> None:
    for share, expected in ((0.05, {Status.MARGINAL, Status.FAIL}), (0.09, {Status.FAIL})):
        for series in (each for each in ONE_OF_EACH if each.dtype == "bf16"):
            falling = [share * at / len(series.rates) for at in range(len(series.rates))]
            assert judged(series.slowed(falling), "soak.droop_slow").status in expected, series.run


# -- slowdowns and heat


def heat(
    metric: str,
    sku: str,
    summary: TelemetrySummary,
    facts: Mapping[str, Any] | None = None,
    windows: Sequence[float] = (700.0, 690.0),
) -> Verdict:
    """Return the verdict on what the sensor measured in a soak."""
    seconds = summary["seconds"]
    rates: Details = {"window_rates": windows}
    soak = Measurement("soak.rate", GPU.uuid, "TFLOPS", 1.0, (1.0,), started=0.0, ended=seconds, details=rates)
    device = replace(GPU, facts=facts or {})
    (found,) = [each for each in soak_measurements(soak, device, summary) if each.metric == metric]
    return judge([found], limits(sku)[metric])


def thermal(sku: str, seconds: float, cap: float | None, slowed: float, **more: Any) -> Status:
    """Return the status of `slowed` seconds of software thermal slowdown, beside `cap` seconds under the power cap."""
    facts, windows = more.pop("facts", {}), more.pop("windows", (700.0, 690.0))
    summary = TelemetrySummary(seconds=seconds, sw_thermal_s=slowed)
    if cap is not None:
        summary["sw_power_cap_s"] = cap
    summary.update(more)  # type: ignore[typeddict-item]
    return heat("soak.throttle.sw_thermal", sku, summary, facts, windows).status


COOL: Mapping[str, Any] = {"margin_c": {"min": 25, "mean": 25, "max": 40}, "facts": {"slowdown_margin_c": -2}}
HOT: Mapping[str, Any] = {"margin_c": {"min": 1, "mean": 2, "max": 40}, "facts": {"slowdown_margin_c": -2}}


@tabled("what, sku, seconds, cap, slowed, air, more, expected", "data/judging/soak-series.yaml")
def test_a_software_thermal_slowdown_rejects_with_a_second_sign(
    what: str, sku: str, seconds: float, cap: float | None, slowed: float, air: str | None, more: Any, expected: Status
) -> None:
    around = {"cool": COOL, "hot": HOT, None: {}}[air]
    assert thermal(sku, seconds, cap, slowed, **around, **more) is expected, what


def test_no_healthy_server_part_shows_a_slowdown() -> None:
    """24 H100 in training, and 70 loads of a B300."""
    reasons = "busy_hw_slowdown", "busy_sw_thermal", "busy_hw_thermal", "busy_power_brake"
    h100 = [int(row[reason]) for row in table("h100_telemetry.csv") for reason in reasons]
    assert len(h100) == 4 * 64
    assert not sum(h100)
    assert not [row for row in table("b300_rungs.csv") if "thermal" in row["reasons_seen"]]


@tabled("celsius, facts, expected", "data/judging/soak-series.yaml")
def test_a_board_before_hopper_that_reaches_its_target_is_marginal(
    celsius: float, facts: Mapping[str, float], expected: Status
) -> None:
    gauge = {"min": 40.0, "mean": celsius, "max": celsius}
    summary = TelemetrySummary(seconds=300.0, temperature_c=gauge, sw_thermal_s=0.0)  # type: ignore[typeddict-item]
    assert heat("soak.thermal_margin", "v100-sxm2-16gb", summary, facts).status is expected


def test_no_v100_of_a_cluster_reaches_its_target() -> None:
    assert max(int(row["celsius"]) for row in table("longhorn_v100.csv")) == 82


# -- power


def power(sku: str, watts: float, facts: Mapping[str, float]) -> Verdict:
    """Return the verdict on the mean power of a device with these facts."""
    gauge = {"min": watts, "mean": watts, "max": watts}
    return heat("soak.power", sku, TelemetrySummary(seconds=300.0, power_w=gauge), facts)  # type: ignore[typeddict-item]


def test_h100_under_the_power_cap_pass() -> None:
    rows = [row for row in table("h100_telemetry.csv") if int(row["busy_samples"])]
    held = [row for row in rows if int(row["busy_sw_power_cap"]) > 0.99 * int(row["busy_samples"])]
    verdicts = [power("h100-sxm", float(row["mean_w_busy"]), {"power_limit_w": 700.0}) for row in held]
    assert [verdict.status for verdict in verdicts] == [Status.PASS] * 12
    assert min(float(verdict.value or 0) for verdict in verdicts) > 0.97 * 700


def test_v100_that_do_not_reach_their_power_limit_are_the_slowest_of_their_cluster() -> None:
    rows = sorted(table("longhorn_v100.csv"), key=lambda row: float(row["tflops"]))
    found = [power("h100-sxm", float(row["watts"]), {"power_limit_w": 300.0}).status for row in rows]
    assert [place for place, status in enumerate(found) if status is not Status.PASS] == [0, 3]
    assert set(found) == {Status.PASS, Status.MARGINAL}
    assert len(found) == 392


@each_row(
    ("watts", "enforced", "expected"),
    [
        (640.0, 700.0, Status.PASS),
        (620.0, 700.0, Status.MARGINAL),
        (392.0, 400.0, Status.PASS),
        (620.0, 0.0, Status.NOT_APPLICABLE),
    ],
)
def test_power_is_held_against_the_limit_in_force(watts: float, enforced: float, expected: Status) -> None:
    """An operator may set a lower one than the datasheet's; where none is known, nothing is judged."""
    assert power("h100-sxm", watts, {"power_limit_w": enforced}).status is expected


def test_a_part_that_healthy_loads_do_not_bring_to_its_power_limit_has_no_bound() -> None:
    """A B300 multiplies bf16 at 1037 W of 1100 for 20 s, and at 1039 W for 30 minutes, without the cap."""
    free = {row["rung"] for row in table("b300_rungs.csv") if "power" not in row["reasons_seen"]}
    assert {"prec-bf16", "soak-30min", "tensor-only-cublas"} <= free
    assert "soak.power" not in limits("b300-sxm")


# -- neighbours


def product(name: str, tflops: float, mhz: float = 0.0) -> Measurement:
    telemetry = TelemetrySummary(clock_mhz={"min": mhz, "mean": mhz, "max": mhz}) if mhz else TelemetrySummary()
    return Measurement("soak.rate", name, "TFLOPS", tflops, details=Details(telemetry=telemetry))


def distances(node: Sequence[Measurement], known: Spread | None) -> list[Distance | None]:
    return [behind(device, node, node, known) for device in node]


@cache
def spread(sku: str) -> Spread | None:
    return loader.load(sku).spread_of("soak.rate")


def found(node: Sequence[Measurement], sku: str) -> list[Status]:
    """Return the status of each device among the others of its node."""
    return [distance.status if distance else Status.PASS for distance in distances(node, spread(sku))]


@cache
def fryer_nodes() -> list[tuple[str, list[Measurement]]]:
    by_node = groupby(gpu_fryer(), key=lambda series: (series.run, series.dtype, series.sku))
    return [
        (key[2], [product(str(series.gpu), estimate_of(series.rates, "TFLOPS", "mean").mean) for series in node])
        for key, node in by_node
    ]


def v100_nodes() -> list[list[Measurement]]:
    rows = [row for row in table("longhorn_v100.csv") if row["node"]]
    nodes = [list(node) for _, node in groupby(rows, key=lambda row: row["node"])]
    return [[v100(row) for row in node] for node in nodes if len(node) == 4]


def v100(row: Mapping[str, str]) -> Measurement:
    return product(row["gpu"], float(row["tflops"]), float(row["mhz"]))


def test_healthy_devices_are_not_behind_their_neighbours() -> None:
    blackwell = Counter(status for sku, node in fryer_nodes() for status in found(node, sku))
    volta = Counter(status for node in v100_nodes() for status in found(node, "v100-sxm2-16gb"))
    assert (blackwell.total(), volta.total()) == (1128, 320)
    assert blackwell == {Status.PASS: 1128}
    assert mostly_pass(volta)


@pytest.mark.parametrize(("sku", "share"), [("rtx-pro-6000-server", 0.05), ("b200-sxm", 0.10)])
def test_one_slow_device_of_eight_is_found(sku: str, share: float) -> None:
    nodes = [list(node) for of, node in fryer_nodes() if of == sku]
    seen = 0
    for place, node in enumerate(nodes):
        slow = place % 8
        node[slow] = product(str(slow), float(node[slow].value or 0) * (1 - share))
        seen += found(node, sku)[slow] is not Status.PASS
    assert seen == len(nodes)


def test_the_slow_v100_of_longhorn_fails_at_its_clock() -> None:
    """It is 14.5 % slow at 1312 MHz, 250 W and 81 C; its node is not stated, so it stands in each."""
    (bad,) = [v100(row) for row in table("longhorn_v100.csv") if row["gpu"] == "87570fdd"]
    for node in v100_nodes():
        assert found([bad, *node[1:]], "v100-sxm2-16gb")[0] is Status.FAIL


def test_a_device_that_is_slow_at_its_clock_fails_where_no_node_of_its_class_was_published() -> None:
    """Each of 42 published nodes of V100, judged as a product that nothing is known of."""
    for node in v100_nodes():
        assert Status.FAIL not in [distance.status for distance in distances(node, None) if distance]
        for place, device in enumerate(node):
            slow = replace(device, value=0.82 * float(device.value or 0))
            found = behind(slow, [slow, *node[:place], *node[place + 1 :]])
            assert found
            assert found.status is Status.FAIL


# -- bad devices


@each_row("row", [row for row in table("other.csv") if row["droop_slow"]])
def test_what_others_published_of_gpu_burn(row: Mapping[str, str]) -> None:
    """A laptop that lost 25 % evenly passes here: only its rate and its past show the loss."""
    file = limits("rtx-4090")
    steady = {name: float(row[name.removeprefix("soak.")]) for name in STEADY if row[name.removeprefix("soak.")]}
    verdicts = [judge([Measurement(name, "GPU-0", "1", value)], file[name]) for name, value in steady.items()]
    healthy = row["healthy_for_author"].startswith("yes") or "throughout" in row["healthy_for_author"]
    assert any(verdict.status is Status.FAIL for verdict in verdicts) is not healthy
