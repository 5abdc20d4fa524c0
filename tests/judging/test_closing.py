"""The closing line and its exit status: ACCEPTED only when everything that was required holds."""

import random
from dataclasses import replace
from datetime import date
from typing import Any, get_args

import pytest
from support.judged_tables import tabled
from support.reasons import worded
from support.rows import each_row

from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.reasons import Compared, Interval, Note, WrongData
from pytest_accel.core.run import Circumstances, Objection, ObjectionKind
from pytest_accel.core.sku_types import Basis, ClassFloor, DeclaredBy, Limit, Source
from pytest_accel.core.verdict import Closing, Result, Status, Verdict, Waiver
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.judge_attempts import judge

NAMES = {NODE: NODE, "GPU-0": "gpu0", "GPU-1": "gpu1"}
METRICS = ("inventory.sku", "matmul.bf16", "stream.copy")
FILTERED = ("filter", "filtered by -k")
FULL = [("inventory.count", NODE), *((metric, uuid) for metric in METRICS for uuid in ("GPU-0", "GPU-1"))]


def verdict(metric: str, subject: str, status: Status = Status.PASS, **changes: Any) -> Verdict:
    limit = Limit(metric, "TFLOPS", floor=100.0, origin="h100-sxm.yaml")
    made = Verdict(metric, subject, status, worded("its reason"), limit=limit)
    limit = changes.get("limit", limit)
    by = floor_in_force(limit) if limit and status is not Status.NOT_APPLICABLE else None
    return replace(made, **{"floor": by and by.bound.floor, "basis": by and by.basis, **changes})


def full(**changed: Status) -> list[Verdict]:
    """A verdict on everything that is required; `matmul_bf16=Status.FAIL` changes that of gpu1."""
    statuses = {name.replace("_", ".", 1): status for name, status in changed.items()}
    return [
        verdict(metric, subject, statuses.get(metric, Status.PASS) if subject != "GPU-0" else Status.PASS)
        for metric, subject in FULL
    ]


def around(**changes: Any) -> Circumstances:
    required = [(metric, subject, "h100-sxm.yaml") for metric, subject in FULL]
    fields: dict[str, Any] = {"required": required, "names": NAMES, "expected_devices": 2}
    fields |= {**changes, "against": [Objection(*reason) for reason in changes.get("against", ())]}
    return Circumstances(**fields)


def closed(verdicts: list[Verdict], **changes: Any) -> Closing:
    found = close(verdicts, around(**changes))
    assert found.result
    assert found.line.startswith(found.result.value)
    return found


# -- accepted, and what may be said beside it


@each_row(
    ("verdicts", "changes", "line"),
    [
        (full(), {}, "ACCEPTED 2/2 devices"),
        (full(matmul_bf16=Status.MARGINAL), {}, "ACCEPTED 2/2 devices (1 marginal: gpu1 matmul.bf16)"),
        (full(), {"overridden": 1}, "ACCEPTED 2/2 devices (1 limit overridden)"),
        (full(), {"overridden": 2, "own_file": "a.yaml"}, "ACCEPTED 2/2 devices (2 limits overridden; by a.yaml)"),
        (full(), {"loaded": ("LD_PRELOAD", "conftest.py")}, "ACCEPTED 2/2 devices (with LD_PRELOAD, conftest.py)"),
        # cannot exist here, and says why: what is required leaves it out
        ([*full(), verdict("peer_copy.one_way", "GPU-0", Status.NOT_APPLICABLE)], {}, "ACCEPTED 2/2 devices"),
    ],
)
def test_accepted(verdicts: list[Verdict], changes: dict[str, Any], line: str) -> None:
    assert closed(verdicts, **changes) == Closing(line, 0, Result.ACCEPTED)


@tabled("status, word, code, said", "data/judging/closing.yaml")
def test_what_is_required_and_does_not_hold_is_no_acceptance(
    status: Status | None, word: str, code: int, said: str
) -> None:
    for place, (metric, subject) in enumerate(FULL):
        every = full()
        one = every.pop(place)
        found = closed([*every, *([replace(one, status=status)] if status else [])])
        assert (found.result, found.exit) == (word, code)
        assert [each for each in (NAMES[subject], metric, said) if each not in found.line] == []


