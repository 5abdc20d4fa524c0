"""The smallest loss of speed that a run would have found, for each part of the node. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pytest_accel.core.measurement import NODE
from pytest_accel.core.sku import Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.background import PastOf, background_of
from pytest_accel.judging.error_rates import FOUND, of_speed, smallest_loss, ways_of
from pytest_accel.judging.like_devices import AllAttempts, Kinds, part_of, usable

FAMILIES = {"memory": "memory", "host": "host link", "link": "peer links", "compute": "products"}
"""The name of a family of metrics, by the part that they stress."""
COLLECTIVES = "collectives"
"""The family of the metrics of the whole node."""


@dataclass(frozen=True)
class SmallestLoss:
    """The smallest loss that a run finds in one family, as a fraction; by one metric in one way."""

    family: str
    loss: float
    metric: str
    way: str


def smallest_losses(
    verdicts: Iterable[Verdict],
    attempts: AllAttempts,
    kinds: Kinds,
    spread_of: Callable[[str], Spread | None],
    past_of: PastOf,
) -> dict[str, SmallestLoss | None]:
    """Return the smallest loss that a run finds with a chance of 95 % by family; None where it is not known.

    It is that of the best metric and way of a device, for the device on which that is worst. Devices that are found in
    the family are left out if there are others: what makes them slow widens their own error.
    """
    best: dict[tuple[str, str], SmallestLoss] = {}
    families: dict[str, None] = {}
    short: set[tuple[str, str]] = set()
    for each in verdicts:
        together = [one for one in attempts.get((each.metric, each.subject), ()) if one.how == "together"]
        if not together or not usable(together[-1]) or not of_speed(together[-1]):
            continue
        family = COLLECTIVES if each.subject == NODE else FAMILIES[part_of(each.metric)]
        families.setdefault(family)
        if each.status in (Status.MARGINAL, Status.FAIL, Status.INCONCLUSIVE):
            short.add((family, each.subject))
        background = background_of(attempts, kinds, (each.metric, each.subject), spread_of(each.metric), past_of)
        for way in ways_of(together[-1], each.limit, background, advises=bool(each.advisory)):
            loss, key = smallest_loss(way), (family, each.subject)
            if loss is not None and (key not in best or loss < best[key].loss):
                best[key] = SmallestLoss(family, loss, each.metric, way.name)
    rest = {key: one for key, one in best.items() if key not in short}
    return {family: _worst(family, rest) or _worst(family, best) for family in families}


def _worst(family: str, best: Mapping[tuple[str, str], SmallestLoss]) -> SmallestLoss | None:
    """Return the largest of the smallest losses of the devices in one family, None where none is known."""
    return max((one for one in best.values() if one.family == family), key=lambda one: one.loss, default=None)


def sentence(found: dict[str, SmallestLoss | None]) -> str:
    """Return the smallest losses in one line; empty if no speed was measured."""
    if not found:
        return ""
    begin = f"smallest loss found at {FOUND:.0%}:"
    known = [f"{each.family} {each.loss:.1%} ({each.metric}, {each.way})" for each in found.values() if each]
    unknown = [family for family, each in found.items() if each is None]
    if not known:
        return f"{begin} not known, as no spread of healthy devices is stated"
    rest = f"; not known: {', '.join(unknown)}" if unknown else ""
    return f"{begin} {', '.join(known)}{rest}"
