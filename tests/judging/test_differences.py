"""What differs between two records: which devices, states and figures, in which order, and what counts as worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from support.judged_tables import tabled
from support.reasons import worded
from support.rows import each_row

from pytest_accel.core import exits
from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Limit, Source, Spread
from pytest_accel.core.verdict import Closing, Result, Status, Verdict
from pytest_accel.judging.records.differences import (
    Difference,
    Direction,
    RecordComparison,
    SubjectKind,
    compare,
    not_comparable,
)
from pytest_accel.views import record_comparison as views

FACTS = {"vbios": "96.00", "ecc": True, "power_limit_w": 700.0, "nvlink_up": 18, "pcie_width": 16}
SPREAD = Spread(Source("measured", "us", "2026-11"), between_runs=0.002, between_devices=0.004, runs=20)


def gpu(place: int, **changes: Any) -> Device:
    facts = {**FACTS, **changes.pop("facts", {})}
    serial, slot = f"16{place}", f"0000:{place}a:00.0"
    return replace(Device(f"GPU-{place}", place, "nvidia", "H100", 0, serial, pci_address=slot, facts=facts), **changes)


def memory(value: float, subject: str = "GPU-0", **changes: Any) -> Measurement:
    return replace(Measurement("stream.triad", subject, "GB/s", value, conditions={"array": "1 GiB"}), **changes)


def verdict(status: Status, value: Any, metric: str = "health.nvlink_up", **changes: Any) -> Verdict:
    return replace(Verdict(metric, "GPU-0", status, (), "count", value, expected=18), **changes)


def node(*devices: Device, day: int = 1, **changes: Any) -> Run:
    one = Run({"started": f"2026-11-{day:02}T02:00:00+00:00", "host": "n1"}, sku={"name": "h100-sxm"})
    one.closing, one.devices = Closing(result=Result.HELD), list(devices or (gpu(0), gpu(1)))
    one.software, one.path = {"driver": "580.1", "torch": "2.9"}, Path(f"r{day}")
    return replace(one, **changes)


OTHER_BOARD = node(gpu(0), gpu(1, uuid="GPU-9", serial="999"))
OTHER_SLOT = node(gpu(0), gpu(1, pci_address="0000:5d:00.0"))


def of(then: Run, now: Run, spread: Spread | None = SPREAD) -> RecordComparison:
    return compare(then, now, lambda _metric: spread)


SLOT = "in slot 0000:1a:00.0"


def told(found: RecordComparison) -> list[tuple[Any, ...]]:
    return [(each.names, each.item, each.before, each.after) for each in found.differences]


def only(found: RecordComparison) -> Difference:
    (one,) = found.differences
    return one


@each_row(
    ("then", "now", "what", "was", "is_", "code"),
    [
        (node(), node(gpu(0)), "device", f"serial 161 {SLOT}", "gone", exits.REJECTED),
        (node(gpu(0)), node(), "device", "not there", f"serial 161 {SLOT}", exits.HOLDS),
        (node(), OTHER_BOARD, "device", f"serial 161 {SLOT}", f"serial 999 {SLOT}", exits.HOLDS),  # a swap
        (node(), OTHER_SLOT, "slot", "0000:1a:00.0", "0000:5d:00.0", exits.HOLDS),
    ],
)
def test_what_became_of_the_devices(then: Run, now: Run, what: str, was: str, is_: str, code: int) -> None:
    found = of(then, now)
    name = "then gpu1" if is_ == "gone" else "gpu1"  # another device may have the name now
    assert (told(found), found.exit) == ([((name,), what, was, is_)], code)
    assert (told(of(now, now)), of(now, now).exit) == ([], exits.HOLDS), "equal records differ in nothing"


def test_another_serial_under_the_same_uuid_is_another_device() -> None:
    found = of(node(), node(gpu(0), gpu(1, serial="999", pci_address="0000:5d:00.0")))
    assert [(each.item, each.before) for each in found.differences][-1] == ("device", "not there")
    assert found.exit == exits.REJECTED


# -- verdicts


def test_a_state_that_fails_now_counts() -> None:
    failed = node(verdicts=[verdict(Status.FAIL, 17)], closing=Closing(result=Result.REJECTED))
    found = of(node(verdicts=[verdict(Status.PASS, 18)]), failed)
    result = (("run",), "result", "HELD", "REJECTED")
    assert told(found) == [(("gpu0",), "health.nvlink_up", "PASS 18", "FAIL 17"), result]
    assert found.exit == exits.REJECTED


def test_a_verdict_by_a_stricter_limit_is_no_worse_hardware() -> None:
    limit = Limit("health.nvlink_up", "count", equals=18)
    then = node(verdicts=[verdict(Status.PASS, 18, limit=limit)])
    strict = replace(limit, equals=20)
    found = of(then, node(verdicts=[verdict(Status.FAIL, 18, expected=20, limit=strict)]))
    assert [(each.kind, each.direction) for each in found.differences] == [(SubjectKind.VERDICT, Direction.WORSE)]
    assert found.exit == exits.HOLDS


def test_a_value_that_a_stricter_limit_rejects_is_no_worse_hardware_although_it_moved() -> None:
    held = Verdict("soak.throttle.sw_thermal", "GPU-0", Status.PASS, (), "1", 0.001, ceiling=0.01)
    failed = replace(held, status=Status.FAIL, value=0.002, ceiling=0.0015)
    assert of(node(verdicts=[held]), node(verdicts=[failed])).exit == exits.HOLDS
    assert of(node(verdicts=[held]), node(verdicts=[replace(failed, value=0.02, ceiling=0.01)])).exit == exits.REJECTED


@tabled("now, counts", "data/judging/differences.yaml")
def test_only_the_hardware_counts(now: Verdict, counts: bool) -> None:
    then = replace(now, status=Status.PASS, value=0, device_failed=False)
    assert only(of(node(verdicts=[then]), node(verdicts=[now]))).counts is counts


# -- facts, software, limits


@tabled("name, value, direction", "data/judging/differences.yaml")
def test_a_fact_that_differs_says_whether_it_is_a_loss(name: str, value: Any, direction: Direction) -> None:
    found = of(node(), node(gpu(0, facts={name: value}), gpu(1)))
    assert (only(found).names, only(found).item, only(found).direction) == (("gpu0",), name, direction)
    assert found.exit == (exits.REJECTED if direction is Direction.WORSE else exits.HOLDS)


def test_every_fact_with_a_worse_side_names_one_that_is_compared() -> None:
    """Another word in device_facts.yaml would make a loss no loss."""
    assert {fact.worse for fact in DEVICE_FACTS.values()} == {"", "less", "more"}


def test_what_all_devices_share_is_told_once_and_what_changes_by_itself_not_at_all() -> None:
    changed = {"vbios": "97.00", "temperature_c": 60, "power_w": 400.0, "pcie_gen": 1}
    found = of(node(), node(gpu(0, facts=changed), gpu(1, facts=changed), software={"driver": "590.2", "torch": "2.9"}))
    assert told(found) == [(("gpu0", "gpu1"), "vbios", "96.00", "97.00"), ((), "driver", "580.1", "590.2")]
    assert found.exit == exits.HOLDS


def test_a_threshold_file_that_moved_is_the_same_and_one_that_changed_is_not() -> None:
    then, moved, changed = (
        node(sku={"name": "h100-sxm", "files": files})
        for files in ({"/a/x.yaml": "1"}, {"/b/x.yaml": "1"}, {"/b/x.yaml": "2"})
    )
    assert told(of(then, moved)) == []
    assert told(of(then, changed)) == [((), "file x.yaml", "1", "2")]


def test_a_fact_of_the_host_that_is_lost_is_worse() -> None:
    then, now = (Measurement("host.nics", NODE, "count", value) for value in (8, 7))
    found = of(node(measurements=[then]), node(measurements=[now]))
    assert told(found) == [(("node",), "host.nics", "8", "7")]
    assert found.exit == exits.REJECTED


# -- figures


@tabled("value, spread, found", "data/judging/differences.yaml")
def test_a_figure_differs_beyond_what_two_runs_do(value: float, spread: Spread | None, found: Direction | None) -> None:
    compared = of(node(measurements=[memory(3000.0)]), node(measurements=[memory(value)]), spread)
    assert [each.direction for each in compared.differences] == ([found] if found else [])
    assert compared.exit == (exits.REJECTED if found is Direction.WORSE else exits.HOLDS)
    assert compared.count == 1


def test_a_figure_of_another_method_is_counted_and_not_compared() -> None:
    other = memory(1000.0, conditions={"array": "2 GiB"})
    disturbed, alone = memory(1000.0, "GPU-1", notes=(Note("disturbed", "in use"),)), memory(9.0, metric="stream.read")
    excused = memory(9.0, metric="stream.dot", notes=(Note("load", "busy"),))
    then = node(measurements=[memory(3000.0), memory(3000.0, "GPU-1"), alone, excused])
    found = of(then, node(measurements=[other, disturbed, excused]))
    assert (found.count, found.not_compared, found.exit, told(found)) == (0, 4, exits.HOLDS, [])


def test_a_processor_that_is_slower_is_told_and_does_not_count() -> None:
    then, now = (
        node(Device("CPU-0", 0, "cpu", "Xeon"), measurements=[memory(value, "CPU-0")]) for value in (30.0, 20.0)
    )
    found = of(then, now)
    assert (only(found).note, found.exit) == ("other work slows a processor down, too", exits.HOLDS)


def test_the_order_is_devices_verdicts_facts_software_figures() -> None:
    limit = Limit("stream.triad", "GB/s", floor=2700.0)
    triad = Verdict("stream.triad", "GPU-0", Status.PASS, (), "GB/s", 3000.0, limit=limit)
    then = node(measurements=[memory(3000.0)], verdicts=[triad, verdict(Status.PASS, 18)])
    now = node(
        gpu(0, facts={"vbios": "97.00"}),
        software={"driver": "590"},
        measurements=[memory(2000.0)],
        verdicts=[replace(triad, limit=replace(limit, floor=2800.0)), verdict(Status.FAIL, 17)],
    )
    assert [each.kind for each in of(then, now).differences if each.item != "torch"] == list(SubjectKind)


# -- what cannot be compared


@each_row(
    ("changes", "why"),
    [
        ({"sku": {"name": "a100-sxm"}}, "other SKU: h100-sxm and a100-sxm"),
        ({"info": {"simulated": {"node": "x"}}}, "one record is of a simulated node, the other one of hardware"),
        ({"devices": ()}, "none of the same devices"),
        ({"devices": (gpu(5),)}, "none of the same devices"),
    ],
)
def test_records_that_cannot_be_compared(changes: dict[str, Any], why: str) -> None:
    assert not_comparable(node(), replace(node(), **changes)) == why


# -- a device that was lost


def lost(metric: str, event: str = "", subject: str = "GPU-1") -> Verdict:
    sentence = "not measured: lost" if event == "left out" else "lost"
    return Verdict(metric, subject, Status.FAIL, worded(sentence), "TFLOPS", device_failed=True, event=event)  # type: ignore[arg-type]


def test_what_a_lost_device_left_without_a_value_is_one_line() -> None:
    metrics = ("counters.fabric", "exact_matmul.bf16", "soak.droop_slow", "soak.rate")
    then = [verdict(Status.PASS, 700.0, each, subject="GPU-1", expected=None) for each in metrics]
    after = [lost(*each) for each in zip(metrics, ("", "left out", "lost", "lost"), strict=True)]
    whole = node(verdicts=[verdict(Status.PASS, 18), *then])
    found = of(whole, node(verdicts=[verdict(Status.FAIL, 17), *after]))
    assert len(found.differences) == 5, "the JSON has each"
    lines = [line for line, _ in views.text(found, [])]
    assert [line for line in lines if line.startswith("  ")] == [
        "  gpu1 counters.fabric and 2 more: PASS 700 -> FAIL [lost]",
        "  gpu1 exact_matmul.bf16: PASS 700 -> FAIL [not measured: lost]",
        "  gpu0 health.nvlink_up: PASS 18 -> FAIL 17",
    ]
    assert lines[-1] == "WORSE gpu1 counters.fabric and 2 more: PASS 700 -> FAIL (and 2 more)"
