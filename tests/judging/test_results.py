"""From what workers sent to measurements: what was sent counts, and what is lacking is said."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.judged_tables import tabled
from support.rows import each_row

from pytest_accel.core.measurement import NODE, Device, Measurement, Peak, Trouble
from pytest_accel.core.messages import CallTrouble, Outcome
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts import results
from pytest_accel.judging.facts.results import compare_checksums, of_alone
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.probes import matmul, soak
from pytest_accel.probes.declare import declaration_for
from pytest_accel.probes.request import Request

GPUS = [Device(uuid=f"GPU-{i}", index=i, driver="nvidia", model="H100") for i in range(3)]


def call(metric: str = "matmul.bf16", suffix: str = "") -> Request:
    return Request(declaration_for(matmul), {"dtype": "bf16"}, metric, suffix, started=10.0, ended=20.0)


def peak_of(metric: str) -> tuple[float, str] | None:
    return (989.4, "datasheet") if metric == "matmul.bf16" else None


def per_device(outcome: Outcome, asked: Request) -> list[Measurement]:
    return results.per_device(outcome, asked, peak_of)


def per_node(outcomes: Sequence[Outcome], asked: Request) -> list[Measurement]:
    return results.per_node(outcomes, asked, peak_of)


def result(metric: str = "matmul.bf16", unit: str = "TFLOPS", **changes: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("value", "peak", "subject", "wrong"))
    empty: dict[str, Any] = {"samples": [], "seconds": [], "details": {}, "notes": [], "conditions": {"dtype": "bf16"}}
    return {"event": "result", "metric": metric, "unit": unit, "statistic": "mean", **nothing, **empty, **changes}


def outcome(*results: dict[str, Any], gpu: int = 0, **changes: Any) -> Outcome:
    return Outcome((GPUS[gpu],), results=list(results), **changes)


DIED = CallTrouble("device", "killed by SIGKILL", "crashed")


def mine(device: Any) -> Any:
    """Stand for a probe of the user's own: it is not packaged."""


def own(**changes: Any) -> Measurement:
    """What comes of a result of the user's own probe."""
    asked = Request(declaration_for(mine), {}, "mine", "", started=10.0, ended=20.0)
    (found,) = per_device(outcome(result(**{"metric": "mine", **changes})), asked)
    return found


@tabled("changes, words", "data/judging/results.yaml")
def test_a_value_that_no_device_can_have_is_an_error_of_the_users_probe(changes: dict[str, Any], words: str) -> None:
    trouble = own(**changes).trouble
    assert trouble
    assert (trouble.kind, words in trouble.reason) == ("bug", True)
    assert [own(unit=unit, samples=[0.0]).trouble for unit in ("1", "count", "C")] == [None] * 3, "nothing counted"


@each_row(
    ("changes", "words"),
    [
        ({"value": 1e308}, "holds a number that nothing measures (1e+308)"),
        ({"value": 2**70}, "holds a whole number of 22 digits"),
        ({"conditions": {"a": math.nan}}, "holds NaN, which is no number of JSON"),
        ({"details": json.loads('{"d":' * 70 + "1" + "}" * 70)}, "is nested more than 64 levels deep"),
        ({"details": {"a": "x" * 2**21}}, "returned 2,097,"),
    ],
)
def test_what_a_record_could_not_be_read_with_is_not_kept(changes: dict[str, Any], words: str) -> None:
    """The run would end well, and nobody could read its record."""
    found = own(unit="ms", **changes)
    assert found.trouble
    assert (found.trouble.kind, words in found.trouble.reason) == ("bug", True)
    assert (found.value, found.conditions, found.details) == (None, {}, {})


# -- per device


def test_the_value_is_work_over_time_as_its_estimate_and_the_peak_that_of_the_datasheet() -> None:
    (found,) = per_device(outcome(result(samples=[700.0, 720.0], seconds=[0.2, 0.1])), call())
    assert (found.metric, found.subject) == ("matmul.bf16", "GPU-0")
    assert found.estimate
    assert found.value == pytest.approx(found.estimate.mean) == pytest.approx(2 / (1 / 700 + 1 / 720))
    assert (found.samples, found.seconds, found.unit) == ((700.0, 720.0), (0.2, 0.1), "TFLOPS")
    assert found.peak
    assert found.peak.value == 989.4
    assert (found.started, found.ended, found.how) == (10.0, 20.0, "together")


def test_a_peak_measured_beside_stands_over_the_datasheet() -> None:
    beside = {"value": 800.0, "source": "beside", "samples": [790.0, 810.0], "provisional": True}
    (found,) = per_device(outcome(result(samples=[700.0, 720.0], peak=beside)), call())
    assert found.peak == Peak(800.0, "beside", samples=(790.0, 810.0), provisional=True)


