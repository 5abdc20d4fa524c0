"""The floor in force: which bound judges a value in a run, and what remains of the others."""

import math
from dataclasses import replace
from typing import Any

from support import shipped

from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.reasons import BelowPublished, Note, OtherVersion
from pytest_accel.core.sku_types import Basis, ClassFloor, Figure, Limit, Source
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.judge_attempts import judge

THEIRS = Source("published", "them", "2026-11")
OWN = Limit(
    "matmul.bf16", "TFLOPS", floor=600.0, healthy=(650.0, 730.0), source=THEIRS, conditions={"tunable_op": True}
)
CLASS = ClassFloor(500.0, 0.5, 0.6, 0.7, 0.85, ("us",), "row", "a peak", "x.yaml:1", {"torch": ">=2.6"}, "TFLOPS")
BOTH = replace(OWN, class_floor=CLASS, software={"torch": ">=2.9"})
FIGURE = Figure(676.0, 730.0, "TFLOPS", replace(THEIRS, by="others"), ("data",))
PUBLISHED = Limit("matmul.bf16", "TFLOPS", published=FIGURE)


def judged(value: float, limit: Limit, torch: str = "2.13", **changes: Any) -> Verdict:
    return judge([Measurement("matmul.bf16", "GPU-0", "TFLOPS", value, **changes)], limit, {"torch": torch})


def test_the_tightest_of_own_agreed_and_method_else_the_class_is_in_force() -> None:
    kinds = (("measured", Basis.OWN), ("agreed", Basis.AGREED), ("published", Basis.METHOD))
    for kind, basis in kinds:
        found = floor_in_force(replace(BOTH, source=replace(THEIRS, kind=kind)), {"torch": "2.13"})
        assert (found.bound.floor, found.basis) == (600.0, basis)
    of_class = [
        floor_in_force(BOTH, {"torch": "2.8"}),
        floor_in_force(BOTH, {"torch": "2.13"}, {"tunable_op": False}),
        floor_in_force(replace(BOTH, floor=400.0), {"torch": "2.13"}),
        floor_in_force(replace(PUBLISHED, class_floor=CLASS), {"torch": "2.13"}),
    ]
    assert [(floor.bound.floor, floor.basis, floor.excuses) for floor in of_class] == [(500.0, Basis.CLASS, ())] * 4
    older = floor_in_force(BOTH, {"torch": "2.5"})
    assert (older.excuses, older.rejects_below) == (((OtherVersion("torch", ">=2.6", "2.5"), -math.inf),), -math.inf)
    marker = Limit("matmul.bf16", "of peak", floor=0.8)
    assert (floor_in_force(marker).bound, floor_in_force(marker).basis) == (marker, None)


def test_without_a_floor_in_force_a_value_is_information_and_has_to_be_measured() -> None:
    for limit in (PUBLISHED, replace(OWN, software={"torch": "<2"})):
        found = judged(100.0, limit)
        assert (found.status, found.information, found.decides, bool(found.note)) == (
            Status.NOT_APPLICABLE,
            True,
            False,
            True,
        )
        assert judged(740.0, limit).note is None
        assert judged(740.0, limit, trouble=Trouble("need", "no time")).status is Status.UNMEASURED


def test_a_value_below_every_published_one_gets_a_note_and_no_status() -> None:
    found = judged(660.0, replace(PUBLISHED, class_floor=CLASS))
    assert (found.status, found.reasons[-1]) == (Status.PASS, BelowPublished(676.0, "others", ("data",)))
    other = judged(640.0, BOTH, "2.8")
    assert other.reasons[-1] == BelowPublished(650.0, "them", ("torch 2.8",))
    assert judged(640.0, BOTH).note is None, "it is judged by these figures"


def test_older_software_than_that_of_the_class_leaves_a_shortfall_inconclusive() -> None:
    found = [judged(value, BOTH, "2.5").status for value in (499.0, 501.0, 520.0)]
    assert found == [Status.INCONCLUSIVE, Status.MARGINAL, Status.PASS]


