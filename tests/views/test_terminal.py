"""What a person reads: the table, the closing line, the plan; and what pytest-benchmark is given."""

import importlib
import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support import shipped
from support.reasons import worded
from support.rows import each_row

from pytest_accel import suite
from pytest_accel.core.measurement import Device, Measurement, Names, Peak
from pytest_accel.core.reasons import AllAlike, BehindNeighbours, Cause, Compared, Note
from pytest_accel.core.run import Objection
from pytest_accel.core.sku_types import Basis, Limit
from pytest_accel.core.verdict import Closing, Comparison, Result, Status, Verdict
from pytest_accel.judging.causes.findings import findings
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.setup import Target
from pytest_accel.run.terms import Terms
from pytest_accel.views import plan
from pytest_accel.views.benchmark_replay import Replay, publish
from pytest_accel.views.table import table
from pytest_accel.views.terminal import (
    closing_lines,
    folded,
    hash_lines,
    sensitivity_lines,
    why_lines,
)

NAMES = Names({"node": "node", "GPU-0": "gpu0", "GPU-1": "gpu1", "GPU-2": "gpu2", "GPU-3": "gpu3"})
WEAKEST = "<: the weakest device of the metric; +N: N more limits with the same cause"
FLOOR = Limit("matmul.bf16", "TFLOPS", floor=672.0, origin="h100-sxm.yaml:20")


def judged(value: float, subject: str = "GPU-0", metric: str = "matmul.bf16") -> Verdict:
    return judge([Measurement(metric, subject, "TFLOPS", value)], FLOOR)


def rows(*verdicts: Verdict) -> list[str]:
    return [" ".join(text.split()) for text, _ in table(verdicts, NAMES)]


def colours(*verdicts: Verdict) -> list[str]:
    return [colour for _, colour in table(verdicts, NAMES)]


# -- the table


@each_row(
    ("value", "limit", "row"),
    [
        (12.0, Limit("counters.ecc", "per h", ceiling=5e7, warn=10.0), "MARGINAL {} 12 per h warn 10 per h -20.0%"),
        (5.65, Limit("soak.throttle.hw_thermal", "s", ceiling=0.05), "FAIL {} 5.65 s ceiling 0.05 s 113x"),
        (7, Limit("inventory.pcie_width", "count", equals=8), "FAIL {} 7 = 8"),
        (3, Limit("xid", "count", ceiling=0.0), "FAIL {} 3 ceiling 0"),
    ],
)
def test_a_value_is_beside_the_limit_that_it_breaks(value: float, limit: Limit, row: str) -> None:
    found = judge([Measurement(limit.metric, "GPU-0", limit.unit, value)], limit)
    assert rows(found)[1] == row.format(f"gpu0 {limit.metric}")


def test_one_row_per_verdict_worst_first() -> None:
    found = [judged(730.0), judged(612.4, "GPU-1"), judged(740.0, "GPU-2")]
    assert [" ".join(text.split()) for text, _ in table(found, NAMES, full=True)] == [
        "status device metric value limit margin",
        "FAIL gpu1 < matmul.bf16 612.4 TFLOPS floor 672 TFLOPS -8.9%",
        "PASS gpu0 matmul.bf16 730 TFLOPS floor 672 TFLOPS +8.6%",
        "PASS gpu2 matmul.bf16 740 TFLOPS floor 672 TFLOPS +10.1%",
        WEAKEST,
    ]


def test_of_many_devices_those_that_hold_share_a_row_that_names_the_weakest() -> None:
    """Eight devices and forty metrics are three hundred rows, and the one that fails is what one looks for."""
    assert rows(judged(740.0), judged(612.4, "GPU-1"), judged(730.0, "GPU-2"), judged(735.0, "GPU-3"))[1:] == [
        "FAIL gpu1 < matmul.bf16 612.4 TFLOPS floor 672 TFLOPS -8.9%",
        "PASS 3 of 4, gpu2 matmul.bf16 730 to 740 TFLOPS floor 672 TFLOPS +8.6%",
        WEAKEST,
    ]
    assert rows(judged(740.0), judged(730.0, "GPU-1"), judged(730.0, "GPU-2"))[1].startswith("PASS all 3, gpu1 <")
    assert rows(*(judged(730.0, f"GPU-{place}") for place in range(3)))[1].startswith("PASS all 3 matmul"), "no slowest"