def test_a_limit_that_holds_where_supported_may_be_passed_over() -> None:
    verdicts = full()
    limit = replace(verdicts[-1].limit or Limit("x", "1"), if_supported=True)
    verdicts[-1] = replace(verdicts[-1], status=Status.NOT_APPLICABLE, limit=limit)
    assert closed(verdicts).result == "ACCEPTED"


def test_nothing_else_stands_in_for_a_required_limit() -> None:
    """Not a user's own marker, another shape, or a figure that nothing judged."""
    own = Limit("matmul.bf16", "TFLOPS", floor=1.0, origin="marker of test_x.py")
    one = verdict("matmul.bf16", "GPU-1", limit=None)
    information = replace(one, status=Status.NOT_APPLICABLE, value=700.0)
    every = [each for each in full() if (each.metric, each.subject) != ("matmul.bf16", "GPU-1")]
    for stand_in in (replace(one, limit=own), verdict("matmul.bf16@m=64", "GPU-1"), information, one):
        assert closed([*every, stand_in]).result == "NOT JUDGED"


def test_a_device_that_should_be_there_is_missed() -> None:
    required = [*around().required, ("matmul.bf16", "missing device 2", "h100-sxm.yaml")]
    found = closed(full(), required=required, expected_devices=3)
    assert found.result == "NOT JUDGED"
    assert "missing device 2 matmul.bf16" in found.line


def test_nothing_judged_is_never_green() -> None:
    skipped = [replace(each, status=Status.NOT_APPLICABLE) for each in full()]
    information = [replace(each, limit=None, value=1.0) for each in skipped]
    nothing: dict[str, Any] = {"required": ()}
    for verdicts, changes in (
        ([], {}),
        ([], nothing),
        (full(), nothing),
        (full(), {"expected_devices": 0}),
        ([], {"against": [FILTERED]}),
        (skipped, {}),
        (information, nothing),
    ):
        found = closed(verdicts, **changes)
        assert (found.result, found.exit) == ("NOT JUDGED", 6)


# -- held: everything that ran holds, but this was no acceptance


@each_row(
    ("against", "exit_status"),
    [
        ([("unasked", "SKU h100-sxm was recognised, not named")], 0),
        ([("tests", "tests were named on the command line")], 0),
        ([FILTERED], 6),
        ([("filter", "filtered by -m"), ("run", "1 test was never run")], 6),
        ([("tests", "tests were named on the command line"), ("run", "1 test was never run")], 0),
        ([("tests", "tests were named"), ("filter", "filtered by -m"), ("unasked", "a CPU"), ("file", "no limit")], 0),
    ],
)
def test_held_says_every_reason(against: list[tuple[str, str]], exit_status: int) -> None:
    """0 means ACCEPTED alone wherever an acceptance was asked for."""
    found = closed(full(), against=against)
    assert (found.result, found.exit) == ("HELD", exit_status)
    assert found.line == f"HELD 7/7 limits; no acceptance: {'; '.join(text for _, text in against)}"


def test_what_narrowed_the_run_is_said_first() -> None:
    against = [("floors", "own floors"), ("file", "no limit"), ("unasked", "auto"), ("run", "1 test skipped"), FILTERED]
    line = "no acceptance: filtered by -k; auto; 1 test skipped; no limit; own floors"
    assert closed(full(), against=against).line.endswith(line)


def test_a_device_whose_matrix_units_no_floor_in_force_judged_is_not_accepted() -> None:
    def judged(**of_gpu1: Any) -> list[Verdict]:
        return [replace(each, **of_gpu1) if each.key[:2] == ("matmul.bf16", "GPU-1") else each for each in full()]

    assert closed(judged()).result == "ACCEPTED"
    held = closed(judged(floor=None, value=1.0, status=Status.NOT_APPLICABLE))
    assert (held.result, held.exit) == ("HELD", 6)
    assert held.line.endswith("no acceptance: no floor in force judged the matrix units of gpu1")


