"""The markers: what they mean, and one sentence for every way to get them wrong."""

from typing import Any

import pytest
from support import data_files
from support.rows import each_row

import pytest_accel
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.plugin.markers import BadMarker, limits_from_marks

TABLES = data_files.tables("plugin/markers")

Marker = tuple[str, list[Any], dict[str, Any]]
WHERE = "test_mine.py::test_ffn"


def limit(marker: Marker, source: Any = pytest_accel) -> Limit:
    name, given, named = marker
    (found,) = limits_from_marks([getattr(source, name)(*given, **named).mark], WHERE)
    return found


@each_row("source", [pytest_accel, pytest.mark])
@each_row(("marker", "unit", "floor", "ceiling"), TABLES["limits"])
def test_a_marker_is_a_limit(
    source: Any, marker: Marker, unit: str, floor: float | None, ceiling: float | None
) -> None:
    found = limit(marker, source)
    assert (found.unit, found.floor, found.ceiling) == (unit, floor, ceiling)
    assert found.origin == f"marker {marker[0]} of {WHERE}"
    assert found.declared_by is DeclaredBy.MARKER
    assert found.relative is (unit == "of peak")


@each_row(("marker", "message"), TABLES["wrong"])
def test_a_wrong_marker_names_the_test_the_value_and_the_choices(marker: Marker, message: str) -> None:
    with pytest.raises(BadMarker) as bad:
        limit(marker)
    assert str(bad.value).startswith(f"{WHERE}: ")
    assert message in str(bad.value)


def test_a_misspelt_argument_is_told_with_the_one_that_is_meant() -> None:
    misspelt = pytest.Mark("accel_min_tflops", (), {"tflop": 650}, _ispytest=True)
    with pytest.raises(BadMarker, match="unexpected keyword argument 'tflop'; did you mean 'tflops'"):
        limits_from_marks([misspelt], WHERE)


def test_an_unknown_accel_marker_is_an_error() -> None:
    """A misspelt marker would judge nothing. pytest.mark refuses the name in our own strict tests before."""
    misspelt = pytest.Mark("accel_max_tflops", (0.8,), {}, _ispytest=True)
    with pytest.raises(BadMarker, match="there is no marker accel_max_tflops; choose from accel_min_tflops, accel"):
        limits_from_marks([misspelt], WHERE)


def test_markers_of_others_are_left_alone() -> None:
    others: list[Any] = [
        pytest.mark.usefixtures("x").mark,
        pytest_accel.accel_min_gbps(0.5).mark,
        pytest.mark.parametrize("x", [1]).mark,
    ]
    assert [each.unit for each in limits_from_marks(others, WHERE)] == ["of peak"]