def test_the_floor_of_the_class_leaves_the_other_bounds_of_a_limit() -> None:
    limit = replace(OWN, floor=400.0, warn=640.0, conditions={}, class_floor=CLASS)
    found = [judged(value, limit).status for value in (490.0, 630.0, 700.0)]
    assert found == [Status.FAIL, Status.MARGINAL, Status.PASS]
    assert judged(800.0, replace(limit, ceiling=760.0, warn=None)).status is Status.FAIL


def test_older_software_does_not_excuse_a_value_below_the_own_floor_as_well() -> None:
    agreed = replace(OWN, floor=450.0, class_floor=CLASS, source=replace(THEIRS, kind="agreed"))
    found = [judged(value, agreed, "2.5").status for value in (440.0, 470.0, 520.0)]
    assert found == [Status.FAIL, Status.INCONCLUSIVE, Status.PASS]


def test_a_first_attempt_is_far_off_by_the_floor_in_force_alone() -> None:
    """The limit's own floor lies within 1.5 % of its reference, and holds for a newer torch."""
    limit = replace(BOTH, floor=690.0, reference=700.0, healthy=None)
    for first, status in ((475.0, Status.MARGINAL), (400.0, Status.FAIL)):
        attempts = [Measurement("matmul.bf16", "GPU-0", "TFLOPS", value) for value in (first, 680.0)]
        assert judge(attempts, limit, {"torch": "2.8"}).status is status


def test_a_figure_decides_nothing_whatever_it_was_measured_with() -> None:
    ranks = replace(PUBLISHED, conditions={"ranks": 16})
    assert judged(700.0, ranks, conditions={"ranks": 8}).information
    step = Limit("ddp.step_ms", "ms", published=replace(FIGURE, lowest=30.0, highest=34.0, unit="ms"))
    assert judge([Measurement("ddp.step_ms", "node", "ms", 28.0)], step).note is None, "a short time is no shortfall"


def test_a_note_stays_where_something_else_decides() -> None:
    found = judged(600.0, PUBLISHED).worsened(Status.FAIL, Note("doubt", "a"))
    assert (found.status, found.note) == (Status.FAIL, BelowPublished(676.0, "others", ("data",)))


def test_kernels_of_an_older_torch_do_not_reject_an_mi300x_by_figures_of_babelstream() -> None:
    """torch's elementwise kernels came up to those of BabelStream on gfx942 from 2025 on (pytorch 153634, 160444)."""
    for metric in ("stream.copy_kernel", "stream.triad"):
        limit = shipped.load("mi300x").limits[metric]
        assert limit.source
        slow = Measurement(metric, "GPU-0", "GB/s", 0.95 * (limit.floor or 0), conditions=limit.source.method)
        found = judge([slow], limit, {"torch": "2.8.0+rocm6.4"})
        assert (found.status, found.basis, bool(found.note)) == (Status.PASS, Basis.CLASS, True)
        assert judge([slow], limit, {"torch": "2.9.0+rocm6.4"}).status is Status.FAIL


def test_a_fault_of_the_device_fails_with_or_without_a_floor() -> None:
    for limit in (BOTH, PUBLISHED):
        lost = judged(90.0, limit, trouble=Trouble("device", "its worker process died"))
        assert (lost.status, lost.device_failed) == (Status.FAIL, True)
    assert judged(float("nan"), BOTH).status is Status.FAIL
    assert judged(float("nan"), PUBLISHED).status is Status.UNMEASURED


def test_a_fact_keeps_its_bound_on_other_software() -> None:
    """Or a broken one would be information, and the node accepted."""
    fact = Limit("host.iommu", "text", equals="off", source=THEIRS, software={"driver": ">=580"})
    for value, status in (("off", Status.PASS), ("on", Status.INCONCLUSIVE)):
        found = judge([Measurement("host.iommu", "node", "text", value)], fact, {"driver": "570.1"})
        assert found.status is status
