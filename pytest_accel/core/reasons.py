"""The reasons of a verdict as data: what was compared, and what else was taken into account, in the order of judging.

A reason holds its kind and the figures that the verdict does not state itself. `core/sentences.py` says it in words.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Union

from pytest_accel.core.details import Value

Since = Literal["first accepted", "last", "first round"]
"""The run that a device is compared with: an earlier one, or the first round of this run."""
Side = Literal["floor", "ceiling"]
"""The bound that a value is compared with."""

NoteKind = Literal[
    # what was found
    "value",
    "no_limit",
    "trouble",
    "changed",
    "at",
    "during",
    "cause",
    "vanished",
    # why a value was not judged
    "no_value",
    "not_a_value",
    "not_finite",
    "not_a_version",
    "no_bound",
    "no_peak",
    "others_unknown",
    "other_conditions",
    "other_product",
    "not_applicable",
    "not_returned",
    "not_in_record",
    "probe_failed",
    "left_out",
    "out_of_time",
    "required",
    # what was taken into account
    "unproven",
    "excused",
    "beyond_load",
    "disturbed",
    "restricted",
    "advises",
    # what became of the repeat
    "repeat_failed",
    "repeat_without_time",
    "first_failed",
    "beyond_noise",
    "one_round",
    "before_resumption",
]


@dataclass(frozen=True)
class Note:
    """A reason without figures. `text` is what a probe, a driver or a setting said about it, empty where nothing did.

    "trouble": why there is no value. "changed", "at", "during": what the probe or the sensor noted beside the value.
    "left_out": why nothing was tried. "first_failed": the trouble of the first attempt, where the repeat holds.
    "one_round": of several rounds only one could be compared. "beyond_load": more than a load before the run explains.
    """

    kind: NoteKind
    text: str = ""


@dataclass(frozen=True)
class WrongData:
    """The device computed, stored or moved data that are not those that it should have."""

    text: str
    kind: Literal["wrong_result"] = "wrong_result"


@dataclass(frozen=True)
class Compared:
    """The value against the `side` of its limit, which is `share` of a `base` or of a peak; `of` is the name of that.

    The figures are those of the verdict: value, floor or ceiling, margin.
    """

    side: Side
    share: float | None = None
    of: str = ""
    base: float | None = None
    """The figure in the unit of the limit; None for a peak."""
    kind: Literal["compared"] = "compared"


@dataclass(frozen=True)
class Expected:
    """The value of a fact against what the verdict states as expected; `said` unless it is the value itself."""

    said: bool = True
    kind: Literal["expected"] = "expected"


@dataclass(frozen=True)
class Majority:
    """The value of a fact against that of most devices: `count` of `devices` have what the verdict expects."""

    count: int
    devices: int
    kind: Literal["majority"] = "majority"


@dataclass(frozen=True)
class NoMajority:
    """The devices differ in a fact, each value with the names of those that have it: no value is that of most."""

    values: tuple[tuple[Value, str], ...]
    kind: Literal["no_majority"] = "no_majority"


@dataclass(frozen=True)
class OtherRanks:
    """Measured with another number of ranks than the limit is for."""

    ranks: int
    measured: int | None
    kind: Literal["other_ranks"] = "other_ranks"


@dataclass(frozen=True)
class OtherUnit:
    """The limit is in another unit than the measurement."""

    limit: str
    kind: Literal["other_unit"] = "other_unit"


@dataclass(frozen=True)
class Implausible:
    """A rate that no device can have: so many times what `of` names."""

    times: float
    of: str
    kind: Literal["implausible"] = "implausible"


@dataclass(frozen=True)
class Close:
    """The value holds by less than the share `within` of its limit."""

    within: float
    side: Side
    kind: Literal["close"] = "close"


@dataclass(frozen=True)
class FewSamples:
    """Too few samples for a confidence interval."""

    samples: int
    enough: int
    kind: Literal["few_samples"] = "few_samples"


@dataclass(frozen=True)
class PastWarning:
    """The value is past the warning limit, in the unit of the value."""

    warn: float
    kind: Literal["past_warning"] = "past_warning"


@dataclass(frozen=True)
class Interval:
    """The 95 % confidence interval of the value includes its limit; `high` is infinite for a rate that varies a lot."""

    low: float
    high: float
    side: Side
    kind: Literal["interval"] = "interval"


@dataclass(frozen=True)
class OtherAlgorithm:
    """A collective used another algorithm than the limit's reference did."""

    library: str
    used: str
    wanted: str
    said: str = ""
    """Why the library did, in its own words."""
    chosen_by: str = ""
    """The setting of the user that chose it, with its place; empty if the library did."""
    kind: Literal["other_algorithm"] = "other_algorithm"


