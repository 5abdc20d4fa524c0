"""The markers: what they mean, and one sentence for every way to get them wrong."""

import math
from typing import Any

import pytest

from pytest_accel import accel_limit, accel_min_gbps, accel_min_tflops
from pytest_accel.core.sku import DeclaredBy, Limit
from pytest_accel.plugin.markers import BadMarker, limits_from_marks

WHERE = "test_mine.py::test_ffn"


def limit(decorator: pytest.MarkDecorator) -> Limit:
    (found,) = limits_from_marks([decorator.mark], WHERE)
    return found


@pytest.mark.parametrize(
    ("decorator", "unit", "floor", "ceiling"),
    [
        (accel_min_tflops(0.8), "of peak", 0.8, None),
        (pytest.mark.accel_min_tflops(0.8), "of peak", 0.8, None),
        (accel_min_tflops(tflops=790), "TFLOPS", 790, None),
        (accel_min_gbps(gbps=50.5), "GB/s", 50.5, None),
        (accel_limit(unit="ms", ceiling=3), "ms", None, 3),
        (accel_limit(unit="W", floor=1, ceiling=3), "W", 1, 3),
    ],
)
def test_a_marker_is_a_limit(
    decorator: pytest.MarkDecorator, unit: str, floor: float | None, ceiling: float | None
) -> None:
    found = limit(decorator)
    assert (found.unit, found.floor, found.ceiling) == (unit, floor, ceiling)
    assert found.origin == f"marker {decorator.name} of {WHERE}"
    assert found.declared_by is DeclaredBy.MARKER
    assert found.relative is (unit == "of peak")


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        (accel_min_tflops(), "give either a fraction of the peak in (0, 1] or tflops="),
        (accel_min_tflops(790), "signature: accel_min_tflops(of_peak: float | None = None, *, tflops"),
        (accel_min_tflops(0.8, tflops=790), "give either a fraction of the peak in (0, 1] or tflops="),
        (accel_min_tflops(790), "790 is not a fraction of the peak in (0, 1]; write tflops=790 for TFLOPS"),
        (accel_min_tflops(0), "0 is not a fraction of the peak in (0, 1]"),
        (accel_min_tflops(-0.5), "-0.5 is not a fraction of the peak in (0, 1]"),
        (accel_min_tflops(math.nan), "the fraction must be a finite number, not nan"),
        (accel_min_tflops("0.8"), "the fraction must be a number, not '0.8'"),
        (accel_min_tflops(True), "the fraction must be a number, not True"),
        (accel_min_tflops(0.8, 0.9), "takes from 0 to 1 positional arguments but 2 were given"),
        (accel_min_tflops(tflop=790), "unexpected keyword argument 'tflop'"),
        (accel_min_tflops(tflops=0), "tflops=0 is not above zero"),
        (accel_min_tflops(tflops=math.nan), "tflops must be a finite number, not nan"),
        (accel_min_gbps(gbps=math.inf), "gbps must be a finite number, not inf"),
        (accel_limit(floor=1), "missing 1 required keyword-only argument: 'unit'"),
        (accel_limit(unit="furlong", floor=1), "unit='furlong' is not known; choose one of TFLOPS"),
        (accel_limit(unit="ms"), "give floor=, ceiling=, or both"),
        (accel_limit(unit="ms", floor=2, ceiling=1), "floor=2 is above ceiling=1"),
        (accel_limit(unit="GB/s", floor=0), "floor=0 is not above zero, so every value would pass"),
        (accel_limit(unit="of peak", floor=80), "with unit='of peak', floor and ceiling must be fractions in (0, 1]"),
        (accel_limit(unit="ms", ceiling=math.inf), "ceiling must be a finite number, not inf"),
        (accel_limit(unit="ms", ceiling="3"), "ceiling must be a number, not '3'"),
    ],
)
def test_a_wrong_marker_names_the_test_the_value_and_the_choices(decorator: pytest.MarkDecorator, message: str) -> None:
    with pytest.raises(BadMarker) as bad:
        limit(decorator)
    assert str(bad.value).startswith(f"{WHERE}: ")
    assert message in str(bad.value)


def test_an_unknown_accel_marker_is_an_error() -> None:
    """A misspelt marker would judge nothing. pytest.mark refuses the name in our own strict tests before."""
    misspelt = pytest.Mark("accel_max_tflops", (0.8,), {}, _ispytest=True)
    with pytest.raises(BadMarker, match="there is no marker accel_max_tflops; choose from accel_min_tflops, accel"):
        limits_from_marks([misspelt], WHERE)


def test_markers_of_others_are_left_alone() -> None:
    others: list[Any] = [
        pytest.mark.usefixtures("x").mark,
        accel_min_gbps(0.5).mark,
        pytest.mark.parametrize("x", [1]).mark,
    ]
    assert [each.unit for each in limits_from_marks(others, WHERE)] == ["of peak"]
