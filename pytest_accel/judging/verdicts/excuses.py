"""The notes of a measurement that change its verdict: an excuse softens FAIL, a doubt softens PASS. Pure.

The worker notes the settings of collectives; the idle gate notes a load before the run; the sensor notes another user
of the device. The table here gives each kind of note its status.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.reasons import Note, OtherAlgorithm
from pytest_accel.core.verdict import Status, Verdict

Applies = Callable[[Verdict, Measurement], bool]
"""A function that returns True for a broken limit that an excuse explains."""


@dataclass(frozen=True)
class Excuse:
    """The status that a kind of note gives to FAIL, and the condition for it."""

    status: Status
    applies: Applies
    reach: float = math.inf
    """The largest distance to the limit, as a share of it, that the note explains."""


EXCUSES: Mapping[str, Excuse] = {
    "single_sign": Excuse(Status.MARGINAL, lambda verdict, _: verdict.limit is not None and verdict.limit.second_sign),
    "chosen": Excuse(
        Status.INCONCLUSIVE, lambda verdict, _: any(isinstance(reason, OtherAlgorithm) for reason in verdict.reasons)
    ),
    "restricted": Excuse(Status.INCONCLUSIVE, lambda verdict, _: verdict.margin is not None),
    # a speed and no fact; at a load of ten on two cores a process gets a sixth of the time
    "load": Excuse(Status.MARGINAL, lambda verdict, run: verdict.margin is not None and bool(run.samples), reach=0.95),
    "disturbed": Excuse(Status.INCONCLUSIVE, lambda *_: True),
}
"""The excuses by the kind of their note. The first one that applies counts."""


def apply_excuses(verdict: Verdict, measurement: Measurement) -> Verdict:
    """Return the verdict on one measurement after the excuses among its notes."""
    # what has to be one value, such as a count of wrong results, has no margin: a disturbance does not make it right
    if verdict.status is Status.PASS and verdict.margin is not None:
        disturbed = [note for note in measurement.notes if note.kind == "disturbed"]
        return verdict.because(*disturbed, status=Status.MARGINAL) if disturbed else verdict
    for kind, excuse in EXCUSES.items():
        for note in measurement.notes:
            if note.kind == kind and verdict.status is Status.FAIL and excuse.applies(verdict, measurement):
                explained = -(verdict.margin or 0.0) <= excuse.reach
                reason = note if explained else Note("beyond_load", note.text)
                verdict = verdict.because(reason, status=excuse.status if explained else Status.FAIL)
    return verdict


def apply_doubts(verdict: Verdict, notes: Sequence[Note]) -> Verdict:
    """Return the verdict on all attempts after the notes of the last one: doubts about a value, where and when it was.

    "unproven" says why a value that holds is weak evidence, "doubt" what nothing published excludes of healthy devices.
    """
    for note in notes:
        if note.kind == "unproven" and verdict.status is Status.PASS:
            verdict = verdict.because(note, status=Status.MARGINAL)
        elif note.kind == "doubt":
            verdict = verdict.worsened(Status.MARGINAL, note)
    shown_notes = [note for note in notes if note.kind in ("at", "during", "noticed") and verdict.value is not None]
    return verdict.because(*shown_notes)