def test_a_waiver_is_no_floor_for_the_matrix_units() -> None:
    """Nothing with a floor was measured there, whoever accepts that."""
    waiver = Waiver("matmul.bf16", "slow", "us", date(2099, 1, 1))
    unmeasured = verdict("matmul.bf16", "GPU-1", Status.UNMEASURED, waiver=waiver)
    without = verdict("matmul_mamf.bf16", "GPU-1", Status.NOT_APPLICABLE, value=1.0)
    others = [each for each in full() if each.key[:2] != unmeasured.key[:2]]
    found = closed([*others, unmeasured, without])
    assert (found.result, found.exit) == ("HELD", 6)


def class_floor(*publishers: str, **changes: Any) -> ClassFloor:
    return replace(ClassFloor(0.5, 0.5, 0.6, 0.7, 0.85, publishers, "row", "a peak", "classes.yaml:1"), **changes)


def test_the_line_says_what_stands_behind_the_floors_of_each_part() -> None:
    bottom = class_floor("one", "two", "three")
    of_class = Limit("host_copy.h2d", "GB/s", class_floor=bottom)
    ours = Limit("stream.triad", "GB/s", floor=1.0, source=Source("measured", "us", "2026-11", nodes=2))
    both = Limit("peer_copy.one_way", "GB/s", floor=1.0, source=Source("agreed", "Buyer and Supplier", "2026-11"))
    judged = [
        verdict(limit.metric, subject, limit=limit)
        for limit in (ours, both, of_class)
        for subject in ("GPU-0", "GPU-1")
    ]
    found = closed([*full(), *judged], sku="h100-sxm", level="standard", not_judged=("collectives",))
    assert found.line == (
        "ACCEPTED 2/2 devices as h100-sxm at standard (memory by own floors of 2026-11, 2 nodes; "
        "peer links by agreed floors; host link by 3 publishers; not judged: collectives)"
    )


def by_class(metric: str, floor: ClassFloor) -> list[Verdict]:
    """Verdicts on both devices by a limit that the floor of the class alone makes."""
    limit = Limit(metric, "", floor=1.0, declared_by=DeclaredBy.CLASS, class_floor=floor)
    return [verdict(metric, subject, limit=limit, margin=0.5) for subject in ("GPU-0", "GPU-1")]


def test_the_line_counts_the_publishers_behind_each_part() -> None:
    """Those of bf16, which decides, and not the more of another type."""
    bf16, tf32 = by_class("matmul.bf16", class_floor("one")), by_class("matmul.tf32", class_floor("one", "two"))
    memory = by_class("stream.copy_kernel", class_floor("one", "two", "three"))
    found = closed([*full(), *bf16, *tf32, *memory], sku="l40s", level="quick")
    assert found.line == "ACCEPTED 2/2 devices as l40s at quick (matmul by 1 publisher, memory by 3)"


def test_a_floor_that_half_of_the_rate_may_hold_needs_four_devices_alike() -> None:
    """Three have no neighbours that are enough to tell who is slow."""
    judged = [*full(), *by_class("matmul.bf16", class_floor("one", highest=1.0, of_vendor=True))]
    half = "half speed not excluded (matmul)"
    held = closed(judged, expected_devices=3)
    assert (held.result, held.exit) == ("HELD", 6)
    assert held.line.endswith(f"; no acceptance: {half} with fewer than 4 devices")
    found = closed(judged, expected_devices=4, sku="a10", level="quick")
    assert found.line.endswith(f"(matmul by other SKUs of its vendor; {half})")
    other = [*judged, *by_class("matmul.tf32", class_floor("one"))]
    assert closed(other, expected_devices=3).line == held.line.replace("9/9", "11/11"), "tf32 says nothing about bf16"


def test_devices_that_the_floors_come_from_are_not_accepted_by_them() -> None:
    found = closed(full(), sku="own", level="standard", against=[("floors", "floors come from these devices: gpu0")])
    assert found.line.endswith("; no acceptance: floors come from these devices: gpu0")
    assert (found.result, found.exit) == ("HELD", 6)
    assert found.next_step.startswith(
        "judge these devices by floors of others: by the shipped file, or calibrated without"
    )


