"""What the sensor saw beside a probe: summed up for its window, and worth nothing where it did not look."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.judged_tables import tabled

from pytest_accel.core.details import TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement, Trouble
from pytest_accel.core.reasons import Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts.telemetry import (
    SOAK_METRICS,
    disturbance,
    misplacement,
    sensor_metrics,
    soak_measurements,
    summarise,
    unproven,
)
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.telemetry_file import Telemetry

GPU = Device(uuid="GPU-0", index=0, driver="nvidia", model="H100")
SOAK = Measurement("soak.rate", "GPU-0", "TFLOPS", 700.0, (700.0,), started=100.0, ended=160.0)


def readings(*values: float | None, name: str = "hw_thermal_s", every: float = 15.0) -> list[dict[str, Any]]:
    """One reading every 15 s from the start of the soak; None where the driver did not say."""
    return [
        {"uuid": "GPU-0", "at": 100.0 + place * every, **({} if value is None else {name: value})}
        for place, value in enumerate(values)
    ]


def test_readings_are_kept_by_device_and_window_and_in_the_side_file(tmp_path: Path) -> None:
    telemetry = Telemetry()
    telemetry.write_to(tmp_path / "telemetry.jsonl")
    made = [{"uuid": uuid, "at": at} for at in (1.0, 2.0, 3.0) for uuid in ("GPU-0", "GPU-1")]
    for each in made:
        telemetry.hear(each)
    telemetry.close()
    assert [each["at"] for each in telemetry.window("GPU-0", 2.0, 3.0)] == [2.0, 3.0]
    assert telemetry.window("GPU-9", 0.0, 9.0) == []
    lines = (tmp_path / "telemetry.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == made


def test_gauges_counters_and_reasons_are_summed_up() -> None:
    first = {"at": 1.0, "power_w": 600, "hw_thermal_s": 5.0, "reasons": 4, "pcie_gen": 1}
    second = {"at": 2.0, "power_w": 700, "hw_thermal_s": 5.0, "reasons": 8, "pcie_gen": 5}
    found = summarise([first, second, {"at": 3.5, "power_w": 710, "hw_thermal_s": 5.25, "lost": "GPU is lost"}])
    assert found["power_w"] == {"mean": 670.0, "min": 600, "max": 710}
    assert (found["hw_thermal_s"], found["reasons"], found["lost"]) == (0.25, 12, "GPU is lost")
    assert found["pcie_gen"] == 5  # links sleep when idle: the best that was seen
    assert (found["readings"], found["seconds"]) == (3, 2.5)


def test_what_says_nothing_is_left_out() -> None:
    assert summarise([]) == {"readings": 0}
    assert not {"hw_thermal_s", "seconds"} & summarise([{"at": 1.0, "hw_thermal_s": 5.0}]).keys(), (
        "one reading, no time"
    )
    assert "hw_thermal_s" not in summarise(readings(5.0, 9.0, 0.0, 0.5)), "it was reset: that may hide any throttling"


COPY = Measurement("host_copy.h2d", "GPU-0", "GB/s", 55.0, (55.0,), started=100.0, ended=101.0)


def test_the_link_is_told_as_it_was_under_load() -> None:
    """It wakes up while the first reading is taken; lanes that it loses it does not get back by waking."""
    seen = ((100.0, 1, 16), (100.1, 5, 16), (100.2, 5, 8))
    summary = summarise([{"at": at, "pcie_gen": gen, "pcie_width": width} for at, gen, width in seen])
    found = {each.metric: (each.value, each.unit) for each in sensor_metrics(COPY, GPU, summary)}
    assert found == {"host_copy.pcie_gen": (5, "count"), "host_copy.pcie_width": (8, "count")}


def test_a_link_that_nobody_read_has_no_state() -> None:
    for each in sensor_metrics(COPY, GPU, summarise([])):
        assert judge([each], None).status is Status.NOT_APPLICABLE
        limit = Limit(each.metric, "count", equals=5)
        assert judge([each], limit).status is Status.UNMEASURED


def test_a_cpuset_far_from_the_device_excuses_a_slow_copy_and_nothing_else() -> None:
    far = replace(COPY, conditions={"numa": "far", "numa_node": 1})
    assert "NUMA node 1" in str(misplacement(far))
    assert misplacement(COPY) is None
    again = replace(far, notes=(Note("disturbed", str(misplacement(far))),))
    assert judge([again, again], Limit("host_copy.h2d", "GB/s", floor=60.0)).status is Status.INCONCLUSIVE


# -- disturbance


@tabled("summary, cpus, disturbed", "data/judging/telemetry.yaml")
def test_processor_time_of_others_above_a_share_is_a_disturbance(
    summary: TelemetrySummary, cpus: int, disturbed: bool
) -> None:
    device = replace(GPU, cpus=tuple(range(cpus)))
    assert (disturbance(device, summary) is not None) is disturbed


# -- a soak


def soaked(
    made: list[dict[str, Any]], metric: str = "soak.throttle.hw_thermal", soak: Measurement = SOAK
) -> Measurement:
    (found,) = [each for each in soak_measurements(soak, GPU, summarise(made)) if each.metric == metric]
    return found


def status(found: Measurement) -> Status:
    ceiling = 0.01 if found.unit == "1" else 0.05
    return judge([found], Limit(found.metric, found.unit, ceiling=ceiling)).status


@tabled("metric, name, values, value, unit", "data/judging/telemetry.yaml")
def test_what_only_the_sensor_knows_of_a_soak(
    metric: str, name: str, values: tuple[float, ...], value: float, unit: str
) -> None:
    found = soaked(readings(*values, name=name), metric)
    assert found.value == pytest.approx(value)
    assert (found.unit, found.trouble) == (unit, None)
    assert (found.samples, found.peak, found.subject) == ((), None, "GPU-0")


def test_a_soak_that_was_not_watched_throughout_is_not_free_of_throttling() -> None:
    steady = readings(7.0, 7.0, 7.0, 7.0, 7.0)
    blind = [
        [],  # the sensor never answered
        readings(None, None, None, None, None),  # this driver cannot say
        readings(7.0),
        readings(7.0, 7.0),  # the sensor died after 15 of 60 s
        readings(7.0, 7.0, 7.0, 7.0, 7.0, every=5.0),
        readings(7.0, 7.0, 7.0, None, None),  # the counter died half way, the others did not
        readings(None, None, 7.0, 7.0, 7.0),
        readings(9.0, 9.0, 0.0, 0.0, 0.0),  # the driver was loaded again
    ]
    every = [*blind, steady, [*steady, {"at": 161.0, "lost": "GPU is lost"}], readings(7.0, 7.0, 7.0, 7.0, 8.0)]
    expected = [Status.UNMEASURED] * len(blind) + [Status.PASS, Status.FAIL, Status.FAIL]
    for metric, (name, _) in SOAK_METRICS.items():
        if "throttle" in metric:
            renamed = json.loads(json.dumps(every).replace("hw_thermal_s", name))
            assert [status(soaked(made, metric)) for made in renamed] == expected, metric


@pytest.mark.parametrize(("name", "mask"), [("hw_thermal_s", 0x48), ("sw_thermal_s", 0x20), ("hw_power_brake_s", 0x88)])
def test_a_counter_that_stands_still_does_not_hide_a_reason_that_holds(name: str, mask: int) -> None:
    """The device says that it slows itself down, and its counter of that says nothing: the worse of the two counts."""
    held = [{"at": 100.0 + place, name: 7.0, "reasons": mask * (20 <= place < 40)} for place in range(61)]
    metric = next(metric for metric, (part, _) in SOAK_METRICS.items() if part == name)
    assert status(soaked(held, metric)) is Status.FAIL
    assert name in summarise(held)["sampled"]


def test_a_counter_that_counts_is_believed() -> None:
    """One reading proves no duration, and a counter that moves knows more than the readings beside it."""
    still = [{"at": 100.0 + at, "hw_thermal_s": 7.0, "reasons": 0x48 * (at in (20, 40))} for at in range(61)]
    moves = [
        {"at": 100.0 + at, "hw_thermal_s": 7.0 + 1e-3 * (at > 20), "reasons": 0x48 * (20 <= at < 23)}
        for at in range(61)
    ]
    assert [status(soaked(made)) for made in (still, moves)] == [Status.PASS, Status.PASS]


def test_reasons_that_are_sampled_say_nothing_of_a_gap() -> None:
    """A counter goes on while nobody looks; a reason that came and went in between was seen by nobody."""
    for every, expected in ((1, Status.PASS), (20, Status.UNMEASURED)):
        assert status(soaked([{"at": 100.0 + at, "reasons": 0} for at in range(0, 61, every)])) is expected


def test_a_soak_that_broke_says_nothing_good_about_heat() -> None:
    kinds: tuple[tuple[Any, Status], ...] = (
        ("device", Status.FAIL),
        ("need", Status.UNMEASURED),
        ("external", Status.INCONCLUSIVE),
    )
    for kind, expected in kinds:
        broken = replace(SOAK, trouble=Trouble(kind, "why"))
        found = soak_measurements(broken, GPU, summarise(readings(7.0, 7.0, 7.0, 7.0, 7.0)))
        verdicts = [judge([each], Limit(each.metric, each.unit, ceiling=1e9)) for each in found]
        assert {each.metric for each in found} == set(SOAK_METRICS)
        assert {(each.status, each.value, sentence_of(each)) for each in verdicts} == {(expected, None, "why")}


def test_a_hardware_slowdown_that_names_no_reason_is_counted_by_itself() -> None:
    """Beside heat (0x40) or power brake (0x80), which have counters, it would count twice."""
    for mask in (0x00, 0x08, 0x48, 0x88, 0x04):
        made = [{"at": 100.0 + place, "reasons": mask, "hw_thermal_s": 0.0} for place in range(61)]
        assert soaked(made, "soak.throttle.hw_slowdown").value == (60.0 if mask == 0x08 else 0.0)


@tabled("facts, hottest, places, margin", "data/judging/telemetry.yaml")
def test_the_least_margin_to_the_slowdown_that_the_device_states(
    facts: dict[str, Any], hottest: dict[str, Any], places: tuple[int, ...], margin: float | None
) -> None:
    """One reading that the next one does not confirm is no heat: a repeat would not clear it."""
    cooler = {"temperature_c": 60, **({"margin_c": 27} if "margin_c" in hottest else {})}
    made = [{"at": 100.0 + place / 2, **(hottest if place in places else cooler)} for place in range(121)]
    found = soak_measurements(SOAK, replace(GPU, facts=facts), summarise(made))
    (only,) = [each for each in found if each.metric == "soak.thermal_margin"]
    assert only.value == margin
    assert only.trouble is None or only.trouble.kind == "not_applicable"


def test_each_reading_counts_where_there_are_few() -> None:
    """Between two readings that lie seconds apart a device may become hot and cool down."""
    made = [{"at": 100.0 + 4 * place, "temperature_c": 95 if place == 7 else 60} for place in range(16)]
    found = soak_measurements(SOAK, replace(GPU, facts={"slowdown_c": 89}), summarise(made))
    assert [each.value for each in found if each.metric == "soak.thermal_margin"] == [-6]


def test_two_readings_at_one_time_are_no_share_of_a_time() -> None:
    made = readings(7.0, 7.0, name="sw_thermal_s", every=0.0)
    short = replace(SOAK, ended=SOAK.started)
    assert status(soaked(made, "soak.throttle.sw_thermal", short)) is Status.UNMEASURED


# -- whether a soak loaded the device


HOT = replace(GPU, facts={"power_limit_w": 700.0})


def soaking(watts: float, degrees: list[float], capped: float = 0.0, seconds: float = 90.0) -> list[dict[str, Any]]:
    """One reading a second, with the temperature of each third."""
    at = range(round(seconds) + 1)
    thirds = [min(2, int(3 * second / (seconds + 1))) for second in at]
    return [
        {"at": 100.0 + second, "power_w": watts, "sw_power_cap_s": capped * second, "temperature_c": degrees[third]}
        for second, third in zip(at, thirds, strict=True)
    ]


@tabled("soak, limit_known, words", "data/judging/telemetry.yaml")
def test_a_soak_that_neither_reached_the_limit_nor_steadied_proves_little(
    soak: dict[str, Any], limit_known: bool, words: str | None
) -> None:
    readings, device = soaking(**soak) if soak else [], HOT if limit_known else GPU
    found = unproven("soak.rate", device, readings)
    assert found is None if words is None else words in str(found)
    assert unproven("matmul.bf16", device, readings) is None


def test_what_proves_little_is_marginal_where_it_holds_and_no_excuse_where_it_does_not() -> None:
    weak = replace(SOAK, samples=(), notes=(Note("unproven", "it was too cold"),))
    verdict = judge([weak], Limit("soak.rate", "TFLOPS", floor=600.0))
    assert (verdict.status, sentence_of(verdict).endswith("it was too cold")) == (Status.MARGINAL, True)
    assert judge([weak, weak], Limit("soak.rate", "TFLOPS", floor=800.0)).status is Status.FAIL
