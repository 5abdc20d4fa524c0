"""The smallest losses of speed that a run would have rejected, for each part of the node. Pure.

One device of several alike is rejected by the comparison with its neighbours. Devices that are all slow alike are
rejected by floors alone, so what they have to reach is told as a share of the datasheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Measurement, Peak, is_time
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Platform, Sku, Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.background import Background, background_of
from pytest_accel.judging.verdicts.distance import FAR
from pytest_accel.judging.verdicts.judge import validated_on
from pytest_accel.judging.verdicts.like_devices import (
    ENOUGH,
    AllAttempts,
    DeviceKind,
    Kinds,
    compared,
    is_speed,
    kind_of,
    part_of,
    together,
    usable,
)
from pytest_accel.judging.verdicts.references import to_neighbours
from pytest_accel.probes.declare import declaration_of, finder_of
from pytest_accel.skus import peaks, requirements

FAMILIES = {"compute": "products", "memory": "memory", "host": "host link", "link": "peer links"}
"""The name of a family of metrics, by the part that they stress, in the order in which they are told."""
COLLECTIVES = "collectives"
"""The family of the metrics of the whole node, told last."""
FOUND = 0.95
"""The chance of being rejected that a loss is stated for."""
IN_BOTH = NormalDist().inv_cdf(math.sqrt(FOUND))
"""Standard deviations above its mean below which a value lies in both of two independent goes with the chance `FOUND`.
Goes that have a deviation in common are both below it more often, so that no loss is stated too small."""
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
        if not own or not usable(own[-1]) or not _of_speed(own[-1]):
            continue
        family = COLLECTIVES if each.subject == NODE else FAMILIES[part_of(each.metric)]
        if each.status in (Status.MARGINAL, Status.FAIL, Status.INCONCLUSIVE):
            short.add((family, each.subject))
        background = background_of(attempts, kinds, (each.metric, each.subject), spread_of(each.metric))
        one = RejectedLosses(*_behind(own[-1], background), *_below(each, own[-1], background, software))
        found.setdefault(family, {}).setdefault(each.subject, []).append(one)
    order = [*FAMILIES.values(), COLLECTIVES]
    return {family: _worst(family, found[family], short) for family in sorted(found, key=order.index)}


def of_run(run: Run, spread_of: Callable[[str], Spread | None]) -> str:
    """Return the sentence on the losses of speed that a run rejects."""
    attempts = grouped(run.measurements, lambda each: (each.metric, each.subject))
    kinds = {device.uuid: kind_of(device) for device in run.devices}
    return sentence(smallest_losses(run.verdicts, attempts, kinds, spread_of, software=run.software))


def before_a_run(sku: Sku, platform: Platform) -> dict[str, RejectedLosses]:
    """Return what a run on a platform rejects by family, but for the noise of its own samples.

    The devices are taken to be alike in every place of the node, and the software to be what the limits hold for.
    """
    limits = requirements.applying(sku.limits_on(platform), sku, platform)
    devices = {str(place): DeviceKind(sku.name) for place in range(platform.devices or 1)}
    verdicts = [
        Verdict(limit.metric, subject, Status.PASS, limit=limit)
        for limit in limits.values()
        if limit.levels
        for subject in ([NODE] if requirements.of_node(limit.metric) else devices)
    ]
    attempts = {(one.metric, one.subject): [_planned(one, sku, platform)] for one in verdicts}
    return smallest_losses(verdicts, attempts, devices, sku.spread_of, software={})


def _planned(verdict: Verdict, sku: Sku, platform: Platform) -> Measurement:
    """Return a measurement without noise. A limit that is a fraction of a peak has the metric's unit."""
    limit, declared, peak = verdict.limit, finder_of(verdict.metric), peaks.peak(sku, verdict.metric, platform)
    assert limit
    unit = limit.of_unit or (declared.unit_of(limit.metric) if declared else "") if limit.relative else limit.unit
    return Measurement(verdict.metric, verdict.subject, unit or "", 1.0, peak=Peak(*peak) if peak else None)


def _of_speed(own: Measurement) -> bool:
    declared = declaration_of(own.metric)
    return not (declared and declared.fact) and is_speed(own.metric, own.unit)


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
    near = [each[-1] for each in map(together, background.near) if each]
    behind, held = to_neighbours(own, near, background.spread), [(1 - FAR) * _held(own.noise)]
    if behind and behind.fails_from < 1:
        held.append((1 - behind.fails_from) * _held(behind.reference.deviation))
    return 1 - max(held), count


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
    bounds = holds and bool(limit.ceiling if is_time(own.unit) else limit.floor)
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
    return 1 / (1 + IN_BOTH * deviation) if math.isfinite(deviation) else 1.0


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