def test_the_share_of_the_peak_stands_beside_the_value_where_there_is_one() -> None:
    def found(value: float, subject: str) -> Verdict:
        samples, peak = (value,) * 3, Peak(989.4, "datasheet")
        return judge([Measurement("matmul.bf16", subject, "TFLOPS", value, samples=samples, peak=peak)], FLOOR)

    lines = rows(found(612.4, "GPU-1"), found(730.0, "GPU-2"), found(745.0, "GPU-3"), judged(700.0))
    assert lines[:3] == [
        "status device metric value of peak limit margin",
        "FAIL gpu1 < matmul.bf16 612.4 TFLOPS 62% floor 672 TFLOPS -8.9%",
        "PASS 3 of 4, gpu0 matmul.bf16 700 to 745 TFLOPS 74 to 75% floor 672 TFLOPS +4.2%",
    ]


def test_facts_that_are_as_expected_on_many_devices_are_one_line() -> None:
    limit = Limit("health.remap_pending", "count", equals=0)
    values = [0, 0, 1, 0]
    found = [judge([Measurement(limit.metric, f"GPU-{i}", "count", value)], limit) for i, value in enumerate(values)]
    assert rows(*found)[1:] == [
        "FAIL gpu2 health.remap_pending 1 = 0",
        "health: 0 facts as expected on 4 devices, health.remap_pending on 3 (-v lists them)",
    ]
    assert len(table(found, NAMES, full=True)) == 1 + 2
    nics = Limit("host.nics_active", "count", floor=8)
    assert rows(judge([Measurement(nics.metric, "node", "count", 8)], nics)) == [
        "host: 1 fact as expected (-v lists them)"
    ]


def test_a_row_has_the_colour_of_its_status() -> None:
    found = {each: colours(Verdict("a", "GPU-0", each, worded("why"), limit=FLOOR))[1:] for each in Status}
    assert {status.value: shown[0] for status, shown in found.items() if shown} == {
        "FAIL": "red",
        "UNMEASURED": "red",
        "INCONCLUSIVE": "yellow",
        "MARGINAL": "yellow",
        "PASS": "green",
    }


def test_a_marginal_row_says_why() -> None:
    lines = table([judged(675.0)], NAMES)
    assert lines[-1] == (
        "marginal: gpu0 matmul.bf16: 675 TFLOPS, floor 672 TFLOPS (+0.4%); within 2% of the floor",
        "yellow",
    )


def test_what_cannot_exist_is_shown_by_v_with_the_reasons() -> None:
    nothing = [
        Verdict("peer_copy.both", uuid, Status.NOT_APPLICABLE, worded("one device")) for uuid in ("GPU-0", "GPU-1")
    ]
    other = Verdict("matmul.fp8", "GPU-0", Status.NOT_APPLICABLE, worded("no fast path"))
    assert len(rows(judged(730.0), *nothing, other)) == 2
    assert [text for text, _ in table([*nothing, other], NAMES, full=True)] == []
    assert [text for text, _ in table([judged(730.0), *nothing, other], NAMES, full=True)][2:] == [
        "not applicable: peer_copy.both: one device",
        "not applicable: matmul.fp8: no fast path",
    ]


def test_metrics_that_are_0_on_all_devices_share_a_line() -> None:
    """Wrong products and seconds of slowdown: a healthy node has a dozen such metrics."""
    limits = [Limit("exact_matmul.bf16", "count", equals=0), Limit("soak.throttle.hw_thermal", "s", ceiling=0.05)]

    def found(*last: float) -> list[Verdict]:
        values = [[0.0, 0.0, 0.0, each] for each in last]
        made = [
            (limit, f"GPU-{place}", each)
            for limit, own in zip(limits, values, strict=True)
            for place, each in enumerate(own)
        ]
        return [judge([Measurement(limit.metric, uuid, limit.unit, each)], limit) for limit, uuid, each in made]

    assert rows(*found(0.0, 0.0)) == ["2 metrics at 0 (-v lists them)"]
    one_wrong = rows(*found(1.0, 0.0))
    assert one_wrong[1] == "FAIL gpu3 exact_matmul.bf16 1 = 0"
    assert one_wrong[-1] == "2 metrics at 0 (-v lists them)"
    assert len(table(found(0.0, 0.0), NAMES, full=True)) == 1 + 8