def test_a_part_counts_as_what_its_weakest_device_is_judged_by() -> None:
    bottom = class_floor("one", "two")
    ours = Limit("stream.triad", "GB/s", floor=1.0, source=Source("measured", "us", "2026-11"), class_floor=bottom)
    by_class = verdict("stream.triad", "GPU-1", limit=ours, basis=Basis.CLASS)
    found = closed([*full(), verdict("stream.triad", "GPU-0", limit=ours), by_class], sku="a", level="quick")
    assert found.line == "ACCEPTED 2/2 devices as a at quick (memory by 2 publishers)"


def test_what_holds_and_is_no_acceptance_says_what_leads_to_one() -> None:
    on_cpus = closed(full(), against=[("unasked", "a CPU is not an accelerator")]).next_step
    assert on_cpus.startswith("on a node with accelerators: pytest --accel-sku=NAME ('pytest-accel sku list'")
    ours = closed(full(), against=[("tests", "tests were named on the command line")]).next_step
    assert ours.startswith("on a node with accelerators: pytest --accel-sku=NAME --accel-with=FILE ('pytest-accel")
    assert "without the options" in closed(full(), against=[FILTERED]).next_step
    unfit = closed(full(), against=[("file", "no limit for memory")], sku="a")
    assert (unfit.exit, "sku show a" in unfit.next_step) == (6, True)
    assert closed(full()).next_step == ""
    named = [("tests", "tests were named on the command line")]
    assert "pytest-accel discover" in closed([], against=named, names={NODE: NODE}).next_step, "no device was found"
    assert closed([], against=named).next_step == ""


def test_a_filtered_run_may_lack_verdicts_but_is_never_accepted_and_excuses_no_failure() -> None:
    assert closed(full()[:1], against=[FILTERED]).line == "HELD 1/1 limits; no acceptance: filtered by -k"
    for reason in (FILTERED, ("unasked", "auto")):
        for status, code in ((Status.FAIL, 1), (Status.UNMEASURED, 6), (Status.INCONCLUSIVE, 6)):
            assert closed(full(matmul_bf16=status), against=[reason]).exit == code


# -- rejected


def test_rejected_names_every_device_with_its_reason() -> None:
    far = verdict("b", "GPU-1", Status.FAIL, margin=-0.09)
    told = replace(far, reasons=worded("612.4 TFLOPS, floor 672 TFLOPS (-8.9%)"))
    line = "REJECTED 2/2: gpu0 a its reason; gpu1 b 612.4 TFLOPS, floor 672 TFLOPS (-8.9%)"
    found = closed([*full(), verdict("a", "GPU-0", Status.FAIL, margin=-0.01), told])
    assert found == Closing(line, 1, Result.REJECTED)
    one = closed([*full(matmul_bf16=Status.FAIL), far]).line
    assert one == "REJECTED gpu1: matmul.bf16 its reason (and 1 more)"


def test_a_device_that_is_short_beside_a_rejected_one_is_named() -> None:
    """Who repairs the firmware of gpu4 would learn of gpu0 and gpu2 one run later."""
    verdicts = [
        verdict("inventory.vbios", "GPU-4", Status.FAIL, value="96.00.61.00.01", reasons=worded("x" * 50)),
        verdict("matmul.fp8", "GPU-0", Status.INCONCLUSIVE, margin=-0.22),
        verdict("soak.rate", "GPU-0", Status.MARGINAL, margin=-0.1),
        verdict("matmul.fp8", "GPU-2", Status.MARGINAL, margin=-0.12),
        verdict("matmul.bf16", "GPU-3", Status.MARGINAL, margin=0.01),
    ]
    found = closed(verdicts, names=MANY, expected_devices=8)
    short = "; short, but not rejected: gpu0, gpu2 matmul.fp8 its reason"
    assert found.line == f"REJECTED gpu4: inventory.vbios {'x' * 50}{short}"
    assert [each.subject for each in found.verdicts] == ["GPU-0", "GPU-2", "GPU-4"]
    two = closed([*verdicts, verdict("b", "GPU-5", Status.FAIL, margin=-0.09)], names=MANY, expected_devices=8).line
    assert two == f"REJECTED 2/8: gpu4 inventory.vbios {'x' * 50}; gpu5 b its reason{short}"


MANY = {NODE: NODE, **{f"GPU-{index}": f"gpu{index}" for index in range(8)}}