@dataclass(frozen=True)
class OtherMethod:
    """The source of the limit measured by another method, which `differs`; `why` is what its file says of it."""

    differs: tuple[str, ...]
    why: str = ""
    kind: Literal["other_method"] = "other_method"


@dataclass(frozen=True)
class OtherVersion:
    """The limit was validated on `range` of a software; `version` is in use, None if that is not known."""

    name: str
    range: str
    version: str | None = None
    kind: Literal["other_version"] = "other_version"


@dataclass(frozen=True)
class BeyondMethod:
    """The value is further below healthy figures than any difference of method or of version explains."""

    most: float
    """The largest share that one explains."""
    what: Literal["method", "version"]
    kind: Literal["beyond_method"] = "beyond_method"


@dataclass(frozen=True)
class BelowClass:
    """The value is below the floor of its class, which is `share` of what `of` names."""

    floor: float
    share: float
    of: str
    kind: Literal["below_class"] = "below_class"


@dataclass(frozen=True)
class Alone:
    """The value of the device when it is measured alone, and whether it holds the limit; None without a limit."""

    value: Value | None
    unit: str
    holds: bool | None = None
    kind: Literal["alone"] = "alone"


@dataclass(frozen=True)
class Repeated:
    """A metric that holds on the repeat only: the value that was measured at the other time.

    `fails` says that it was short by so much at first that the shortfall counts; `value` is that of the repeat then.
    """

    value: Value | None
    unit: str
    fails: bool = False
    kind: Literal["repeated"] = "repeated"


@dataclass(frozen=True)
class BehindMedian:
    """The device is behind the median of like devices, itself included: its speed is `share` of theirs."""

    share: float
    middle: float
    unit: str
    devices: int
    at_first: bool = False
    """True if the repeat does not show it any more."""
    kind: Literal["behind_median"] = "behind_median"


@dataclass(frozen=True)
class BehindNeighbours:
    """The device is behind its neighbours by the share `lost`, which is far in the `spread` of healthy devices."""

    lost: float
    middle: float
    unit: str
    spread: float
    at_clock: bool = False
    """True if the rate at the clock that it held is compared."""
    at_first: bool = False
    """True if the repeat does not show it any more."""
    kind: Literal["behind_neighbours"] = "behind_neighbours"


@dataclass(frozen=True)
class BehindPast:
    """The device has lost a share since an earlier run, or the first round of this one; two may differ by `allowed`."""

    lost: float
    allowed: float
    value: float
    """The value at that time."""
    unit: str
    since: Since
    day: str
    differs: Mapping[str, tuple[str, str]]
    """The other facts that differ since, by name: the value then and the value now."""
    kind: Literal["behind_past"] = "behind_past"


@dataclass(frozen=True)
class AllAlike:
    """All like devices of the node fall short alike, so that they share the cause."""

    devices: int
    kind: Literal["all_alike"] = "all_alike"


@dataclass(frozen=True)
class NeighboursHold:
    """All other devices hold a limit that only advises."""

    neighbours: int
    kind: Literal["neighbours_hold"] = "neighbours_hold"


@dataclass(frozen=True)
class InRound:
    """The verdict is of a later round of a long run."""

    round: int
    of: int
    kind: Literal["in_round"] = "in_round"


@dataclass(frozen=True)
class NothingWorse:
    """No verdict became worse in the rounds after the first."""

    rounds: int
    kind: Literal["nothing_worse"] = "nothing_worse"


@dataclass(frozen=True)
class NoBudget:
    """The level has no time for the probe; `enough` is the first level that has, empty if none does."""

    level: str
    enough: str = ""
    kind: Literal["no_budget"] = "no_budget"


@dataclass(frozen=True)
class MayTrain:
    """A link is down so few seconds after the boot that it may still train."""

    up: float
    kind: Literal["may_train"] = "may_train"


Reason = Union[  # noqa: UP007  get_args works on both, and the schema is made of it
    Note,
    WrongData,
    Compared,
    Expected,
    Majority,
    NoMajority,
    OtherRanks,
    OtherUnit,
    Implausible,
    Close,
    FewSamples,
    PastWarning,
    Interval,
    OtherAlgorithm,
    OtherMethod,
    OtherVersion,
    BeyondMethod,
    BelowClass,
    Alone,
    Repeated,
    BehindMedian,
    BehindNeighbours,
    BehindPast,
    AllAlike,
    NeighboursHold,
    InRound,
    NothingWorse,
    NoBudget,
    MayTrain,
]

BY_KIND: Mapping[str, type] = {
    kind: one for one in typing.get_args(Reason) for kind in typing.get_args(typing.get_type_hints(one)["kind"])
}
"""The class of each kind of reason."""
