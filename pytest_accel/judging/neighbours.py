"""Compares a rate or a time with those of the like devices of the node. Pure.

A limit says what a product has to reach; the neighbours say what this one does under the same load, power and cooling.
Where no limit decides they are all that can tell a slow device, and far behind them no limit clears it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_accel.core.measurement import NODE, Device, Measurement, is_rate
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Limit, Spread
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, show, with_sentence
from pytest_accel.drivers import registry
from pytest_accel.probes.declare import finder_of

ENOUGH = 4
"""Number of like devices from which on their median is that of healthy ones if one of them is slow."""
FAR = 0.5
"""A device below this share of the median fails: no two healthy devices of one product differ so much."""
BEHIND = 0.85
"""A device below this share of the median is marginal where no limit decides. Healthy devices of one product differ by
a few percent; over whole clusters 8 % on average and 22 % at most were found (arXiv 2208.11035v3, abstract)."""
TIMES = ("s", "ms", "us")
"""Units of which less is better."""
LATENCY = "us"
"""The unit of latencies. They depend on the place of a device in the node (socket, switch) by more than rates do, so a
device is never marginal for one."""
POWER = "W"
"""The unit of the power under load, which like devices draw alike."""

Attempt = Sequence[Measurement]
"""The measurements of one metric of one device, oldest first."""


def kind_of(device: Device) -> Hashable | None:
    """Return the kind of a device, which like devices share; None for a processor.

    Another load on a processor slows it down, and limits on it are shares of a peak measured at the same time.
    """
    if not registry.vendor(device.driver).accelerator:
        return None
    return device.driver, device.model, device.facts.get("virtualization")


def like(
    attempts: Mapping[tuple[str, str], Attempt], kinds: Mapping[str, Hashable | None], metric: str, subject: str
) -> list[Attempt]:
    """Return the attempts at a metric of all devices of the subject's kind, its own included."""
    kind = kinds.get(subject)
    if kind is None:
        return []
    return [each for (name, other), each in attempts.items() if name == metric and kinds.get(other) == kind]


@dataclass(frozen=True)
class Standing:
    """A device among like ones: its speed as a share of their median (`middle`, in the metric's unit)."""

    share: float
    middle: float
    count: int

    def words(self, unit: str) -> str:
        """Return the standing as part of a sentence."""
        among = f"the median of {self.count} devices ({show(self.middle, unit).removesuffix(f' {unit}')})"
        if unit in TIMES:
            return f"{1 / self.share:.3g} times {among}" if self.share else f"longer than {among}"
        return f"{1 - self.share:.0%} below {among}"


def compared(metric: str, subject: str, unit: str) -> bool:
    """Return True for a metric that neighbours can judge: a rate, a time or the power of a device under load.

    Facts are judged by limits. A time that a probe finds beside its own metric is a count of seconds, or the tail of a
    distribution, of which like devices may show several times as much.
    """
    declared = finder_of(metric) or finder_of(parse(metric).base)
    if subject == NODE or (declared and (declared.fact or declared.node)):
        return False
    beside = declared is not None and parse(metric).base in declared.also
    return is_rate(unit) or unit == POWER or (unit in TIMES and not beside)


def standing(own: Measurement, alike: Sequence[Measurement]) -> Standing | None:
    """Return where a device stands among like ones, itself included; None if it cannot be compared.

    A measurement with a trouble or a disturbance says nothing about its device. The statistics of the comparison are
    here alone.
    """
    values = [float(each.value) for each in alike if _usable(each) and isinstance(each.value, int | float)]
    if not compared(own.metric, own.subject, own.unit) or not _usable(own) or len(values) < ENOUGH:
        return None
    middle, value = median(values), float(own.value or 0)
    if middle <= 0 or (own.unit in TIMES and value <= 0):
        return None
    return Standing(middle / value if own.unit in TIMES else value / middle, middle, len(values))


def _usable(one: Measurement) -> bool:
    """Return whether a measurement has a number that says something about its device.

    A power of 0 W is no reading: of the two devices of an MI250, the driver states the module's power for the first and
    0 for the second (Linux, aldebaran_ppt.c, aldebaran_get_gpu_metrics).
    """
    number = isinstance(one.value, int | float) and not isinstance(one.value, bool) and math.isfinite(one.value)
    stated = one.unit != POWER or one.value != 0
    return number and stated and not one.trouble and not one.disturbance


def beside(verdict: Verdict, attempts: Attempt, others: Sequence[Attempt], spread: Spread | None = None) -> Verdict:  # noqa: ARG001
    """Return the verdict on a device after the comparison with like ones.

    `others` are their attempts, its own included. The last attempt decides, as it does under a limit: a device that was
    far behind once is marginal.
    """
    rounds = _rounds(attempts, others)
    if not rounds or verdict.status is Status.FAIL:
        return verdict
    now, before = rounds[-1], [each for each in rounds[:-1] if each and each.share < FAR]
    status = _status(now, verdict) if now else None
    if now and status:
        return _worse(verdict, status, f"{now.words(verdict.unit)}{_aftermath(attempts, now)}")
    if before and now:
        words = f"holds only on the repeat, first measured {before[0].words(verdict.unit)}"
        return _worse(verdict, Status.MARGINAL, words)
    return verdict


def _rounds(attempts: Attempt, others: Sequence[Attempt]) -> list[Standing | None]:
    """Return the standing in each attempt on all devices together; of others that made fewer the last one counts."""
    own, alike = _together(attempts), [each for each in map(_together, others) if each]
    return [
        standing(one, [each[min(place, len(each) - 1)] for each in alike]) for place, one in enumerate(own) if alike
    ]


def _together(attempts: Attempt) -> Attempt:
    return [each for each in attempts if each.how == "together"]


def _aftermath(attempts: Attempt, now: Standing) -> str:
    """Return what came after a device was found far behind: no repeat, or a measurement of it alone."""
    if now.share >= FAR:
        return ""
    if why := attempts[-1].details.get("not_repeated"):
        return f"; not measured again for lack of time: {why}"
    alone = [each for each in attempts if each.how == "alone" and _usable(each)]
    return f"; {show(alone[-1].value, alone[-1].unit)} when measured alone" if alone else ""


def _status(now: Standing, verdict: Verdict) -> Status | None:
    """Return the status that a standing gives by itself, or None."""
    if now.share < FAR:
        return Status.FAIL
    behind = now.share < BEHIND and verdict.unit != LATENCY
    return Status.MARGINAL if behind and not _decided(verdict) else None


def _decided(verdict: Verdict) -> bool:
    """Return True if a limit that may reject bounds the metric on the side of slow devices."""
    limit: Limit | None = verdict.limit
    if limit is None or limit.severity == "warn" or limit.differs or verdict.advisory:
        return False
    return limit.equals is not None or (limit.ceiling if verdict.unit in TIMES else limit.floor) is not None


def _worse(verdict: Verdict, status: Status, words: str) -> Verdict:
    """Return the verdict with the words added, and with the status if it is worse than its own."""
    told = show(verdict.value, verdict.unit) if verdict.information else verdict.sentence
    joint = ", " if verdict.information else "; "
    worse = min(status, verdict.status, key=WORST_FIRST.index)
    return with_sentence(verdict, f"{told}{joint}{words}", worse)