def test_the_value_is_the_median_of_the_samples_where_the_probe_says_so() -> None:
    samples, limit = [700.0, 710.0, 720.0, 100.0, 705.0], Limit("matmul.bf16", "TFLOPS", floor=690.0)
    (found,) = per_device(outcome(result(samples=samples, statistic="median")), call())
    assert (found.value, found.statistic, found.estimate and found.estimate.mean) == (705.0, "median", 705.0)
    (mean,) = per_device(outcome(result(samples=samples)), call())
    assert [judge([each], limit).status for each in (found, mean)] == [Status.PASS, Status.FAIL]


def test_the_method_of_a_metric_is_added_to_what_a_packaged_probe_finds() -> None:
    asked = replace(call("soak.rate"), declaration=declaration_for(soak), conditions={"dtype": "bf16", "m": 64})
    (found,) = per_device(outcome(result("matmul.bf16", "TFLOPS", samples=[700.0] * 5)), asked)
    assert (found.conditions["shape"], found.conditions["statistic"]) == ("64x8192x8192", "mean")
    assert "engine" not in own(metric="host_copy.h2d", unit="GB/s", samples=[50.0] * 5).conditions, "by our name alone"
    (found,) = per_device(outcome(result(value=1.0)), call("matmul.bf16@m=64", suffix="@m=64"))
    assert found.metric == "matmul.bf16@m=64"


def test_a_device_that_died_is_the_reason_itself_and_its_blocks_are_kept() -> None:
    blocks = [{"event": "block", "seconds": 0.1, "at": 11.0}, {"event": "block", "seconds": 0.2, "at": 12.0}]
    (found,) = per_device(outcome(blocks=blocks, trouble=DIED), call())
    said = "its worker process died: killed by SIGKILL, after 2 blocks"
    assert found.trouble == Trouble("device", said, event="crashed")
    assert (found.value, found.seconds, found.started, found.ended) == (None, (0.1, 0.2), 11.0, 12.0)


def test_the_kind_of_a_trouble_is_kept() -> None:
    kinds: tuple[Any, ...] = ("device", "need", "not_applicable", "bug")
    for kind in kinds:
        trouble = CallTrouble(kind, "why", traceback="Traceback")
        (found,) = per_device(outcome(trouble=trouble), call())
        assert (found.trouble, found.details) == (Trouble(kind, "why"), {"traceback": "Traceback"})


def test_a_trouble_is_kept_beside_what_was_found() -> None:
    found = per_device(outcome(result("soak.rate", value=1.0), trouble=DIED), call("soak.droop_slow"))
    assert [(each.metric, each.trouble is None) for each in found] == [("soak.rate", True), ("soak.droop_slow", False)]
    late = per_device(outcome(result(samples=[700.0]), trouble=DIED), call())
    assert judge(late, Limit("matmul.bf16", "TFLOPS", floor=1.0)).status is Status.FAIL, "it died after its last figure"
    row = result("peer_copy.one_way", "GB/s", value=1.0, subject="GPU-0")
    pair = per_device(Outcome(tuple(GPUS[:2]), results=[row], trouble=DIED), call("peer_copy.one_way"))
    assert [each.subject for each in pair if each.trouble] == ["GPU-0", "GPU-1"]


# -- per node


def ranks(values: Sequence[float | None], unit: str) -> Measurement:
    """The measurement of a collective whose ranks found `values`."""
    outcomes = [outcome(result("x.y", unit, value=value), gpu=place) for place, value in enumerate(values)]
    (found,) = per_node(outcomes, call("x.y"))
    return found


@tabled("unit, values, slowest", "data/judging/results.yaml")
def test_a_collective_is_judged_by_its_slowest_rank(
    unit: str, values: list[float | None], slowest: float | None
) -> None:
    found = ranks(values, unit)
    assert (found.subject, found.value) == (NODE, slowest)
    assert found.details["ranks"] == values


def test_a_rank_that_found_no_number_is_never_averaged_away() -> None:
    for unit in ("GB/s", "ms"):
        for place in range(3):
            values: list[float | None] = [1.0, 2.0, 3.0]
            values[place] = math.nan
            assert str(ranks(values, unit).value) == "nan"


def test_several_metrics_of_a_collective_are_kept_apart() -> None:
    outcomes = [
        outcome(result("ddp.step_ms", "ms", value=10.0 + i), result("mine.share", "1", value=0.1 * i), gpu=i)
        for i in range(2)
    ]
    found = per_node(outcomes, call("ddp.step_ms"))
    assert [(each.metric, each.value) for each in found] == [("ddp.step_ms", 11.0), ("mine.share", 0.1)]


def test_whoever_failed_in_a_collective_is_named_not_who_was_stopped_for_it() -> None:
    stopped = CallTrouble("need", "another rank failed", secondary=True)
    every = [outcome(trouble=stopped), outcome(trouble=DIED, gpu=1), outcome(trouble=stopped, gpu=2)]
    (found,) = per_node(every, call("all_reduce.busbw@8GiB"))
    assert (found.subject, found.value, found.trouble and found.trouble.kind) == (NODE, None, "device")
    assert str(found.trouble and found.trouble.reason).startswith("gpu1: its worker process died")
    assert not any(each.value is not None for each in per_node(every[:1], call("all_reduce.busbw@8GiB")))


