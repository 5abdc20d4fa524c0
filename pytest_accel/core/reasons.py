"""The reasons of a verdict as data: what was compared, and what else was taken into account, in the order of judging.

A reason holds its kind and the figures that the verdict does not state itself. `core/sentences.py` says it in words,
those of a reason without figures by the table here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pytest_accel.core.details import Value

Side = Literal["floor", "ceiling"]
"""The bound that a value is compared with."""

NOTES: Mapping[str, str] = {
    # what was found
    "value": "{shown}",
    "no_limit": "{shown}; no floor, for information",
    "trouble": "{text}",
    "changed": "{text}",
    "at": "at {text}",
    "during": "during {text}",
    "cause": "{text}",
    "cause_before": "in an earlier attempt {text}",
    # why a value was not judged
    "no_value": "the probe returned no value",
    "not_a_value": "the probe returned {shown}, which is no value",
    "not_finite": "{of.value!r} is not a finite number and cannot be compared with the limit",
    "not_a_version": "{of.value} is not a version and cannot be compared with {of.limit.version}",
    "no_bound": "the limit has neither a finite floor nor a finite ceiling",
    "no_peak": "no peak is known for {of.metric}: state the limit in {of.unit}",
    "others_unknown": "the values of the other devices are not known",
    "other_conditions": "{text}",
    "other_product": "not measured: {text}",
    "not_applicable": "{text}",
    "not_returned": "the probe did not return {of.metric}",
    "not_in_record": "the record holds no measurement of it",
    "probe_failed": "the probe failed by an error in its own code",
    "left_out": "not measured: {text}",
    "out_of_time": "{text}",
    "required": "a limit requires it",
    # what was taken into account
    "warns": "a warning, which rejects nothing",
    "unproven": "{text}",
    "doubt": "{text}; nothing published says that a healthy device may not show it",
    "single_sign": "no second sign of heat: {text}",
    "excused": "excused: before the run, {text}",
    "beyond_load": "too slow to be due to the load before the run: {text}",
    "disturbed": "disturbed: {text}",
    "restricted": "restricted by {text}",
    "as_ring": "the algorithm is not stated, and rings give {text}",
    "island": "fast with {text}, and slow with all others",
    "nobody_named": "no node could be named: {text}",
    # what became of the repeat
    "repeat_failed": "could not be measured again: {text}",
    "repeat_without_time": "not measured again: {text}",
    "first_failed": "measured only on the repeat; first: {text}",
    "beyond_noise": "which no noise explains",
    "one_round": "another round could not be compared",
    "waits_for_reset": "comes into force with the next reset",
}
"""The words of each kind of `Note`, by its text, its verdict (`of`) and the value of that as it is shown."""


@dataclass(frozen=True)
class Note:
    """A reason without figures. `text` is what a probe, a driver or a setting said about it, empty where nothing did.

    "trouble": why there is no value. "changed", "at", "during": what the probe or the sensor noted beside the value.
    "cause_before": the cause that an attempt before the repeat shows, where the repeat shows none.
    "left_out": why nothing was tried. "first_failed": the trouble of the first attempt, where the repeat holds.
    "island", "nobody_named": what a fabric run says of a slow node that it does not blame.
    "one_round": of several rounds only one could be compared. "beyond_load": more than a load before the run explains.
    """

    kind: str  # one of NOTES
    text: str = ""


class Figures:
    """A reason with figures. Its kind in a record is the name of its class in lower case: "other_ranks"."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


@dataclass(frozen=True)
class WrongData(Figures):
    """The device computed, stored or moved data that are not those that it should have."""

    text: str


@dataclass(frozen=True)
class Compared(Figures):
    """The value against the `side` of its limit, which is `share` of a `base` or of a peak; `of` is the name of that.

    The figures are those of the verdict: value, floor or ceiling, margin.
    """

    side: Side
    share: float | None = None
    of: str = ""
    base: float | None = None
    """The figure in the unit of the limit; None for a peak."""


@dataclass(frozen=True)
class Expected(Figures):
    """The value of a fact against what the verdict states as expected; `said` unless it is the value itself."""

    said: bool = True


@dataclass(frozen=True)
class Majority(Figures):
    """The value of a fact against that of most devices: `count` of `devices` have what the verdict expects."""

    count: int
    devices: int