def test_what_nothing_else_judges_is_shown_although_it_has_no_limit() -> None:
    """The bandwidth of an unknown board is the first thing that one wants to see."""
    values = [judge([Measurement("stream.triad", f"GPU-{place}", "GB/s", 700.0)], None) for place in range(4)]
    assert "700 GB/s" in " ".join(rows(*values))
    judged_too = [judged(673.0, f"GPU-{place}", "stream.copy_kernel") for place in range(4)]
    assert "700 GB/s" not in " ".join(rows(*values, *judged_too))


def test_the_worst_of_the_marginal_limits_of_a_device_is_told_and_the_others_counted() -> None:
    near = [judged(673.0, "GPU-1"), judged(674.0, "GPU-1", "matmul.fp16"), judged(675.0, "GPU-2")]
    told = [line for line in rows(*near) if line.startswith("marginal: ")]
    assert [line.partition(": 67")[0] for line in told] == ["marginal: gpu1 matmul.bf16", "marginal: gpu2 matmul.bf16"]
    assert told[0].endswith(" (and 1 more)")
    assert sum(text.startswith("marginal: ") for text, _ in table(near, NAMES, full=True)) == 3


def test_of_a_device_with_many_marginal_limits_the_worst_have_rows() -> None:
    """One device that is 5 % slow is marginal in a dozen products, which say the same."""
    near = [
        judged(673.0 + place, "GPU-1", f"matmul.{name}") for place, name in enumerate(("bf16", "fp8", "tf32", "int8"))
    ]
    fine = [judged(730.0, f"GPU-{place}") for place in (0, 2, 3)]
    shown = [line for line in rows(*near, *fine) if line.startswith("MARGINAL")]
    assert [re.search(r"matmul\.\w+", line)[0] for line in shown] == ["matmul.bf16", "matmul.fp8", "matmul.tf32"]  # type: ignore[index]
    assert sum(text.startswith("MARGINAL") for text, _ in table([*near, *fine], NAMES, full=True)) == 4
    failing = judged(600.0, "GPU-1", "soak.rate")
    told = [line for line in rows(*near, *fine, failing) if line.startswith("marginal: ")]
    assert told == ["marginal: gpu1: 1 more (-v lists them)"], "what fails matters more"


def test_what_is_no_number_does_not_break_the_table() -> None:
    for value in (math.nan, math.inf, None):
        found = judge([Measurement("matmul.bf16", "GPU-0", "TFLOPS", value)], FLOOR)
        assert " gpu0 matmul.bf16" in rows(found)[1]
    assert table([], NAMES) == []


def left_out(metric: str, subject: str = "GPU-1", why: str = "its worker hung in a.b") -> Verdict:
    return Verdict(
        metric, subject, Status.FAIL, (Note("left_out", why),), limit=FLOOR, device_failed=True, event="left out"
    )


def test_what_falls_short_by_one_cause_is_one_row_of_its_device() -> None:
    """Two causes on one device are two rows, one below the other; -v has a row for each limit."""

    def short(metric: str, subject: str, value: float) -> Verdict:
        return judge([Measurement(metric, subject, "GB/s", value)], Limit(metric, "GB/s", floor=100.0, origin="a:1"))

    memory = [short(f"stream.{kind}", "GPU-1", 90.0 + place) for place, kind in enumerate(("copy", "triad", "read"))]
    every = [*memory, short("stream.copy", "GPU-0", 95.0), short("host_copy.h2d", "GPU-1", 99.0), judged(730.0)]
    found = findings(every, [], [])
    lines = [" ".join(text.split()[:5]) for text, _ in table(every, NAMES, found)]
    assert lines[1:4] == [
        "FAIL gpu1 < stream.copy +2",
        "FAIL gpu1 host_copy.h2d 99 GB/s",
        "FAIL gpu0 stream.copy 95 GB/s",
    ]
    assert len([text for text, _ in table(every, NAMES, found, full=True) if text.startswith("FAIL")]) == len(every) - 1


