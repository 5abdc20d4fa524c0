"""The smallest losses of speed that a run would have rejected, for each part of the node. Pure.

One device of several alike is rejected by the comparison with its neighbours. Devices that are all slow alike are
rejected by floors alone, so what they have to reach is told as a share of the datasheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.sku import Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.background import Background, PastOf, background_of
from pytest_accel.judging.distance import FAR
from pytest_accel.judging.error_rates import (
    FOUND,
    Noise,
    bound_of,
    by_neighbours,
    of_speed,
    smallest,
)
from pytest_accel.judging.judge import validated_on
from pytest_accel.judging.like_devices import ENOUGH, AllAttempts, Kinds, compared, part_of, together, usable

FAMILIES = {"compute": "products", "memory": "memory", "host": "host link", "link": "peer links"}
"""The name of a family of metrics, by the part that they stress, in the order in which they are told."""
COLLECTIVES = "collectives"
"""The family of the metrics of the whole node, told last."""
SMALLEST_STEP = 1e-9
"""The rounding error of a float: a share of 0.53 is rounded down to 0.53, not to 0.52."""


@dataclass(frozen=True)
class RejectedLosses:
    """The losses that a run rejects with the chance `FOUND` in one family, on the device on which they are largest.

    `behind` is the loss of one device of `count` alike, and `below` the share of the datasheet that all have to reach;
    each is None where nothing rejects. `bounded` says that a limit rejects, also one on a figure that no datasheet has.
    """

    behind: float | None = None
    count: int = 0
    below: float | None = None
    bounded: bool = False


def smallest_losses(
    verdicts: Iterable[Verdict],
    attempts: AllAttempts,
    kinds: Kinds,
    spread_of: Callable[[str], Spread | None],
    past_of: PastOf,
    *,
    software: Mapping[str, Any],
) -> dict[str, RejectedLosses]:
    """Return what a run rejects by family. `software` maps names to the versions in use.

    On a device the best metric counts. Devices that are found in the family are left out if there are others: what
    makes them slow widens their own error.
    """
    found: dict[str, dict[str, list[RejectedLosses]]] = {}
    short: set[tuple[str, str]] = set()
    for each in verdicts:
        own = together(attempts.get((each.metric, each.subject), ()))
        if not own or not usable(own[-1]) or not of_speed(own[-1]):
            continue
        family = COLLECTIVES if each.subject == NODE else FAMILIES[part_of(each.metric)]
        if each.status in (Status.MARGINAL, Status.FAIL, Status.INCONCLUSIVE):
            short.add((family, each.subject))
        background = background_of(attempts, kinds, (each.metric, each.subject), spread_of(each.metric), past_of)
        one = RejectedLosses(*_behind(own[-1], background), *_below(each, own[-1], background, software))
        found.setdefault(family, {}).setdefault(each.subject, []).append(one)
    order = [*FAMILIES.values(), COLLECTIVES]
    return {family: _worst(family, found[family], short) for family in sorted(found, key=order.index)}


def _worst(family: str, devices: Mapping[str, list[RejectedLosses]], short: set[tuple[str, str]]) -> RejectedLosses:
    healthy = {subject: own for subject, own in devices.items() if (family, subject) not in short} or devices
    best = [_best(own) for own in healthy.values()]
    behind = max((each.behind if each.behind is not None else math.inf for each in best), default=math.inf)
    below = min((each.below or 0.0 for each in best), default=0.0)
    count, bounded = min(each.count for each in best), all(each.bounded for each in best)
    return RejectedLosses(None if math.isinf(behind) else behind, count, below or None, bounded)


def _best(own: Iterable[RejectedLosses]) -> RejectedLosses:
    """Return what the best of a device's metrics in a family rejects."""
    every = list(own)
    behind = min((each for each in every if each.behind is not None), key=lambda each: each.behind or 0, default=None)
    below = max((each.below or 0.0 for each in every), default=0.0)
    bounded = any(each.bounded for each in every)
    return RejectedLosses(behind.behind if behind else None, behind.count if behind else 0, below or None, bounded)


def _behind(own: Measurement, background: Background) -> tuple[float | None, int]:
    """Return the loss from which on the neighbours reject a device, and the number of devices that are alike."""
    count = len([each for each in map(together, background.others) if each and usable(each[-1])])
    if count < ENOUGH or not compared(own.metric, own.subject, own.unit):
        return None, 0
    narrow = by_neighbours(own, background)
    loss = smallest(narrow.rejected) if narrow else None
    wide = 1 - FAR * _held(own.noise)
    return min(wide, loss if loss is not None else 1.0), count


def _below(
    verdict: Verdict, own: Measurement, background: Background, software: Mapping[str, Any]
) -> tuple[float | None, bool]:
    """Return the share of the datasheet below which a limit, or the floor of the class beneath it, rejects.

    Neither does with software that its figures do not hold for. The share is None for a figure that no datasheet has,
    although a limit may reject, which the second value says.
    """
    limit = verdict.limit
    if limit is None:
        return None, False
    holds = not validated_on(limit.software, software)[0] and not verdict.advises
    bounds = holds and bound_of(limit, own.unit) is not None
    peak = 1.0 if limit.relative else own.peak.value if own.peak and not own.peak.samples else 0.0
    shares = [limit.floor / peak] if bounds and limit.floor and peak else []
    if limit.beneath and not validated_on(limit.beneath.software, software)[0]:
        shares.append(limit.beneath.share)
    if not shares:
        return None, bounds
    runs = background.spread.between_runs if background.spread else None
    return max(shares) * _held(math.hypot(runs or 0.0, own.noise)), True


def _held(deviation: float) -> float:
    """Return the speed, as a multiple of a bound, whose two goes are both below the bound with the chance `FOUND`.

    It is the bound itself where too few samples tell how far two goes lie apart.
    """
    if not deviation or not math.isfinite(deviation):
        return 1.0
    low, high, noise = 0.5, 1.0, Noise(0.0, deviation)
    for _ in range(20):
        middle = (low + high) / 2
        below = noise.both_below(1 / middle - 1, 1 / middle - 1) >= FOUND
        low, high = (middle, high) if below else (low, middle)
    return low


def sentence(found: Mapping[str, RejectedLosses]) -> str:
    """Return what a run rejects in one line, never more than it does; empty if no speed was measured."""
    if not found:
        return ""
    counts = {each.count for each in found.values() if each.behind is not None}
    behind = [f"{_up(each.behind):.1%} ({family})" for family, each in found.items() if each.behind is not None]
    below = [f"{_down(each.below):.2f} ({family})" for family, each in found.items() if each.below]
    nothing = [family for family, each in found.items() if each.behind is None and not each.bounded]
    parts = [f"one of {min(counts)} below its neighbours by {', '.join(behind)}"] if behind else []
    alike = [f"below {', '.join(below)} of the datasheet"] if below else []
    unseen = [family for family, each in found.items() if each.behind is not None and not each.bounded]
    alike += [f"nothing in {', '.join(unseen)}"] if unseen else []
    parts += [f"all alike {', '.join(alike)}"] if alike else []
    parts += [f"nothing in {', '.join(nothing)}"] if nothing else []
    return f"rejects at {FOUND:.0%}: {'; '.join(parts)}" if parts else ""


def _up(loss: float) -> float:
    """Return a loss rounded up to a tenth of a percent."""
    return math.ceil(1000 * loss - SMALLEST_STEP) / 1000


def _down(share: float) -> float:
    """Return a share rounded down to two digits."""
    return math.floor(100 * share + SMALLEST_STEP) / 100
