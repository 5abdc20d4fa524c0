"""The markers, declared as typed functions. Each returns the Limit that the decorated test judges by.

Use them as `@pytest.mark.accel_min_tflops(0.8)`, or as `from pytest_accel import accel_min_tflops` and
`@accel_min_tflops(0.8)`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from pytest_accel.core.sku_types import Limit


class BadMarker(Exception):
    """An accel marker that is misspelt or has wrong arguments; the message says which ones are possible."""


def accel_min_tflops(of_peak: float | None = None, *, tflops: float | None = None) -> Limit:
    """Fail below a fraction of the datasheet peak, in (0, 1], or below an absolute number of TFLOPS.

    The peak is that of the dtype that the test measures; on a CPU, it is measured in the same run.
    """
    return _minimum(of_peak, tflops, "tflops", "TFLOPS")


def accel_min_gbps(of_peak: float | None = None, *, gbps: float | None = None) -> Limit:
    """Fail below a fraction of the datasheet bandwidth, in (0, 1], or below an absolute number of GB/s (10^9 bytes).

    The bandwidth is that of the memory, the host link or the peer link, depending on what the test measures.
    """
    return _minimum(of_peak, gbps, "gbps", "GB/s")


def accel_limit(*, unit: str, floor: float | None = None, ceiling: float | None = None) -> Limit:
    """Fail below `floor` or above `ceiling`; `unit` has to be the one that the probe reports."""
    from pytest_accel.core.sku_types import UNITS, Limit

    if unit not in UNITS:
        raise ValueError(f"unit={unit!r} is not known; choose one of {', '.join(UNITS)}")
    if floor is None and ceiling is None:
        raise ValueError("give floor=, ceiling=, or both")
    bounds = [_number(name, value) for name, value in (("floor", floor), ("ceiling", ceiling)) if value is not None]
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        raise ValueError(f"floor={floor} is above ceiling={ceiling}")
    if floor is not None and floor <= 0:
        raise ValueError(f"floor={floor} is not above zero, so every value would pass")
    if unit == "of peak" and not all(0 < bound <= 1 for bound in bounds):
        raise ValueError("with unit='of peak', floor and ceiling must be fractions in (0, 1]")
    return Limit(metric="", unit=unit, floor=floor, ceiling=ceiling)


MARKERS: dict[str, Callable[..., Limit]] = {
    function.__name__: function for function in (accel_min_tflops, accel_min_gbps, accel_limit)
}


def _minimum(of_peak: float | None, absolute: float | None, keyword: str, unit: str) -> Limit:
    """Return a floor, given as a fraction of the peak or as an absolute value. Raises ValueError for a wrong one."""
    from pytest_accel.core.sku_types import Limit

    if (of_peak is None) == (absolute is None):
        raise ValueError(f"give either a fraction of the peak in (0, 1] or {keyword}=")
    if of_peak is not None:
        if not 0 < _number("the fraction", of_peak) <= 1:
            raise ValueError(f"{of_peak} is not a fraction of the peak in (0, 1]; write {keyword}={of_peak} for {unit}")
        return Limit(metric="", unit="of peak", of_unit=unit, floor=of_peak)
    if _number(keyword, absolute) <= 0:
        raise ValueError(f"{keyword}={absolute} is not above zero")
    return Limit(metric="", unit=unit, floor=absolute)


def _number(name: str, value: object) -> float:
    """Return the argument `name` as a number. Raises TypeError or ValueError if it is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return value


def limits_from_marks(marks: Iterable[pytest.Mark], test: str) -> list[Limit]:
    """Return the limits that the markers of a test declare; `test` is its node id.

    Raises BadMarker, whose message names the test, the value that was given and the values that are possible.
    """
    limits = []
    for mark in marks:
        declare = MARKERS.get(mark.name)
        if declare is None:
            if mark.name.startswith("accel_"):
                raise BadMarker(f"{test}: there is no marker {mark.name}; choose from {', '.join(MARKERS)}")
            continue
        try:
            limit = declare(*mark.args, **mark.kwargs)
        except (TypeError, ValueError) as error:
            from pytest_accel.core.words import did_you_mean  # no test without a mistake comes here

            signature = inspect.signature(declare)
            parameters, call = signature.parameters, f"{mark.name}{signature}".replace("'", "").partition(" ->")[0]
            hint = "".join(did_you_mean(name, parameters) for name in mark.kwargs if name not in parameters)
            raise BadMarker(f"{test}: {mark.name}: {error}{hint}\n  signature: {call}") from None
        from pytest_accel.core.sku_types import DeclaredBy  # no test of a run without this plugin's markers comes here

        origin = f"marker {mark.name} of {test}"
        limits.append(replace(limit, origin=origin, declared_by=DeclaredBy.MARKER, test=test))
    return limits


def registration(name: str) -> str:
    """Return the line that `pytest --markers` shows for a marker."""
    declare = MARKERS[name]
    signature = str(inspect.signature(declare)).partition(" ->")[0].replace("'", "")
    return f"{name}{signature}: {' '.join((declare.__doc__ or '').split())}"