@dataclass(frozen=True)
class NoMajority(Figures):
    """The devices differ in a fact, each value with the names of those that have it: no value is that of most."""

    values: tuple[tuple[Value, str], ...]


@dataclass(frozen=True)
class OtherRanks(Figures):
    """Measured with another number of ranks than the limit is for."""

    ranks: int
    measured: int | None


@dataclass(frozen=True)
class OtherUnit(Figures):
    """The limit is in another unit than the measurement."""

    limit: str


@dataclass(frozen=True)
class Implausible(Figures):
    """A rate that no device can have: so many times what `of` names."""

    times: float
    of: str


@dataclass(frozen=True)
class Close(Figures):
    """The value holds by less than the share `within` of its limit."""

    within: float
    side: Side


@dataclass(frozen=True)
class FewSamples(Figures):
    """Too few samples for a confidence interval."""

    samples: int
    enough: int


@dataclass(frozen=True)
class PastWarning(Figures):
    """The value is past the warning limit, in the unit of the value."""

    warn: float


@dataclass(frozen=True)
class Interval(Figures):
    """The 95 % confidence interval of the value includes its limit; `high` is infinite for a rate that varies a lot."""

    low: float
    high: float
    side: Side


@dataclass(frozen=True)
class OtherAlgorithm(Figures):
    """A collective used another algorithm than the limit's reference did."""

    library: str
    used: str
    wanted: str
    said: str = ""
    """Why the library did, in its own words."""
    chosen_by: str = ""
    """The setting of the user that chose it, with its place; empty if the library did."""


@dataclass(frozen=True)
class OtherVersion(Figures):
    """The limit was validated on `range` of a software; `version` is in use, None if that is not known."""

    name: str
    range: str
    version: str | None = None


@dataclass(frozen=True)
class BelowPublished(Figures):
    """The value is below the lowest that others published for healthy devices, in the unit of the value.

    It is a note: a limit, the neighbours and the past decide.
    """

    lowest: float
    by: str
    differs: tuple[str, ...] = ()
    """How their method differs from ours."""


@dataclass(frozen=True)
class Alone(Figures):
    """The value of the device when it is measured alone, and whether it holds the limit; None without a limit."""

    value: Value | None
    unit: str
    holds: bool | None = None


@dataclass(frozen=True)
class Repeated(Figures):
    """A metric that holds on the repeat only: the value that was measured at the other time.

    `fails` says that it was short by so much at first that the shortfall counts; `value` is that of the repeat then.
    """

    value: Value | None
    unit: str
    fails: bool = False


@dataclass(frozen=True)
class BehindNeighbours(Figures):
    """The device is behind like ones, as `Verdict.neighbours` states."""


@dataclass(frozen=True)
class BehindPast(Figures):
    """The device has lost speed since an earlier run, as `Verdict.past` states."""


@dataclass(frozen=True)
class BehindNodes(Figures):
    """The node lacks the share `lost` of the speed of the other nodes of a fabric run, with each of its partners."""

    lost: float
    middle: float
    """The median of all nodes that were measured, in `unit`."""
    unit: str
    nodes: int
    """The nodes that took part."""
    partners: int
    rails: tuple[int, ...] = ()
    """The places of its devices that are slow by themselves."""


@dataclass(frozen=True)
class AllAlike(Figures):
    """All like devices of the node fall short alike, so that they share the cause."""

    devices: int


@dataclass(frozen=True)
class DidNotEnd(Figures):
    """A run of a series began and did not end: it was killed, or the host went down under it."""

    boot: str
    """The id of the boot in which it ran; empty where it is not known."""
    last: str
    """The time of its last reading: ISO 8601, in UTC."""


@dataclass(frozen=True)
class NoBudget(Figures):
    """The level has no time for the probe; `enough` is the first level that has, empty if none does."""

    level: str
    enough: str = ""


@dataclass(frozen=True)
class MayTrain(Figures):
    """A link is down so few seconds after the boot that it may still train."""

    up: float


Reason = Note | Figures

BY_KIND: Mapping[str, type[Reason]] = {
    **dict.fromkeys(NOTES, Note),
    **{each.kind: each for each in Figures.__subclasses__()},
}
"""The class of each kind of reason."""
