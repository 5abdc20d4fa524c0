"""The shortfalls that no noise explains, so that they count although they could not be seen again. Pure."""

from __future__ import annotations

from pytest_accel.core.sku_types import Basis, Limit
from pytest_accel.core.verdict import Verdict

BEYOND_NOISE = 3.0
"""A shortfall that exceeds the allowance of its limit this many times fails, even if it was seen once: no noise that
the allowance was made for reaches that far."""
USUAL_ALLOWANCE = 0.05
"""The allowance of a limit without a reference, and of the floor of a class."""
SLOWDOWN_SECONDS = 1.0
"""Seconds of hardware slowdown that reject a device, even if they were seen once."""
SLOWDOWNS = ("soak.throttle.hw_thermal", "soak.throttle.power_brake")
"""The metrics that count them. A slowdown by the driver is a share of the time, and has an ordinary ceiling."""
FAR_K = 2.0
"""The kelvin below a floor of a margin that a repeat, which is shorter, does not clear: two steps of a sensor that
tells whole kelvins. A margin is that of two readings in a row (`facts.telemetry.HEAT`)."""
STEADINESS = ("soak.droop_slow", "soak.slowest_window")
"""The views of how steady a soak is. A repeat is shorter and begins hot, so it clears neither."""


def allowance(limit: Limit, basis: Basis | None) -> float:
    """Return the distance between the reference of a limit and its bound, as a share of the reference."""
    bounded = limit.floor is not None or limit.ceiling is not None
    if basis is Basis.CLASS or not limit.reference or limit.relative or not bounded:
        return USUAL_ALLOWANCE
    room = limit.reference - limit.floor if limit.floor is not None else float(limit.ceiling or 0) - limit.reference
    return room / limit.reference if room > 0 else USUAL_ALLOWANCE


def beyond_allowance(verdict: Verdict, limit: Limit, *, once: bool = False) -> bool:
    """Return True for a shortfall that counts although the run had no time to measure it again.

    With `once`, for one that counts although the metric held when it was measured again. A limit that demands one value
    has no allowance. That of a ceiling without a reference is all of the ceiling then: what it bounds is 0 on a healthy
    device, and a share of a small ceiling is noise.
    """
    if verdict.unit == "K":
        return isinstance(verdict.value, int | float) and (limit.floor or 0.0) - verdict.value > FAR_K
    if verdict.metric in STEADINESS:
        return True
    if once and verdict.metric in SLOWDOWNS:
        return isinstance(verdict.value, int | float) and verdict.value > SLOWDOWN_SECONDS
    if verdict.margin is None:
        return not once or limit.equals is not None
    room = 1.0 if once and limit.floor is None and not limit.reference else allowance(limit, verdict.basis)
    return -verdict.margin > BEYOND_NOISE * room
