"""A device against its neighbours: who they are, what is compared, and that what is clearly behind is rejected."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support import shipped
from support.judged_tables import tabled

from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.reasons import AllAlike, Alone, BehindNeighbours, Cause, Compared, Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import DeclaredBy, Limit, Source, Spread
from pytest_accel.core.verdict import Comparison, Status, Verdict
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.background import Background
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.judging.verdicts.like_devices import family_of, is_comparable, kind_of
from pytest_accel.skus import loader

WHERE = Source("measured", "us", "2026-11")
PRODUCTS = Spread(WHERE, between_devices=0.012)
MEMORY = Spread(WHERE, between_devices=0.003)
WIDTH = Spread(WHERE, widest=0.045)
CDNA = shipped.load("mi300x").spread_of("matmul.bf16")
FLOOR = Limit("matmul.fp16", "TFLOPS", floor=60.0, reference=65.0)


def one(value: float | None, subject: str = "GPU-7", metric: str = "matmul.fp16", unit: str = "TFLOPS") -> Measurement:
    return Measurement(metric, subject, unit, value)


def memory(value: float) -> Measurement:
    return one(value, metric="stream.triad", unit="GB/s")


def at_clock(value: float, mhz: float, subject: str = "GPU-7") -> Measurement:
    clock = {"mean": mhz, "min": mhz, "max": mhz}
    return replace(one(value, subject), details={"telemetry": {"seconds": 10.0, "clock_mhz": clock}})  # type: ignore[typeddict-item]


def beside(
    *attempts: Measurement,
    spread: Spread | None = None,
    others: Sequence[float | Measurement] = (100.0,) * 7,
    limit: Limit | None = None,
    software: dict[str, str] | None = None,
    not_repeated: str = "",
) -> Verdict:
    """Return the verdict on GPU-7 beside seven others."""
    last = replace(attempts[0], details={}, notes=(), trouble=None)
    alike = [
        [each if isinstance(each, Measurement) else replace(last, subject=f"GPU-{place}", value=each)]
        for place, each in enumerate(others)
    ]
    background = Background([attempts, *alike], [attempts, *alike], spread, not_repeated=not_repeated)
    return judge(attempts, limit, software or {}, background=background)


def behind(verdict: Verdict) -> Comparison | None:
    found = verdict.neighbours
    assert (BehindNeighbours() in verdict.reasons) == (found is not None and found.status is not Status.PASS)
    return found if BehindNeighbours() in verdict.reasons else None


def test_the_verdict_has_gap_median_and_what_healthy_devices_show() -> None:
    verdict = beside(one(701.2), spread=PRODUCTS, others=[746.8] * 7)
    assert (verdict.status, verdict.reasons) == (Status.MARGINAL, (Note("value"), BehindNeighbours()))
    assert figures(verdict) == (0.061, 0.053, 746.8, 7)
    assert figures(beside(one(70.0))) == (0.3, 0.24, 100.0, 7)


def figures(verdict: Verdict) -> tuple[float, float, float, int]:
    """What a device lacks, what healthy ones lack at most, the median of the others, and their number."""
    found = behind(verdict)
    assert found
    return (round(found.lost, 3), round(found.allowed, 3), found.middle, found.count)


@tabled("metric, unit, value, status", "data/judging/references.yaml")
def test_how_far_behind_is_a_shortfall_where_no_spread_is_known(
    metric: str, unit: str, value: float, status: Status
) -> None:
    assert beside(one(value, metric=metric, unit=unit)).status is status


def test_a_stated_spread_makes_it_narrower_and_the_noise_of_its_own_blocks_counts() -> None:
    class_, runs = replace(MEMORY, declared_by=DeclaredBy.VENDOR_FILE), replace(MEMORY, between_runs=0.01)
    assert [beside(memory(value), spread=MEMORY).status for value in (98.5, 97.5)] == [Status.MARGINAL, Status.FAIL]
    assert [beside(memory(value), spread=class_).status for value in (97.5, 96.5)] == [Status.MARGINAL, Status.FAIL]
    assert beside(memory(97.5), spread=runs).status is Status.NOT_APPLICABLE
    quiet, noisy = (replace(memory(97.5), samples=samples * 10) for samples in ((97.5, 97.5), (80.0, 115.0)))
    assert beside(quiet, spread=MEMORY).status is Status.FAIL
    assert beside(noisy, spread=MEMORY).status is Status.NOT_APPLICABLE


PACES = (1.0, 1.004, 0.996, 1.006, 0.994, 1.002, 0.998)
NODE_AT_CLOCK = [at_clock(100.0, 1400.0, f"GPU-{place}") for place in range(7)]


@tabled("value, mhz, known, status, found_at_clock", "data/judging/references.yaml")
def test_products_are_compared_at_their_clock_and_as_they_are(
    value: float, mhz: float, known: str | None, status: Status, found_at_clock: bool | None
) -> None:
    spreads = {"width": WIDTH, "cdna": CDNA, "quiet": replace(PRODUCTS, at_clock=0.005)}
    verdict = beside(at_clock(value, mhz), spread=spreads[known] if known else None, others=NODE_AT_CLOCK)
    assert verdict.status is status
    found = behind(verdict)
    assert (found and found.at_clock) == found_at_clock


def test_a_spread_of_the_users_own_keeps_the_width_of_the_class(tmp_path: Path) -> None:
    """A calibrated file replaces the spread as a whole, and says nothing of how far a node of CDNA spans."""
    own = tmp_path / "own.yaml"
    source = "{kind: measured, by: us, date: 2026-11, devices: 32, nodes: 4}"
    own.write_text(f"sku: own\nextends: mi300x\nspread:\n  matmul: {{between_devices: 0.01, source: {source}}}\n")
    spread = loader.load(str(own)).spread_of("matmul.bf16")
    assert beside(at_clock(84.0, 1400.0), spread=spread, others=NODE_AT_CLOCK).status is Status.MARGINAL
    widths = [sku.spread_of("matmul.bf16") for sku in shipped.every() if sku.vendor == "amd"]
    assert {spread.widest if spread else None for spread in widths} == {0.17}


def test_a_clock_that_is_not_known_hides_nothing() -> None:
    assert beside(one(74.0), spread=WIDTH, others=NODE_AT_CLOCK).status is Status.FAIL
    assert beside(one(90.0), spread=WIDTH, others=NODE_AT_CLOCK).status is Status.NOT_APPLICABLE
    unread = [one(100.0, "GPU-0"), replace(one(None, "GPU-1"), trouble=Trouble("device", "it was lost"))]
    assert beside(at_clock(90.0, 1400.0), spread=WIDTH, others=[*unread, *NODE_AT_CLOCK[2:]]).status is Status.FAIL
    assert beside(at_clock(90.0, 1400.0), spread=WIDTH, others=[*unread, *NODE_AT_CLOCK[5:]]).status is not Status.FAIL


def test_a_device_that_slows_itself_down_is_compared_as_it_is_by_the_wider_bound() -> None:
    """Its slowdown is told by its own limits; few readings do not tell the clock at which it did its work."""

    def status(one: Measurement, spread: Spread | None, **telemetry: Any) -> Status:
        told: Any = {**one.details["telemetry"], **telemetry}
        return beside(replace(one, details={"telemetry": told}), spread=spread, others=NODE_AT_CLOCK).status

    slow, few = at_clock(84.0, 1176.0), at_clock(86.0, 1400.0)
    assert status(slow, WIDTH) is Status.FAIL
    assert status(slow, WIDTH, sw_thermal_s=0.4) is Status.MARGINAL
    assert status(few, None, hw_thermal_s=0.4, readings=5) is Status.NOT_APPLICABLE
    assert status(few, None, hw_thermal_s=0.4, readings=50) is Status.FAIL
    assert status(few, None, hw_thermal_s=0.0, readings=4) is Status.NOT_APPLICABLE


def sampled(one: Measurement) -> Measurement:
    """With samples that are too few for an interval of a median (`core.stats.estimate_median`)."""
    return replace(one, samples=(float(one.value or 0),) * 8, statistic="median")


def test_every_published_figure_that_is_made_fifteen_percent_worse_fails_beside_seven_healthy_ones() -> None:
    """At one clock; a node of CDNA was published to span 17 %."""
    passed, figures = [], set()
    with (Path(__file__).parents[1] / "data" / "published.csv").open(newline="") as file:
        published = [row for row in csv.DictReader(file) if not row["exception"]]
    for row in published:
        sku, unit, figure = shipped.load(row["sku"]), row["unit"], float(row["value"])
        family = family_of(row["metric"], unit)
        if family in ("matmul", "memory", "host link", "peer links") and is_comparable(
            one(1.0, metric=row["metric"], unit=unit)
        ):
            figures.add((sku.name, row["metric"]))
            lost = 0.2 if family == "matmul" and str(sku.architecture).startswith("CDNA") else 0.15
            paces = [*PACES, PACES[0] * (1 - lost)]
            node = [at_clock(figure * pace, 1400.0, f"GPU-{place}") for place, pace in enumerate(paces)]
            *others, bad = (sampled(replace(each, metric=row["metric"], unit=unit)) for each in node)
            verdict = beside(bad, spread=sku.spread_of(row["metric"]), others=others)
            passed += [] if verdict.status is Status.FAIL else [(sku.name, row["metric"], verdict.status)]
    assert not passed
    assert len(figures) > 150


def test_a_median_of_few_copies_hides_no_device() -> None:
    h200 = shipped.load("h200-sxm").spread_of("host_copy.d2h")
    for value, status in ((51.15, Status.NOT_APPLICABLE), (46.75, Status.FAIL)):
        slow = sampled(one(value, metric="host_copy.d2h", unit="GB/s"))
        assert beside(slow, spread=h200, others=[55.0] * 7).status is status


@tabled("limit, value, status", "data/judging/references.yaml")
def test_no_limit_clears_what_is_far_behind_and_none_that_does_not_hold_swallows_it(
    limit: Limit, value: float, status: Status
) -> None:
    verdict = beside(one(value), limit=limit, software={"torch": "2.13"})
    assert verdict.status is status
    assert (behind(verdict) is not None) == (status is not Status.PASS)


def test_what_fails_by_its_limit_is_told_by_its_limit_and_its_cause_once() -> None:
    short = beside(one(40.0), limit=FLOOR)
    assert (short.status, short.reasons) == (Status.FAIL, (Compared("floor"),))
    slow = replace(one(59.0), notes=(Note("cause", "its clock is low"),))
    verdict = beside(slow, limit=replace(FLOOR, floor=50.0))
    assert (verdict.status, sentence_of(verdict).count("its clock is low")) == (Status.FAIL, 1)


def test_devices_that_are_short_alike_are_told_so_and_none_is_behind() -> None:
    floor = Limit("stream.triad", "GB/s", floor=98.0, reference=100.0)
    assert beside(memory(95.0), spread=MEMORY, others=[95.1] * 7, limit=floor).reasons[-1] == AllAlike(8)
    assert AllAlike(8) not in beside(memory(90.0), spread=MEMORY, others=[95.1] * 7, limit=floor).reasons
    assert AllAlike(8) not in beside(memory(97.5), spread=MEMORY, others=[99.0] * 7, limit=floor).reasons
    assert beside(one(50.0), others=[50.0] * 7).status is Status.NOT_APPLICABLE


def test_who_counts_as_a_neighbour() -> None:
    assert beside(memory(96.0), others=[100.0] * 3).status is Status.FAIL
    assert beside(memory(96.0), others=[100.0] * 2).status is Status.NOT_APPLICABLE, "too few"
    assert beside(memory(96.0), others=[100.0] * 6 + [0.0]).status is Status.FAIL
    assert beside(memory(0.0)).status is Status.FAIL
    assert beside(one(40.0, subject=NODE)).status is Status.NOT_APPLICABLE
    disturbed = replace(one(40.0), notes=(Note("disturbed", "in use"),))
    others = [replace(disturbed, subject=f"GPU-{place}", value=100.0) for place in range(7)]
    assert beside(one(40.0), others=others).status is Status.NOT_APPLICABLE
    for own in (disturbed, replace(one(None), trouble=Trouble("need", "no time"))):
        assert (beside(own).status is Status.FAIL, behind(beside(own))) == (False, None)


def test_a_power_of_zero_is_no_reading() -> None:
    """The driver states the power of an MI250 for the first of its two devices, and 0 for the second."""
    second = one(0.0, metric="soak.power", unit="W")
    assert beside(second, others=(540.0, 0.0, 541.0, 0.0, 539.0, 0.0, 540.0)).status is Status.NOT_APPLICABLE
    assert beside(second, others=(540.0, 539.0, 541.0, 540.0)).status is Status.NOT_APPLICABLE


def test_the_repeat_confirms_clears_or_leaves_it_open() -> None:
    slow, fine = memory(96.0), memory(99.9)
    assert beside(slow, slow).status is Status.FAIL
    cleared = beside(slow, fine)
    found = behind(cleared)
    assert (cleared.status, found and found.at_first) == (Status.MARGINAL, True)
    open_ = beside(slow, replace(fine, notes=(Note("disturbed", "another process"),)))
    assert (open_.status, open_.reasons[-1]) == (Status.INCONCLUSIVE, Note("one_round"))
    late = beside(slow, not_repeated="no time")
    assert (late.status, late.reasons[-1]) == (Status.INCONCLUSIVE, Note("repeat_without_time", "no time"))
    once = beside(one(40.0), one(100.0))
    assert (once.status, once.reasons[-1]) == (Status.FAIL, Note("beyond_noise"))
    busy = replace(one(40.0), notes=(Note("load", "other processes take 90% of the processor's time"),))
    assert beside(busy, busy).status is Status.MARGINAL, "a CPU of a machine at work"


def test_the_cause_is_that_of_the_round_that_fell_short() -> None:
    hot = "HW thermal slowdown 90% of the time"
    slow = replace(one(40.0), notes=(Note("cause", hot),))
    assert beside(slow, one(100.0)).reasons[-1] == Cause(hot)
    found = beside(slow, slow, replace(slow, value=99.0, how="alone")).reasons
    assert found[-2:] == (Alone(99.0, "TFLOPS"), Cause(hot))


def gpu(place: int, **changes: Any) -> Device:
    facts = {"pcie_gen_max": 5, "pcie_width_max": 16, "nvlink_count": 18}
    return Device(f"GPU-{place}", place, **{"driver": "nvidia", "model": "H100", "facts": facts, **changes})


def attempts_of(devices: Sequence[Device], **more: Any) -> RequestAttempts:
    return RequestAttempts(kinds={each.uuid: kind_of(each) for each in devices}, **more)


@tabled("metric, changes, value, found", "data/judging/references.yaml")
def test_devices_of_one_kind_in_one_place_are_compared(
    metric: str, changes: dict[str, Any], value: float, found: bool
) -> None:
    devices = [*(gpu(place) for place in range(4)), gpu(4, **changes)]
    result = attempts_of(devices)
    unit = "TFLOPS" if metric.startswith("matmul") else "GB/s"
    for device in devices:
        result.add(one(value if device.index == 4 else 100.0, device.uuid, metric, unit))
    assert (result.verdict_on(metric, "GPU-4", None).status is Status.FAIL) is found
    assert [each.subject for each in result.shortfalls(metric, None)] == ["GPU-4"] * found, "measured again"


def test_a_marginal_distance_is_measured_again_once() -> None:
    devices = [gpu(place) for place in range(5)]
    result = attempts_of(devices, spread_of=lambda _: PRODUCTS)
    for device in devices:
        result.add(one(90.0 if device.index == 4 else 100.0, device.uuid))
    assert [each.subject for each in result.shortfalls("matmul.fp16", None)] == ["GPU-4"]
    result.end_rounds()
    assert result.shortfalls("matmul.fp16", None) == []


def test_a_verdict_follows_the_neighbours_attempts() -> None:
    """What was judged before the others were measured again is judged anew."""
    devices = [gpu(place) for place in range(4)]
    result = attempts_of(devices)
    for others, status in ((40.0, Status.NOT_APPLICABLE), (100.0, Status.FAIL)):
        for device in devices:
            result.add(one(others if device.index else 40.0, device.uuid))
        assert result.verdict_on("matmul.fp16", "GPU-0", None).status is status


def test_a_fact_of_another_kind_is_no_place_in_the_node() -> None:
    odd = gpu(0, facts={"pcie_path": 5, "xgmi_states": "x"})
    assert kind_of(odd) == kind_of(replace(odd, facts={}))