def test_a_collective_that_the_fabric_refused_blames_no_device() -> None:
    refused = CallTrouble("external", "Failed to bind NVLink SHARP", lost=True)
    (found,) = per_node([outcome(trouble=refused), outcome(trouble=refused, gpu=1)], call("all_reduce"))
    assert found.trouble == Trouble("external", "Failed to bind NVLink SHARP")
    (none,) = per_node([], call("all_reduce.busbw@8GiB"))
    assert (none.trouble and none.trouble.kind, none.value) == ("need", None), "without devices"


def test_a_memory_error_that_ended_a_context_is_one_and_no_lost_device() -> None:
    trouble = CallTrouble("device", "CUDA error", "uncorrectable", lost=True)
    (found,) = per_device(outcome(trouble=trouble), call())
    assert found.trouble == Trouble("device", "CUDA error", event="uncorrectable")


# -- what has to be the same everywhere


def exact(gpu: int, checksum: int, wrong: str | None = None) -> Measurement:
    told = result("exact_matmul.bf16", "count", value=0, details={"checksum": checksum}, wrong=wrong)
    (found,) = per_device(outcome(told, gpu=gpu), call("exact_matmul.bf16"))
    return found


@tabled("checksums, blamed", "data/judging/results.yaml")
def test_a_device_whose_exact_result_is_not_that_of_the_others_is_blamed(
    checksums: list[int], blamed: list[int]
) -> None:
    found = compare_checksums([exact(gpu, checksum) for gpu, checksum in enumerate(checksums)])
    assert [place for place, each in enumerate(found) if each.trouble] == blamed
    assert all(judge([found[place]], ZERO).status is Status.FAIL for place in blamed)


def test_results_are_compared_among_devices_of_a_kind() -> None:
    kinds = ["H100", "H100", "H200"]
    every = [exact(gpu, checksum) for gpu, checksum in enumerate([7, 7, 8])]
    of_kinds = [
        replace(each, details={**each.details, "checksum_of": kind}) for each, kind in zip(every, kinds, strict=True)
    ]
    assert [place for place, each in enumerate(compare_checksums(of_kinds)) if each.trouble] == []
    assert [place for place, each in enumerate(compare_checksums(every)) if each.trouble] == [2]


def test_what_was_computed_wrongly_fails_whatever_a_repeat_says() -> None:
    """Of two devices one is wrong by the host's product: nobody has to ask which."""
    bad = exact(0, 8, wrong="3 wrong elements")
    wrong, right = compare_checksums([bad, exact(1, 7)])
    assert (wrong.trouble and wrong.trouble.reason, right.trouble) == ("3 wrong elements", None)
    verdict = judge([bad, exact(0, 7)], ZERO)
    assert (verdict.status, "3 wrong elements" in sentence_of(verdict)) == (Status.FAIL, True)


ZERO = Limit("exact_matmul.bf16", "count", equals=0)


def test_an_error_that_left_open_who_is_at_fault_is_that_of_a_device_that_is_lost() -> None:
    said = CallTrouble("device", "CUDA error: unknown error", "lost", lost=True)
    trouble = replace(said.acquitted("external", "the software may be at fault"), unless_lost=said)
    there, lost = call(), replace(call(), lost={"GPU-0": "gpu0"})
    kinds = [
        each.trouble and (each.trouble.kind, each.trouble.event)
        for asked in (there, lost)
        for each in (*per_device(outcome(trouble=trouble), asked), *per_node([outcome(trouble=trouble)], asked))
    ]
    assert kinds == [("external", "")] * 2 + [("device", "lost")] * 2


def test_what_breaks_in_a_pair_is_laid_to_the_two() -> None:
    """One process works for all of them; the others are only not measured."""
    step = {"what": "gpu0 to gpu2", "subjects": ["GPU-0", "GPU-2"]}
    found = per_device(Outcome(tuple(GPUS), trouble=DIED, step=step), call("peer_copy.one_way"))
    assert [(each.trouble.kind if each.trouble else None) for each in found] == ["device", "need", "device"]
    assert "gpu0 to gpu2: its worker process died" in str(found[0].trouble)


def test_a_copy_beside_the_others_is_compared_with_the_same_one_alone() -> None:
    alone = [
        Measurement("host_copy.h2d", "GPU-0", "GB/s", 40.0),
        Measurement("host_copy.h2d", "GPU-0", "GB/s", 50.0),  # the newest counts
        Measurement("host_copy.h2d", "GPU-1", "GB/s", 10.0),
        Measurement("host_copy.d2h", "GPU-0", "GB/s", 10.0),
        Measurement("host_copy.h2d", "GPU-0", "GB/s", trouble=Trouble("need", "no time")),
    ]
    together = Measurement("host_copy_all.h2d", "GPU-0", "GB/s", 30.0)
    assert of_alone(together, alone) == pytest.approx(0.6)
    assert of_alone(replace(together, subject="GPU-2"), alone) is None
    assert of_alone(replace(together, value=None), alone) is None
    assert of_alone(alone[0], alone) is None
