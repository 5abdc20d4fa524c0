"""The reasons of a verdict as data, in the order of judging: the comparison, and all that was taken into account.

A reason holds its kind and the figures that the verdict does not state itself. `core/sentences.py` says it in words,
those of a reason without figures by the table here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_accel.core.details import Value

Side = Literal["floor", "ceiling"]
"""The bound that a value is compared with."""

NOTES: Mapping[str, str] = {
    # the result
    "value": "{value}",
    "no_limit": "{value}; no floor, for information",
    "trouble": "{text}",
    "changed": "{text}",
    "at": "at {text}",
    "during": "during {text}",
    "noticed": "noticed: {text}",
    "cause": "{text}",
    # reasons why a value was not judged
    "no_value": "the probe returned no value",
    "not_a_value": "the probe returned {value}, which is no value",
    "not_finite": "{verdict.value!r} is not a finite number and cannot be compared with the limit",
    "not_a_version": "{verdict.value} is not a version and cannot be compared with {verdict.limit.version}",
    "no_bound": "the limit has neither a finite floor nor a finite ceiling",
    "no_peak": "no peak is known for {verdict.metric}: state the limit in {verdict.unit}",
    "others_unknown": "the values of the other devices are not known",
    "other_conditions": "{text}",
    "other_product": "not measured: {text}",
    "not_applicable": "{text}",
    "not_returned": "the probe did not return {verdict.metric}",
    "not_in_record": "the record holds no measurement of it",
    "probe_failed": "the probe failed by an error in its own code",
    "left_out": "not measured: {text}",
    "out_of_time": "{text}",
    "required": "a limit requires it",
    # circumstances
    "warns": "a warning, which rejects nothing",
    "unproven": "{text}",
    "doubt": "{text}; nothing published says that a healthy device may not show it",
    "single_sign": "no second sign of heat: {text}",
    "load": "excused: before the run, {text}",
    "beyond_load": "too slow to be due to the load before the run: {text}",
    "disturbed": "disturbed: {text}",
    "chosen": "chosen by {text}",
    "restricted": "restricted by {text}",
    "as_ring": "the algorithm is not stated, and rings give {text}",
    "island": "fast with {text}, and slow with all others",
    "nobody_named": "no node could be named: {text}",
    # the repeat
    "repeat_failed": "could not be measured again: {text}",
    "repeat_without_time": "not measured again: {text}",
    "first_failed": "measured only on the repeat; first: {text}",
    "beyond_noise": "which no noise explains",
    "one_round": "another round could not be compared",
    "waits_for_reset": "comes into force with the next reset",
}
"""The words of each kind of `Note`, by its text, its `verdict` and the `value` of that as it is shown."""


class Reason:
    """A reason of a verdict. A record names its class by `kind`."""

    kind: str


@dataclass(frozen=True)
class Note(Reason):
    """A reason without figures. `text` is the account of a probe, a driver or a setting, empty where there is none.

    "trouble": the reason why there is no value. "changed", "at", "during": a note of the probe or the sensor
    beside a value.
    "noticed": a mere warning of the vendor's diagnostic.
    "left_out": the reason why nothing was tried. "first_failed": the trouble of the first attempt, where the repeat
    holds. "island", "nobody_named": a slow node that a network run does not blame.
    "one_round": of several rounds only one could be compared. "beyond_load": more than a load before the run explains.
    """

    kind: str  # one of NOTES
    text: str = ""


@dataclass(frozen=True)
class WrongData(Reason):
    """The device computed, stored or moved wrong data."""

    kind = "wrong_data"

    text: str


@dataclass(frozen=True)
class Compared(Reason):
    """The value against the `side` of its limit, which is `share` of a `base` or of a peak; `of` is the name of that.

    The figures are those of the verdict: value, floor or ceiling, margin.
    """

    kind = "compared"

    side: Side
    share: float | None = None
    of: str = ""
    base: float | None = None
    """The figure in the unit of the limit; None for a peak."""


@dataclass(frozen=True)
class Expected(Reason):
    """The value of a fact against the expected one of the verdict, which is `said` unless it is the value itself."""

    kind = "expected"

    said: bool = True


@dataclass(frozen=True)
class Majority(Reason):
    """The value of a fact against that of most devices: `count` of `devices` have what the verdict expects."""

    kind = "majority"

    count: int
    devices: int


@dataclass(frozen=True)
class NoMajority(Reason):
    """The devices differ in a fact, each value with the names of those that have it: no value is that of most."""

    kind = "no_majority"

    values: tuple[tuple[Value, str], ...]


@dataclass(frozen=True)
class OtherRanks(Reason):
    """Measured with another number of ranks than the limit is for."""

    kind = "other_ranks"

    ranks: int
    measured: int | None


@dataclass(frozen=True)
class OtherUnit(Reason):
    """The limit is in another unit than the measurement."""

    kind = "other_unit"

    limit: str


@dataclass(frozen=True)
class Implausible(Reason):
    """A rate that no device can have: so many times what `of` names."""

    kind = "implausible"

    times: float
    of: str


@dataclass(frozen=True)
class Close(Reason):
    """The value holds by less than the share `within` of its limit."""

    kind = "close"

    within: float
    side: Side


@dataclass(frozen=True)
class FewSamples(Reason):
    """Too few samples for a confidence interval."""

    kind = "few_samples"

    samples: int
    enough: int


@dataclass(frozen=True)
class PastWarning(Reason):
    """The value is past the warning limit, in the unit of the value."""

    kind = "past_warning"

    warn: float


@dataclass(frozen=True)
class Interval(Reason):
    """The 95 % confidence interval of the value includes its limit; `high` is infinite for a rate that varies a lot."""

    kind = "interval"

    low: float
    high: float
    side: Side


@dataclass(frozen=True)
class OtherAlgorithm(Reason):
    """A collective used another algorithm than the limit's reference did."""

    kind = "other_algorithm"

    library: str
    used: str
    wanted: str
    said: str = ""
    """The reason of the library in its own words."""


