"""The distance of a device to the temperature at which it slows itself down, as it states both. Pure."""

from __future__ import annotations

FACTS = frozenset({"slowdown_c", "slowdown_margin_c"})
"""The facts by which a device states where it slows itself down."""


def margin(
    temperature_c: float | None,
    margin_c: float | None,
    slowdown_margin_c: float | None,
    slowdown_c: float | None,
) -> float | None:
    """Return the kelvin that are left until the device slows itself down; None if it does not state them.

    NVIDIA's parts from Hopper on state a margin that falls with heat, and its value at the slowdown (-2); the others
    state the temperature of the slowdown.
    """
    if margin_c is not None and slowdown_margin_c is not None:
        return margin_c - slowdown_margin_c
    if temperature_c is not None and slowdown_c is not None:
        return slowdown_c - temperature_c
    return None