def hung(subject: str, metric: str, **changes: Any) -> Verdict:
    changes = {"event": "hung", "reasons": worded("its process sent nothing for 60 s"), **changes}
    return verdict(metric, subject, Status.FAIL, device_failed=True, **changes)


def test_a_cause_comes_before_what_it_left_out_and_is_what_a_repetition_runs() -> None:
    """A hang leaves twenty limits unmeasured; none of them says anything."""
    left = [hung("GPU-6", f"b{place}", event="left out", reasons=worded("not measured")) for place in range(20)]
    slow = [verdict(f"a{place}", "GPU-2", Status.FAIL, margin=-0.14 + place / 100) for place in range(3)]
    found = closed([*left, *slow, hung("GPU-6", "matmul.fp64")], names=MANY, expected_devices=8)
    assert found.line == (
        "REJECTED 2/8: gpu2 a0 its reason; gpu6 matmul.fp64 its process sent nothing for 60 s (and 22 more)"
    )
    assert [each.metric for each in found.verdicts] == ["a0", "matmul.fp64"]


def test_an_xid_and_a_device_that_could_not_be_measured_come_before_a_shortfall() -> None:
    xid = verdict("counters.xid_hardware", "GPU-1", Status.FAIL, reasons=worded("1, expected 0, Xid 79"))
    slow, unmeasured = (verdict("matmul.bf16", "GPU-0", Status.FAIL, margin=margin) for margin in (-0.5, None))
    assert worst_first([slow, hung("GPU-1", "x", event="left out"), xid])[0] is xid
    assert worst_first([slow, unmeasured])[0] is unmeasured


def test_devices_that_fail_alike_are_told_once() -> None:
    verdicts = [verdict("inventory.sku", uuid, Status.FAIL) for uuid in list(MANY)[1:]]
    assert closed(verdicts, names=MANY).line == "REJECTED 8/8: gpu0 to gpu7 inventory.sku its reason"


def test_devices_share_a_reason_only_where_one_bound_failed_them() -> None:
    """A second device with other wrong results, or with a value below the floor, keeps its own words."""

    def short(subject: str, value: float, **changes: Any) -> Verdict:
        shown = replace(
            verdict("a", subject, Status.FAIL, value=value, margin=value / 700 - 1), floor=700.0, unit="GB/s"
        )
        return replace(shown, reasons=(Compared("floor"),), **changes)

    wrong = [replace(hung(f"GPU-{place}", "a"), event="", reasons=(WrongData(f"off by {place}"),)) for place in (1, 3)]
    alike = [short("GPU-4", 600.0), short("GPU-5", 590.0), short("GPU-6", 600.0, device_failed=True)]
    unknown = short("GPU-7", 500.0, status=Status.INCONCLUSIVE)
    unknown = unknown.because(Note("disturbed", "in use by pid 4"))
    told = closed([*wrong, *alike, unknown], names=MANY, expected_devices=8).line
    assert told == (
        "REJECTED 5/8: gpu1 a wrong results: off by 1; gpu3 a wrong results: off by 3; "
        "gpu4, gpu5 a 590 to 600 GB/s, floor 700 GB/s; gpu6 a 600 GB/s, floor 700 GB/s (-14.3%); "
        "short, but not rejected: gpu7 a 500 GB/s, floor 700 GB/s (-28.6%); disturbed: in use by pid 4"
    )


def test_a_rank_that_hangs_rejects_its_device_and_not_the_node() -> None:
    rank = hung(NODE, "all_reduce.busbw", blamed="GPU-1", reasons=worded("gpu1: its process sent nothing"))
    assert closed([rank]).line == "REJECTED gpu1: all_reduce.busbw gpu1: its process sent nothing"
    assert "gpu1 all_reduce.busbw" in closed([rank, hung("GPU-0", "x")]).line


def test_a_failure_wins_over_what_was_not_judged_and_over_a_bug() -> None:
    verdicts = full(matmul_bf16=Status.FAIL, stream_copy=Status.UNMEASURED)
    assert closed(verdicts, broken_tests=["test_x"], failed_tests=["test_y"], record_problem="disk").exit == 1
    assert closed([*full(), verdict("matmul.fp64", "GPU-1", Status.FAIL, limit=None)]).exit == 1, "without a limit too"


