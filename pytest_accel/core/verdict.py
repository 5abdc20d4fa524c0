"""Verdict, Status and Waiver: the result of judging one metric of one subject."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum
from typing import Literal

from pytest_accel.core import exits
from pytest_accel.core.measurement import NOT_IN_FILE, Event, Value
from pytest_accel.core.reasons import BelowPublished, Note, PastWarning, Reason
from pytest_accel.core.sku_types import Basis, DeclaredBy, Limit


class Status(str, Enum):
    """The status of a verdict. The members are in order, worst first."""

    FAIL = "FAIL"
    UNMEASURED = "UNMEASURED"
    INCONCLUSIVE = "INCONCLUSIVE"
    MARGINAL = "MARGINAL"
    PASS = "PASS"  # noqa: S105
    NOT_APPLICABLE = "NOT APPLICABLE"

    @property
    def fails(self) -> bool:
        """True if the status fails the test."""
        return self in (Status.FAIL, Status.UNMEASURED, Status.INCONCLUSIVE)

    @property
    def holds(self) -> bool:
        """True if the limit holds."""
        return self in (Status.PASS, Status.MARGINAL)


WORST_FIRST = tuple(Status)


class Result(str, Enum):
    """The result of a run, of a series or of a network between nodes. Its value begins the closing line."""

    ACCEPTED = "ACCEPTED"
    """Every limit that the level requires was judged on every device, and holds."""
    HELD = "HELD"
    """Everything that ran holds, but this run was no acceptance."""
    NOT_JUDGED = "NOT JUDGED"
    """No limit is broken, but something that is required could not be judged."""
    REJECTED = "REJECTED"
    """At least one limit is broken."""
    BROKEN = "BROKEN"
    """A software error ended the run. It is not a verdict on the hardware."""
    INTERRUPTED = "INTERRUPTED"
    """The run was stopped before its end. Nothing was accepted."""

    @staticmethod
    def words(result: Result | None, none: str = "") -> str:
        """Return the words for a result, and `none` where there is no result."""
        return result.value if result else none

    @property
    def exit(self) -> int:
        """The exit status; a run that HELD ends with 0 where nobody asked for an acceptance."""
        statuses = {"ACCEPTED": exits.HOLDS, "REJECTED": exits.REJECTED, "BROKEN": exits.BROKEN}
        return {**statuses, "INTERRUPTED": exits.INTERRUPTED}.get(self.value, exits.NOT_JUDGED)

    @property
    def holds(self) -> bool:
        """True if everything that was asked for was judged, and nothing of it is broken."""
        return self in (Result.ACCEPTED, Result.HELD)


@dataclass(frozen=True)
class Waiver:
    """A limit whose failure the owner of a node accepts.

    `limit` is a metric. `devices` are UUIDs or serial numbers, empty for all; `until` is the last day that it is valid.
    """

    limit: str
    reason: str
    by: str
    until: date
    devices: tuple[str, ...] = ()
    host: str | None = None
    origin: str = ""

    def covers(self, verdict: Verdict, identities: AbstractSet[str]) -> bool:
        """Return True if it names the verdict's metric and either no device or one of `identities`."""
        return self.limit == verdict.metric and (not self.devices or bool(identities & set(self.devices)))


Since = Literal["first accepted", "last"]
"""The earlier run that a device is compared with."""


