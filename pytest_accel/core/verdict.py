"""What is said of one metric of one subject."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum

from pytest_accel.core.measurement import Value
from pytest_accel.core.sku import Limit


class Status(str, Enum):
    """What a verdict says. The order is worst first."""

    FAIL = "FAIL"
    UNMEASURED = "UNMEASURED"
    INCONCLUSIVE = "INCONCLUSIVE"
    MARGINAL = "MARGINAL"
    PASS = "PASS"  # noqa: S105
    NOT_APPLICABLE = "NOT APPLICABLE"

    @property
    def fails(self) -> bool:
        """True for what fails its test."""
        return self in (Status.FAIL, Status.UNMEASURED, Status.INCONCLUSIVE)

    @property
    def holds(self) -> bool:
        return self in (Status.PASS, Status.MARGINAL)


WORST_FIRST = tuple(Status)


@dataclass(frozen=True)
class Waiver:
    """One limit that the owner of a node takes as it is found.

    `limit` is a metric. `devices` are UUIDs or serial numbers, none for all; `until` is its last day.
    """

    limit: str
    reason: str
    by: str
    until: date
    devices: tuple[str, ...] = ()
    host: str | None = None
    origin: str = ""

    def covers(self, verdict: Verdict, identities: AbstractSet[str]) -> bool:
        """True if it names the metric of the verdict, and no device or one of `identities`."""
        return self.limit == verdict.metric and (not self.devices or bool(identities & set(self.devices)))


@dataclass(frozen=True)
class Verdict:
    """What is said of one metric of one subject.

    `floor` and `ceiling` are in the unit of the value, also where the limit is a fraction of a peak.
    `margin` is signed: +0.05 holds by 5 % of the limit. `sentence` says it to a person.
    """

    metric: str
    subject: str
    status: Status
    sentence: str
    unit: str = ""
    value: Value | None = None
    floor: float | None = None
    ceiling: float | None = None
    expected: Value | None = None
    margin: float | None = None
    next_run: tuple[float, float] | None = None
    """What the next run of the same device will show, in 95 % of cases; None where its spread is not known."""
    of_peak: float | None = None
    """The share of the datasheet's peak, or of the one measured beside; None where there is none."""
    limit: Limit | None = None
    attempts: int = 1
    fault: bool = False
    """True if the device itself was the reason: lost, hung, crashed, a wrong result. No waiver, no advice covers it."""
    waiver: Waiver | None = None
    """Who takes it as it is. What was found stays as it was found."""

    @property
    def fails(self) -> bool:
        """True for what fails its test: nobody has waived it."""
        return self.status.fails and self.waiver is None

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the verdict that it is: metric, subject, and where the limit was declared."""
        return self.metric, self.subject, self.limit.origin if self.limit else ""

    @property
    def information(self) -> bool:
        """True if something was measured and no limit judges it."""
        return self.limit is None and self.value is not None


@dataclass(frozen=True)
class Change:
    """One verdict before and after a record is judged again; None where there is none."""

    metric: str
    subject: str
    old: Verdict | None
    new: Verdict | None


def show(value: Value | None, unit: str) -> str:
    """A value with its unit, to four significant digits; "1" and "text" are units that are not printed."""
    if value is None:
        return "nothing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    shown = f"{value:.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
    return shown if unit in ("1", "text", "count", "") else f"{shown} {unit}"


def show_margin(margin: float) -> str:
    """A margin as a signed percentage, beyond tenfold as a multiple; nothing where the bound is zero."""
    if math.isinf(margin):
        return ""
    return f"{margin:+.1%}" if abs(margin) < 10 else f"{margin:+.0f}x"


def said(verdict: Verdict, sentence: str, status: Status | None = None) -> Verdict:
    """The verdict in other words, and with another status where one is given."""
    return replace(verdict, sentence=sentence, status=status or verdict.status)