def test_a_users_own_assertion_is_no_verdict() -> None:
    found = closed(full(), failed_tests=["test_mine.py::test_x (AssertionError: 1 != 2)", "test_y"])
    assert found.line == (
        "NOT JUDGED 7/7 limits hold; test_mine.py::test_x (AssertionError: 1 != 2) failed by its own assertion, which "
        "is not a verdict on the hardware (and 1 more)"
    )
    assert found.exit == 6


def any_end(dice: random.Random) -> tuple[list[Verdict], Circumstances]:
    """Some verdicts on what is required, and anything that may happen beside them."""
    statuses = dice.choices(list(Status), weights=[dice.random() for _ in Status], k=len(FULL))
    waiver = Waiver("matmul.bf16", "known", "me", date(2099, 1, 1))
    made = [
        verdict(metric, subject, status, waiver=dice.choice((None, None, waiver)))
        for (metric, subject), status in zip(FULL, statuses, strict=True)
    ]
    lists = ("broken_tests", "failed_tests")
    changes: dict[str, Any] = {name: dice.choice((["why"], [], [], [])) for name in lists}
    changes["simulated"] = dice.choice((True, False, False, False))
    changes["against"] = [(kind, "why") for kind in get_args(ObjectionKind) if not dice.randrange(4)]
    changes |= {name: dice.choice((None, None, "why")) for name in ("record_problem", "interrupted")}
    return dice.sample(made, dice.randint(0, len(made))), around(ended=dice.choice((2, 3, 5)), **changes)


@pytest.mark.nightly
def test_exit_1_is_a_verdict_on_hardware_and_0_needs_every_limit() -> None:
    """Over every combination of verdicts and circumstances that 20,000 throws give."""
    seen = set()
    dice = random.Random(14)  # noqa: S311  no secret is drawn
    for _ in range(20_000):
        verdicts, circumstances = any_end(dice)
        found = close(verdicts, circumstances)
        failing = any(each.status is Status.FAIL and each.fails for each in verdicts)
        seen.add(found.exit)

        assert (found.exit == 1) == (failing and not circumstances.interrupted), (verdicts, circumstances)
        assert found.exit in (0, 1, 2, 3, 5, 6)
        if found.exit == 0:
            assert not any((circumstances.broken_tests, circumstances.failed_tests, circumstances.record_problem))
            assert not any(each.fails for each in verdicts)
    assert seen == {0, 1, 2, 3, 5, 6}


# -- neither


@tabled("changes, word, code, words", "data/judging/closing.yaml")
def test_a_run_that_went_wrong_accepts_nothing(changes: dict[str, Any], word: str, code: int, words: str) -> None:
    found = closed(full(), **changes)
    assert (found.result, found.exit, words in found.line) == (word, code, True)


def test_an_interrupted_run_still_names_what_failed() -> None:
    found = closed(full(matmul_bf16=Status.FAIL), interrupted="Ctrl-C")
    assert found.exit == 2
    assert found.line.endswith("nothing was accepted; REJECTED gpu1: matmul.bf16 its reason so far")


def test_every_device_without_a_verdict_is_named() -> None:
    required = [(metric, uuid, "") for metric in "abcde" for uuid in list(MANY)[1:]]
    found = closed([verdict("a", "GPU-3", limit=None, value=1.0)], names=MANY, required=required)
    assert found.line.endswith("no verdict on gpu0 to gpu2, gpu4 to gpu7 a, b, c and 2 more; gpu3 b, c, d and 1 more")


def test_every_device_that_was_not_judged_is_named_with_its_cause_told_once() -> None:
    def unmeasured(metric: str, subject: str, why: str) -> Verdict:
        return verdict(metric, subject, Status.UNMEASURED, reasons=worded(why))

    torch = [unmeasured(metric, uuid, "no torch") for metric in "abc" for uuid in list(MANY)[1:7]]
    other = [unmeasured("d", "GPU-7", "no permission"), unmeasured("d", "GPU-6", "no permission")]
    found = closed([*torch, *other, unmeasured("e", "GPU-0", "no time")], names=MANY)
    assert found.line == (
        "NOT JUDGED 0/21 limits hold; gpu0 to gpu5 a: UNMEASURED, no torch; "
        "gpu6, gpu7 d: UNMEASURED, no permission (and 13 more)"
    )


