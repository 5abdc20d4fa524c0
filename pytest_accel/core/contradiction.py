"""Contradiction: what a record, its summary and the files beside it say that cannot all be true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_accel.core.printable import printable
from pytest_accel.core.words import more


class Contradicts(str, Enum):
    """The kinds of contradictions, and what each says: `said` is what is stated, `found` what follows from the rest."""

    # the files
    UNSEALED = "the record states no hash of itself"
    ALTERED = "the record was changed after it was written: its hash is {found}, it states {said}"
    NO_TELEMETRY = "the record of a finished run states no hash of its telemetry"
    FILE = "{said} was changed: it has another hash than the record states"
    READINGS = "{said} holds no readings of the devices"
    ELSEWHERE = "{said} would not lie beside the record"
    INDEX = "the summary beside the record differs from it in {said}"
    # the whole
    SIMULATED = "by {said} the node was simulated, and by {found} it was not"
    SUBJECT = "it speaks of {said}, which is not among its devices"
    NAME = "{said} is {found} in the circumstances"
    TWICE = "two devices have the same UUID or name"
    TERMS = "the run states {said}, and its circumstances {found}"
    REQUIRED = "the limit is required, and not among those that the run required"
    NO_TIMES = "the node was accepted by a run that does not state when it began and ended"
    TIME = "it was measured outside the time of the run"
    TWINS = "its samples are those of {said}"
    SUITE = "the node was accepted without a verdict on {said}"
    NO_RUN = "it holds values that no run writes ({said})"
    # the values
    VALUE = "the value is {said}, but {found} by its samples"
    DURATIONS = "the samples do not follow from their durations"
    DETAIL = "{said}, but {found} by the samples"
    SAMPLES = "{said} samples are left of {found}"
    RANK = "the value is that of no rank"
    COUNTER = "the value is {said}, but the counter increased by {found}"
    ROUNDS = "the value is {said}, but {found} by the rounds of the fabric run"
    FACT = "the value is {said}, but the device states {found}"
    TELEMETRY = "the value is {said}, but {found} by the telemetry"
    # the verdicts
    NOT_MEASURED = "the verdict is on {said}, which was not measured"
    ATTEMPTS = "the verdict is on {said} attempts, of which the record holds {found}"
    BOUNDS = "the bounds of the verdict are not those of its limit"
    MARGIN = "the margin is {said}, but {found} by value and limit"
    NO_MEASUREMENT = "the verdict is {said}, but the record holds no measurement of it"
    DEVICE_FAILED = "the verdict is {said}, but the device failed"
    BROKEN = "the verdict is {said}, but the limit is broken by {found}"
    BELOW_CLASS = "the verdict is {said}, but {found} is below its class floor"
    WITHIN = "the verdict is {said}, though every attempt is within the limit"
    # the result
    NO_CLOSING = "the run has ended, but there is no closing line"
    LINE = "the closing line does not say its result, {said}"
    CLOSING = "the run closed as {said}, but what it holds closes as {found}"
    EXIT = "it says {said} and ended with exit status {found}"
    REJECTS = "it says {said} and rejects {found}"
    FILTERED = "it says {said} for a part of the checks"


LONGEST = 400
"""Characters of a contradiction that are shown."""


@dataclass(frozen=True)
class Contradiction:
    """One contradiction, as data and as text."""

    kind: Contradicts
    said: str = ""
    found: str = ""
    where: str = ""
    """The subject and the metric that it concerns; empty for the whole run."""

    def __str__(self) -> str:
        """Return it in words, on one line: what it quotes was written by others."""
        told = self.kind.value.format(said=self.said, found=self.found)
        return printable(f"{self.where}: {told}" if self.where else told, LONGEST)


def listed(found: Sequence[Contradiction], most: int = 5) -> list[str]:
    """Return the first contradictions in words, and how many more there are."""
    return [*map(str, found[:most]), *([f"{len(found) - most} more"] if len(found) > most else [])]


def in_short(found: Sequence[Contradiction]) -> str:
    """Return the first contradiction in words with the number of the others; empty without any."""
    return f"{found[0]}{more(found)}" if found else ""
