"""The distribution of a metric over a delivery, and the chance that a slow device was accepted by its limit. Pure.

The deviations are those of `judging/calibration`, the chances those of `judging/error_rates`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.sku import Limit, Source, Spread
from pytest_accel.judging.calibration import spreads_of
from pytest_accel.judging.error_rates import accepted, bound_of, of_speed, smallest_loss_of_limit

LOSS = 0.08
"""The loss of speed that the risk is told for."""
SLOW_SHARE = 0.01
"""The share of the devices that are slow, for the number of them that were accepted."""
ENOUGH = 8
"""Devices, or nodes for a figure of the whole node, from which on a delivery tells its own spread."""
BARS = 24
"""Bars of a histogram."""


@dataclass(frozen=True)
class Risk:
    """How sure an acceptance by one limit is, with deviations of one origin.

    `accepted` is the chance that a device that lost `LOSS` of its speed is accepted by the limit alone, `expected` the
    number of such devices among the accepted ones if `SLOW_SHARE` of them had that loss, and `finds` the smallest loss
    that the limit finds at 95 %. Where they are None, `basis` says why; else it tells the deviations.
    """

    basis: str
    accepted: float | None = None
    expected: float | None = None
    finds: float | None = None


@dataclass(frozen=True)
class Distribution:
    """One metric over all devices, or all nodes, of a delivery."""

    metric: str
    unit: str
    n: int
    accepted: int
    """How many of the `n` figures are of accepted nodes."""
    of_node: bool
    least: float
    low: float
    """The value below which 5 % lie."""
    middle: float
    high: float
    most: float
    between_devices: float | None
    """The deviation between the devices of a node, as a fraction of the value; None where it is not known."""
    between_nodes: float | None
    bars: Sequence[int]
    """How many lie in each of equal parts from `least` to `most`."""
    floor: float | None
    ceiling: float | None
    healthy: tuple[float, float] | None
    advises: bool
    """True if the limit only advises."""
    limits: int
    """The number of different limits that the nodes were judged by."""
    found: Risk | None
    """The risk by the spread of this delivery; None for a metric that is no speed or has no limit."""
    stated: Risk | None
    """The risk by the spread that the threshold file states."""


Values = Mapping[tuple[str, str], float]
"""The figures of a metric by node and subject."""


def distribution(
    metric: str,
    unit: str,
    values: Values,
    limits: Sequence[Limit],
    spread_of: Callable[[str], Spread | None],
    *,
    of_accepted: int,
) -> Distribution:
    """Return the distribution of one metric. `limits` are those that it was judged by, the commonest first.

    `of_accepted` is the number of the values that are of accepted nodes: the risk is that of what was accepted.
    """
    every, limit = sorted(values.values()), limits[0] if limits else None
    of_node = all(subject == NODE for _, subject in values)
    centre = median(every)
    is_speed = of_speed(Measurement(metric, "", unit))
    spread = _spread(values, centre, of_node=of_node) if is_speed else None
    speed = limit is not None and is_speed and bound_of(limit, unit) is not None
    absolute = limit if limit is not None and not limit.relative else None
    return Distribution(
        metric=metric,
        unit=unit,
        n=len(every),
        accepted=of_accepted,
        of_node=of_node,
        least=every[0],
        low=quantile(every, 0.05),
        middle=centre,
        high=quantile(every, 0.95),
        most=every[-1],
        between_devices=spread.between_devices if spread else None,
        between_nodes=spread.between_nodes if spread else None,
        bars=_bars(every),
        floor=absolute.floor if absolute else None,
        ceiling=absolute.ceiling if absolute else None,
        healthy=absolute.healthy if absolute else None,
        advises=limit is not None and limit.advises,
        limits=len(limits),
        found=_found(limit, spread, centre, len(every), of_accepted) if speed and limit else None,
        stated=_risk(limit, spread_of(metric), of_accepted, _stated_words(spread_of(metric)))
        if speed and limit
        else None,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of ordered values lies, between two of them."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _bars(ordered: Sequence[float]) -> list[int]:
    width = (ordered[-1] - ordered[0]) / BARS
    bars = [0] * BARS
    for each in ordered:
        bars[min(BARS - 1, int((each - ordered[0]) / width)) if width else BARS // 2] += 1
    return bars


def _spread(values: Values, centre: float, *, of_node: bool) -> Spread | None:
    """Return the deviations between the devices of this delivery and between its nodes; None for too few.

    A device was measured once, so that the deviation between runs is a part of them.
    """
    if len(values) < ENOUGH or not centre:
        return None
    found = spreads_of({place: [value] for place, value in values.items()}, centre)
    source = Source("measured", "this delivery", "")
    return Spread(source, between_devices=None if of_node else found.devices, between_nodes=found.nodes)


def _found(limit: Limit, spread: Spread | None, centre: float, n: int, of_accepted: int) -> Risk:
    """Return the risk by the spread of the delivery: for a device that is slower than its median."""
    if spread is None:
        return Risk(f"not known: {n} figures, at least {ENOUGH} tell a spread")
    if limit.relative:
        return Risk("not known: the limit is a share of a peak")
    here = replace(limit, reference=centre, healthy=None)
    return _risk(here, spread, of_accepted, _words(spread))


def _risk(limit: Limit, spread: Spread | None, of_accepted: int, words: str) -> Risk:
    chance = accepted(limit, spread, LOSS)
    if chance is None:
        return Risk(words if words.startswith("not known") else f"not known by {words}: no healthy figure is stated")
    return Risk(words, chance, of_accepted * SLOW_SHARE * chance, smallest_loss_of_limit(limit, spread))


def _words(spread: Spread) -> str:
    parts = (("devices", spread.between_devices), ("nodes", spread.between_nodes), ("runs", spread.between_runs))
    return ", ".join(f"{100 * each:.2g} % between {name}" for name, each in parts if each is not None)


def _stated_words(spread: Spread | None) -> str:
    return f"{_words(spread)} ({spread.source.by})" if spread else "not known: the threshold file states no spread"