def test_the_worst_marginal_and_every_waiver_are_named() -> None:
    """A waiver until 9999 for all devices accepts whatever the vendor delivers, so the line says what it covers."""
    waiver = Waiver("stream.copy", "slow", "J. Doe", date(9999, 12, 31))
    node = Waiver("host.acs", "a VM", "J. Doe", date(2026, 12, 31))
    verdicts = [
        *full(),
        verdict("a", "GPU-0", Status.MARGINAL, margin=0.012),
        verdict("b", "GPU-1", Status.MARGINAL, margin=0.004),
        verdict("stream.copy", "GPU-0", Status.FAIL, margin=-0.3, waiver=waiver),
        verdict("stream.copy", "GPU-1", Status.FAIL, margin=-0.1, waiver=waiver),
        verdict("host.acs", NODE, Status.FAIL, waiver=node),
    ]
    assert closed(verdicts, day="2026-11-22").line == (
        "ACCEPTED 2/2 devices (2 marginal, worst gpu1 b +0.4%; 2 waivers: host.acs by J. Doe until 2026-12-31; "
        "gpu0 stream.copy -30.0% by J. Doe until 9999-12-31, more than a year ahead, for all devices)"
    )


def test_worst_first_is_by_status_and_then_by_margin() -> None:
    holds = [verdict(name, NODE, margin=margin) for name, margin in (("a", 0.5), ("b", 0.03), ("c", None))]
    others = [verdict(each.name, NODE, each, margin=0.9) for each in Status if each is not Status.PASS]
    ordered = ["FAIL", "UNMEASURED", "INCONCLUSIVE", "MARGINAL", "b", "a", "c", "NOT_APPLICABLE"]
    assert [each.metric for each in worst_first([*holds, *others])] == ordered


def test_a_lost_device_is_told_before_its_slow_metrics() -> None:
    """A lost device precedes a ceiling that was broken a hundredfold."""
    burnt = verdict("soak.throttle.hw_thermal", "GPU-0", Status.FAIL, margin=-112.0)
    lost = verdict(
        "matmul.bf16", "GPU-1", Status.FAIL, device_failed=True, event="lost", reasons=worded("the device is lost")
    )
    unlimited = replace(verdict("matmul.fp32", "GPU-0", Status.FAIL, device_failed=True), limit=None)
    for verdicts in ([burnt, lost, unlimited], [unlimited, lost, burnt]):
        assert worst_first(verdicts)[0] is lost
        assert "; gpu1 matmul.bf16 the device is lost" in closed([*full(), *verdicts]).line


# -- what a MARGINAL is marginal by


def test_a_marginal_names_the_warning_limit_that_it_is_past_or_its_reason() -> None:
    """By its ceiling of 50,000,000 it would hold by 100 %."""
    limit = Limit("counters.ecc_corrected", "per h", ceiling=5e7, warn=10.0)
    warned = judge([Measurement("counters.ecc_corrected", "GPU-0", "per h", 12.0)], limit)
    assert warned.status is Status.MARGINAL
    said = closed([*full(), warned]).line
    assert "(1 marginal: gpu0 counters.ecc_corrected 12 per h, warn 10 (-20.0%)" in said
    floor = Limit("stream.copy", "GB/s", floor=500.0, warn=700.0)
    slow, fine = (judge([Measurement("stream.copy", "GPU-0", "GB/s", value)], floor) for value in (650.0, 710.0))
    assert slow.past_warning == pytest.approx((700.0, -50 / 700))
    assert fine.past_warning is None
    wide = verdict("stream.triad", "GPU-0", Status.MARGINAL, margin=2.462)
    wide = replace(wide, reasons=(Compared("floor"), Interval(2.0, 17.0, "floor")))
    said = closed([*full(), wide]).line
    assert "1 marginal: gpu0 stream.triad, the confidence interval 2 to 17 includes the floor" in said