@dataclass(frozen=True)
class Comparison:
    """The distance of a device from like ones of its node, or from an earlier run of its own.

    Losses are shares of speed: `lost` is that of the device, negative where it is faster, and healthy devices or two
    runs differ by `allowed` at most. `middle`, in the unit of the verdict, is the median of the `count` others or the
    earlier value.
    """

    lost: float
    allowed: float
    middle: float
    count: int = 1
    spread: float | None = None
    """The standard deviation between healthy devices as a fraction, None where none is known."""
    at_clock: bool = False
    """True if the rates at the clock that each device held are compared."""
    status: Status = Status.PASS
    """The status that the verdict has by it at best; PASS where it does not count, or the limit failed already."""
    at_first: bool = False
    """True if the repeat does not show it any more."""
    since: Since | None = None
    """The earlier run; None for a comparison with like devices."""
    day: str = ""
    differs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The other facts that differ since, by name: the value then and the value now."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one metric of one subject.

    `floor` and `ceiling` are in the unit of the value, even if the limit is a fraction of a peak. `margin` is signed:
    +0.05 holds by 5 % of the limit. `reasons` begin with the comparison; `core.sentences` says them in words.
    """

    metric: str
    subject: str
    status: Status
    reasons: tuple[Reason, ...] = ()
    unit: str = ""
    value: Value | None = None
    floor: float | None = None
    ceiling: float | None = None
    expected: Value | None = None
    margin: float | None = None
    next_run: tuple[float, float] | None = None
    """The 95 % interval (low, high) of the same device's next run; None if the spread is not known."""
    of_peak: float | None = None
    """The value as a fraction of its peak, from the datasheet or measured in the same run; None without one."""
    limit: Limit | None = None
    attempts: int = 1
    device_failed: bool = False
    """True if the device itself failed: lost, hung, crashed, or a wrong result. No waiver covers that, and it rejects
    without a floor too."""
    basis: Basis | None = None
    """The origin of the figures of the floor that judged; None for bounds without such figures, and without a floor."""
    neighbours: Comparison | None = None
    """The comparison with the like devices of the node; None where they cannot be compared."""
    past: Comparison | None = None
    """The comparison with an earlier run of the same device; None where there is none to compare with."""
    event: Event = ""
    """The failure of the device in one word; "left out" if the metric was not tried because of an earlier failure."""
    blamed: str = ""
    """The UUID of the device that a failure of the node is attributed to; empty if there is none."""
    waiver: Waiver | None = None
    """The waiver that accepts the failure. The status stays as it was judged."""

    @property
    def fails(self) -> bool:
        """True if the verdict fails its test: its status does, and no waiver covers it."""
        return self.status.fails and self.waiver is None

    @property
    def rejects(self) -> bool:
        """True if the verdict rejects its device: it is FAIL, and no waiver covers it."""
        return self.status is Status.FAIL and self.waiver is None

    @property
    def by_own_limit(self) -> bool:
        """True if a limit of the user's own alone fails it: no fault of the device, no class floor, no comparison.

        Later runs do not tell of a board that such a limit rejects, because it may only have been tried out.
        """
        limit, value = self.limit, self.value if isinstance(self.value, int | float) else math.inf
        if limit is None or not (limit.overridden or limit.declared_by in (DeclaredBy.OWN_FILE, DeclaredBy.MARKER)):
            return False
        of_class = limit.class_floor and value < limit.class_floor.value
        holds = math.isnan(value) or (self.margin is not None and self.margin >= 0)
        return not (self.device_failed or self.failing_comparison or of_class or holds)

    @property
    def rank(self) -> tuple[bool, int]:
        """The sort key for worst first: a failure that is not waived is worse than any other verdict."""
        return not self.fails, WORST_FIRST.index(self.status)

    @property
    def past_warning(self) -> tuple[float, float] | None:
        """The warning limit that made the verdict MARGINAL, in the unit of the value, and the margin to it, below 0."""
        warn = next((reason.warn for reason in self.reasons if isinstance(reason, PastWarning)), None)
        if self.status is not Status.MARGINAL or warn is None or not isinstance(self.value, int | float):
            return None
        return warn, -abs(self.value - warn) / warn if warn else -math.inf

    @property
    def decides(self) -> bool:
        """True if a bound in force judged a value."""
        bounded = self.floor is not None or self.ceiling is not None or self.expected is not None
        return bounded and self.status in (Status.PASS, Status.MARGINAL, Status.FAIL)

    def breaks(self, value: float) -> bool:
        """Return True if a value is below the floor or above the ceiling that judged; False without either."""
        return (self.floor is not None and value < self.floor) or (self.ceiling is not None and value > self.ceiling)

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons with like devices and with the own past, as far as there are any."""
        return [comparison for comparison in (self.neighbours, self.past) if comparison]

    @property
    def behind(self) -> bool:
        """True if the device is behind its neighbours or its own past, so that it is worth measuring again."""
        return any(comparison.status is not Status.PASS for comparison in self.comparisons)

    @property
    def failing_comparison(self) -> Comparison | None:
        """The comparison that fails a verdict whose limit holds or is excused; None where the limit decided."""
        matches = (comparison for comparison in self.comparisons if comparison.status is self.status)
        return next(matches, None) if self.status.fails else None

    @property
    def note(self) -> BelowPublished | None:
        """The note that the value is below the lowest that was published for healthy devices."""
        return next((reason for reason in self.reasons if isinstance(reason, BelowPublished)), None)

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the verdict: metric, subject, and where the limit was declared."""
        return self.metric, self.subject, self.limit.origin if self.limit else ""

    @property
    def culprit(self) -> str:
        """The subject that the verdict speaks about: the device that a failure of the node is attributed to, if any."""
        return self.blamed or self.subject

    def because(self, *reasons: Reason, status: Status | None = None) -> Verdict:
        """Return the verdict with further reasons, and with another status if one is given."""
        return replace(self, reasons=(*self.reasons, *reasons), status=status or self.status)

    def worsened(self, status: Status, *reasons: Reason) -> Verdict:
        """Return the verdict with further reasons, and with the status if it is worse than its own."""
        base = replace(self, reasons=(Note("value"), *filter(None, (self.note,)))) if self.information else self
        return base.because(*reasons, status=min(status, self.status, key=WORST_FIRST.index))

    @property
    def information(self) -> bool:
        """True if a value was measured that nothing judges."""
        return self.value is not None and self.status is Status.NOT_APPLICABLE