@dataclass(frozen=True)
class OtherVersion(Reason):
    """The limit was validated on `range` of a software; `version` is in use, None if that is not known."""

    kind = "other_version"

    name: str
    range: str
    version: str | None = None


@dataclass(frozen=True)
class BelowPublished(Reason):
    """The value is below the lowest that others published for healthy devices, in the unit of the value.

    It is a note: a limit, the neighbours and the past decide.
    """

    kind = "below_published"

    lowest: float
    by: str
    differs: tuple[str, ...] = ()
    """The differences of their method from ours."""


@dataclass(frozen=True)
class Alone(Reason):
    """The value of the device when it is measured alone, and whether it holds the limit; None without a limit."""

    kind = "alone"

    value: Value | None
    unit: str
    holds: bool | None = None


@dataclass(frozen=True)
class Repeated(Reason):
    """A metric that holds on the repeat only: the value that was measured at the other time.

    `fails` says that it was short by so much at first that the shortfall counts; `value` is that of the repeat then.
    """

    kind = "repeated"

    value: Value | None
    unit: str
    fails: bool = False


@dataclass(frozen=True)
class BehindNeighbours(Reason):
    """The device is behind like ones, as `Verdict.neighbours` states."""

    kind = "behind_neighbours"


@dataclass(frozen=True)
class BehindPast(Reason):
    """The device has lost speed since an earlier run, as `Verdict.past` states."""

    kind = "behind_past"


@dataclass(frozen=True)
class BehindNodes(Reason):
    """The node lacks the share `lost` of the speed of the other nodes of a network run, with each of its partners."""

    kind = "behind_nodes"

    lost: float
    middle: float
    """The median of all nodes that were measured, in `unit`."""
    unit: str
    nodes: int
    """The nodes that took part."""
    partners: int
    rails: tuple[int, ...] = ()
    """The indices of its devices that are slow by themselves."""


@dataclass(frozen=True)
class Cause(Reason):
    """The cause of a shortfall, and the value that shows the shortfall where one is known."""

    kind = "shortfall"

    text: str
    lost: float | None = None
    """The share of the speed of `expected` that is lost; negative for a faster device."""
    expected: float | None = None
    """The value that was expected, in the unit of the verdict."""
    of: str = ""
    """The origin of `expected` in words: "the median of its 7 neighbours"."""
    before: bool = False
    """True if an attempt before the repeat shows the cause, and the repeat shows none."""


@dataclass(frozen=True)
class AllAlike(Reason):
    """All like devices of the node fall short alike, so that they share the cause."""

    kind = "all_alike"

    devices: int


@dataclass(frozen=True)
class DidNotEnd(Reason):
    """A run of a series began and did not end: it was killed, or the host went down under it."""

    kind = "did_not_end"

    boot: str
    """The id of the boot in which it ran; empty where it is not known."""
    last: str
    """The time of its last reading: ISO 8601, in UTC."""


@dataclass(frozen=True)
class NoBudget(Reason):
    """The level has no time for the probe; `enough` is the first level that has, empty if none does."""

    kind = "no_budget"

    level: str
    enough: str = ""


@dataclass(frozen=True)
class MayTrain(Reason):
    """A link is down so few seconds after the boot that it may still train."""

    kind = "may_train"

    up: float


BY_KIND: Mapping[str, type[Reason]] = {
    **{reason.kind: reason for reason in Reason.__subclasses__() if reason is not Note},
    **dict.fromkeys(NOTES, Note),
}
"""The class of each kind of reason."""
