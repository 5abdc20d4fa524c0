"""Judges a record anew, by the measurements and the limits that it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_accel.core import exits
from pytest_accel.core.measurement import Measurement, Names
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.verdict import Closing, Result, Status, Verdict, show
from pytest_accel.core.words import more
from pytest_accel.judging.closing.line import SIMULATED, close
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.judging.verdicts.background import PastOf
from pytest_accel.judging.verdicts.like_devices import together


def objections(run: Run, past_of: PastOf) -> tuple[str, ...]:
    """Return where the verdicts and the result of a run differ from those that follow from its measurements.

    Verdicts of a run that has not ended may still be judged again; such a run has no result.
    """
    if run.state == "running":
        return ("it has a result, and the run has not ended",) if run.closing.result else ()
    try:
        return (*_verdicts(run, past_of), *_result(run))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return (f"it holds values that no run writes ({type(error).__name__}: {error})",)


def _verdicts(run: Run, past_of: PastOf) -> Iterator[str]:
    """Yield each verdict that is another one by its own attempts and its own limit."""
    names, spread_of = Names.of(run.devices), run.sku.get("spread", {}).get
    attempts = RunAttempts.of_run(run, spread_of, past_of)
    for verdict in run.verdicts:
        place = verdict.metric, verdict.subject
        its = of_then(attempts.measured.get(place, []), verdict)
        if its:
            found = attempts.verdict(place, verdict.limit, its)
        else:
            found = replace(verdict, status=Status.UNMEASURED if verdict.status.holds else verdict.status)
        if _shown(found) != _shown(verdict):
            where = f"{names.get(verdict.subject, verdict.subject)} {verdict.metric}"
            yield printable(f"{where} is {_shown(verdict)}, and {_shown(found)} by its measurements and its limit")


def _shown(verdict: Verdict) -> str:
    """Return what a verdict states of its value, in words."""
    bounds = [f"{name} {bound:g}" for name in ("floor", "ceiling") if (bound := getattr(verdict, name)) is not None]
    return ", ".join([f"{verdict.status.value} at {show(verdict.value, verdict.unit)}", *bounds])


def _result(run: Run) -> Iterator[str]:
    """Yield how the closing line differs from the one that the verdicts and the circumstances give."""
    if {run.simulated, *(each.simulated for each in run.measurements)} == {True, False}:
        yield "a part of it was measured on a simulated node"
    stated, found = run.closing, close(run.verdicts, run.circumstances or Circumstances())
    same = (found.result, found.exit) == (stated.result, stated.exit) and Result.words(stated.result) in stated.line
    if not same or (found.result is Result.ACCEPTED and found.line.partition(" (")[0] not in stated.line):
        says = f"it closed as '{stated.line}' with exit status {stated.exit}"
        yield printable(f"{says}, and what it holds closes as '{found.line}'")


def not_believed(run: Run) -> Closing:
    """Return the closing line of a record that is not believed: neither good nor bad is concluded from it."""
    line = f"NOT JUDGED the record is not believed: {run.objections[0]}{more(run.objections)}"
    return Closing(f"{SIMULATED} {line}" if run.simulated else line, exits.NOT_JUDGED, Result.NOT_JUDGED)


def of_then(attempts: list[Measurement], verdict: Verdict | None) -> Sequence[Measurement]:
    """Return the attempts that a verdict is based on; later ones may have been made for another metric."""
    rounds = together(attempts)
    if verdict is None or verdict.limit is None or verdict.attempts >= len(rounds):
        return attempts
    return rounds[: verdict.attempts]