def test_a_device_that_hangs_is_two_rows_whatever_it_left_unmeasured() -> None:
    hung = Verdict("a.b", "GPU-1", Status.FAIL, worded("its process sent nothing for 60 s"), limit=FLOOR, event="hung")
    found = [judged(730.0), *(left_out(f"x.{place}") for place in range(20)), hung]
    assert rows(*found)[1:3] == [
        "FAIL gpu1 a.b: its process sent nothing for 60 s",
        "FAIL gpu1 20 limits not measured: its worker hung in a.b",
    ]
    assert len(table(found, NAMES, full=True)) == 1 + 22, "-v lists them"


def test_one_need_of_all_devices_is_one_row() -> None:
    uuids = [uuid for uuid in NAMES if uuid != "node"]
    found = [
        Verdict(metric, uuid, Status.UNMEASURED, worded("no torch"), limit=FLOOR) for metric in "abc" for uuid in uuids
    ]
    assert rows(*found)[1:] == ["UNMEASURED all 4 a and 2 more: no torch"]


def test_error_counters_that_did_not_count_are_one_line_and_one_that_did_has_a_row() -> None:
    limit = Limit("counters.pcie_replays", "per min", ceiling=8.0)
    found = [judge([Measurement(limit.metric, f"GPU-{i}", "per min", i // 3)], limit) for i in range(4)]
    assert rows(*found)[1:] == [
        "PASS gpu3 < counters.pcie_replays 1 per min ceiling 8 per min +87.5%",
        WEAKEST,
        "counters: 0 facts as expected on 4 devices, counters.pcie_replays on 3 (-v lists them)",
    ]


def wide() -> list[Verdict]:
    """Verdicts whose rows need 120 columns: long metrics, ranges of values."""
    brake = Limit("soak.throttle.power_brake", "TFLOPS", floor=672.0, origin="h100-sxm.yaml:20")

    def found(value: float, subject: str, limit: Limit) -> Verdict:
        peak = Peak(989.4, "datasheet")
        samples = (value,) * 3
        return judge([Measurement(limit.metric, subject, "TFLOPS", value, samples=samples, peak=peak)], limit)

    limits = (brake, Limit("all_reduce.busbw@8GiB", "TFLOPS", floor=672.0, origin="h100-sxm.yaml:21"))
    return [found(600.3 + 50 * place, f"GPU-{place}", limit) for place in range(4) for limit in limits]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_table_fits_the_terminal_and_begins_with_the_status(width: int) -> None:
    lines = [text for text, _ in folded(table([*wide(), left_out("a" * 20)], NAMES, width=width), width)]
    assert max(map(len, lines)) <= width
    figures = [line for line in lines if "all_reduce" in line]
    assert [line.split()[0] for line in figures] == ["FAIL", "FAIL", "PASS"]
    assert all(line.rstrip().endswith("%") for line in figures)


def test_the_distance_that_neighbours_allow_is_the_limit_that_is_shown() -> None:
    """The floor holds: beside a FAIL it would contradict itself."""
    far = Comparison(0.11, 0.09, 701.3, 7, status=Status.FAIL)
    found = [
        replace(judged(690.0), status=Status.FAIL, reasons=(Compared("floor"), BehindNeighbours()), neighbours=far)
    ]
    wide, narrow = ([" ".join(text.split()) for text, _ in table(found, NAMES, width=width)][1] for width in (120, 60))
    assert wide == "FAIL gpu0 matmul.bf16 690 TFLOPS 9.0% behind 7 neighbours -11.0%"
    assert narrow == "FAIL gpu0 matmul.bf16 690 TFLOPS 9.0% behind -11.0%"


def test_the_longest_status_breaks_no_row_of_80_columns() -> None:
    """It is abbreviated there, since a single column too many would put every margin on a line of its own."""
    metric = "soak.throttle.power_brake@8GiB"
    doubtful = Verdict(metric, "GPU-1", Status.INCONCLUSIVE, (), "TFLOPS", 600.3, 672.0, margin=-0.107, limit=FLOOR)
    lines = [text for text, _ in table([*wide(), doubtful], NAMES, width=80)]
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:3] == ["INCONCL.", "gpu1", metric] for line in lines)
    assert any(line.startswith("INCONCLUSIVE") for line, _ in table([*wide(), doubtful], NAMES, width=120))


def test_a_wide_terminal_shows_the_range_and_the_unit_of_the_limit() -> None:
    text = "\n".join(text for text, _ in table(wide(), NAMES, width=120))
    assert "floor 672 TFLOPS" in text
    assert "700.3 to 750.3 TFLOPS" in text


# -- the closing line


@each_row(
    ("closing", "verdicts", "colour"),
    [
        (Closing("ACCEPTED 2/2 devices", 0, Result.ACCEPTED), [judged(730.0)], "green"),
        (Closing("ACCEPTED 2/2 devices (1 marginal)", 0, Result.ACCEPTED), [judged(675.0)], "yellow"),
        (Closing("HELD 1/1 limits", 0, Result.HELD), [judged(730.0)], "green"),
        (Closing("REJECTED gpu0", 1, Result.REJECTED), [judged(612.0), judged(675.0, "GPU-1")], "red"),
        (Closing("NOT JUDGED", 6, Result.NOT_JUDGED), [], "red"),
        (Closing("BROKEN", 3, Result.BROKEN), [judged(730.0)], "red"),
        (Closing("INTERRUPTED", 2, Result.INTERRUPTED), [judged(675.0)], "red"),
    ],
)
def test_only_a_good_end_is_green(closing: Closing, verdicts: list[Verdict], colour: str) -> None:
    assert closing_lines(closing, verdicts) == [(closing.line, colour)]


def test_a_narrow_terminal_breaks_no_metric_of_the_last_lines() -> None:
    line = "ACCEPTED 8/8 devices as h100-sxm at quick (1 marginal: gpu0 counters.remapped_rows_corrected +1%; 6 more)"
    finds = (
        "with 95% probability this run rejects one of 8 devices that is slower than the others by 50.1% in matmul, "
        "6.3% in memory; and all devices if they reach less of the datasheet than 51% in matmul, 80% in memory"
    )
    closing = Closing(line, 0, Result.ACCEPTED, sensitivity=finds)
    assert [text for text, _ in closing_lines(closing, [], 80)] == [
        "ACCEPTED 8/8 devices as h100-sxm at quick",
        "  (1 marginal: gpu0 counters.remapped_rows_corrected +1%; 6 more)",
    ]
    assert [text for text, _ in sensitivity_lines(closing, [], 80, full=False)] == [
        "sensitivity: with 95% probability this run rejects one of 8 devices that is",
        "  slower than the others by 50.1% in matmul, 6.3% in memory;",
        "  and all devices if they reach less of the datasheet than 51% in matmul,",
        "  80% in memory",
    ]
    assert closing_lines(closing, []) == [(line, "green")], "in a file it stays one line"
    assert sensitivity_lines(closing, [], None, full=False) == [(f"sensitivity: {finds}", "")]


def test_the_sensitivity_is_shown_where_nothing_else_says_what_an_acceptance_is_worth() -> None:
    of_class = replace(judged(730.0), basis=Basis.CLASS)
    accepted, held = (
        Closing(result.value, 0, result, sensitivity="a loss") for result in (Result.ACCEPTED, Result.HELD)
    )
    assert sensitivity_lines(accepted, [judged(730.0)], None, full=False), (
        "measured by our method: it goes without saying"
    )
    assert not sensitivity_lines(accepted, [of_class], None, full=False), "the closing line tells it"
    assert not sensitivity_lines(held, [judged(730.0)], None, full=False)
    assert sensitivity_lines(held, [judged(730.0)], None, full=True)


def test_details_stand_below_the_closing_line_once_for_devices_that_fall_short_alike() -> None:
    slow = [
        replace(judged(612.0, f"GPU-{place}"), reasons=(Compared("floor"), Cause("HW thermal 100%")))
        for place in range(4)
    ]
    alike = [verdict.because(AllAlike(4)) for verdict in slow]
    closing = Closing("REJECTED", 1, Result.REJECTED, verdicts=tuple(slow))
    assert [text for text, _ in why_lines(closing, NAMES)] == [
        "why: gpu0 matmul.bf16: HW thermal 100%",
        "why: gpu1 matmul.bf16: HW thermal 100%",
        "why: gpu2 matmul.bf16: HW thermal 100%",
        "why: -v shows the other devices",
    ]
    assert len(why_lines(closing, NAMES, full=True)) == 4
    told = why_lines(replace(closing, verdicts=tuple(alike)), NAMES)
    assert told == [("why: gpu0 matmul.bf16: HW thermal 100%; all 4 devices alike", "")]


def test_a_hash_is_never_shown_without_the_words_that_it_is_no_signature() -> None:
    for width, count in ((None, 1), (40, 2), (80, 2), (120, 1)):
        lines = [text for text, _ in hash_lines("a" * 64, width)]
        assert " ".join(line.strip() for line in lines) == f"sha256: {'a' * 64}, unsigned"
        assert len(lines) == count


# -- the plan


def packaged(test: str) -> Any:
    """A test of the packaged suite, by its name."""
    found = [getattr(importlib.import_module(f"pytest_accel.suite.{module}"), test, None) for module in suite.ORDER]
    return next(filter(None, found))


def planned(*tests: tuple[str, dict[str, Any]], devices: int = 8, platform: str = "hgx8") -> list[str]:
    sku = shipped.load("h100-sxm")
    gpus = [Device(uuid=f"GPU-{i}", index=i, driver="nvidia", model="H100") for i in range(devices)]
    found = Target(Discovery(), Terms(sku, sku.platforms[platform], "quick"), gpus)
    items = [
        SimpleNamespace(fixturenames=["accel_check"], function=packaged(name), callspec=SimpleNamespace(params=params))
        for name, params in tests
    ]
    *lines, outcome = [" ".join(text.split()) for text, _ in plan.lines(found, items, [])]
    assert outcome == "it can end in ACCEPTED"
    return lines


def test_a_measurement_is_planned_once_for_all_devices() -> None:
    tests = [("test_matmul", {"_accel_subject": f"GPU-{i}", "dtype": "fp8"}) for i in range(8)]
    lines = planned(*tests)
    assert lines[0] == "matmul fp8 up to 5 s"
    assert lines[1].startswith("at most about 47 s on 8 devices, 5 s of it for what falls short; ")


def test_metrics_of_one_measurement_take_its_time_once() -> None:
    """At level quick the sustained product is the beginning of the soak."""
    assert planned(("test_host_copy", {"direction": "h2d"}))[0] == "host_copy h2d up to 4 s", "one after the other"
    soak = (("test_soak", {"metric": metric}) for metric in ("soak.rate", "soak.power"))
    lines = planned(("test_matmul", {"dtype": "bf16"}), *soak)
    assert lines[:-1] == ["soak up to 7 s"]


def test_what_is_not_measured_takes_no_time() -> None:
    assert len(planned(("test_inventory_node", {"fact": "count"}))) == 1
    assert len(planned(("test_peer_copy", {"direction": "both"}), platform="single")) == 1
    own = SimpleNamespace(fixturenames=["tmp_path"])
    assert len(plan.lines(Target(Discovery(), Terms(), ()), [own], [])) == 2, "tests of others"


def test_a_plan_says_why_it_cannot_end_in_an_acceptance() -> None:
    sku = shipped.load("t4")
    found = Target(Discovery(), Terms(sku, sku.platforms["pcie"], "quick"), ())
    filtered = Objection("filter", "filtered by -k")
    outcome, _ = plan.lines(found, [], [filtered])[-1]
    assert outcome.startswith("it cannot end in ACCEPTED: filtered by -k; platform pcie of t4 does not say how many")


# -- pytest-benchmark

REPLAY = Replay()


@pytest.mark.benchmark(timer=REPLAY)
def test_benchmark_is_given_the_durations_that_the_device_took(benchmark: Any) -> None:
    """It times nothing itself: its statistics are those of the samples."""
    measurement = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 700.0, (700.0,) * 3, seconds=(0.25, 0.5, 0.75))
    benchmark.disabled = False  # pytest-benchmark times nothing beside other processes; nothing is timed here
    publish(benchmark, REPLAY, judge([measurement], FLOOR), measurement)
    stats = benchmark.stats.stats
    assert sorted(stats.data) == [0.25, 0.5, 0.75]
    assert (benchmark.name, benchmark.group) == ("GPU-0/matmul.bf16", "matmul.bf16")
    assert benchmark.extra_info == {
        "value": 700.0,
        "unit": "TFLOPS",
        "status": "PASS",
        "floor": 672.0,
        "ceiling": None,
        "limit_from": "h100-sxm.yaml:20",
    }