@dataclass(frozen=True)
class Closing:
    """The closing line of a run, its exit status and its result; empty until the run has ended."""

    line: str = ""
    exit: int = -1
    """The exit status of pytest; -1 until then."""
    result: Result | None = None
    """The result, also of a simulated node; None until then."""
    sensitivity: str = ""
    """The losses that the run would have rejected, in one sentence; empty if it measured no speed."""
    verdicts: tuple[Verdict, ...] = field(default=(), compare=False, metadata=NOT_IN_FILE)
    """The verdicts that the line names because they fail or are short: the worst of every device."""
    next_step: str = field(default="", metadata=NOT_IN_FILE)
    """The next step of a run that was HELD, or that found no device; empty for every other result."""


def show(value: Value | None, unit: str) -> str:
    """Return a value as text with its unit, to four significant digits.

    The units "1", "text" and "count" are not printed.
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    text = f"{value:.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
    return text if unit in ("1", "text", "count", "") else f"{text} {unit}"


def show_margin(margin: float) -> str:
    """Return a margin as a signed percentage, from tenfold on as value / bound ("33x"); empty for a bound of zero."""
    if math.isinf(margin):
        return ""
    return f"{margin:+.1%}" if abs(margin) < 10 else f"{1 + abs(margin):.0f}x"


def decisive_margin(verdict: Verdict) -> float | None:
    """Return the margin to what failed a verdict, to the warning limit that it is past, or to its limit; else None."""
    if verdict.failing_comparison:
        return -verdict.failing_comparison.lost
    return verdict.past_warning[1] if verdict.past_warning else verdict.margin


def margin_of(verdict: Verdict) -> str:
    """Return the `decisive_margin` as text, empty without one."""
    margin = decisive_margin(verdict)
    return "" if margin is None else show_margin(margin)
