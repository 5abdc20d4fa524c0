"""A record judged anew, by the measurements and the limits that it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_accel.core import exits
from pytest_accel.core.measurement import Measurement, Names
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.verdict import Closing, Result, Status, Verdict, show
from pytest_accel.core.words import and_more
from pytest_accel.judging.closing.line import SIMULATED, close
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.judging.verdicts.background import PastOf
from pytest_accel.judging.verdicts.like_devices import together


def objections(run: Run, past_of: PastOf) -> tuple[str, ...]:
    """Return the differences of a run's verdicts and result from those that follow from its measurements, in words."""
    if run.state == "running":  # its verdicts may still be judged again
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
        key = verdict.metric, verdict.subject
        basis = basis_of(attempts.by_key.get(key, []), verdict)
        if basis:
            expected = attempts.verdict(key, verdict.limit, basis)
        else:
            expected = replace(verdict, status=Status.UNMEASURED if verdict.status.holds else verdict.status)
        if _shown(expected) != _shown(verdict):
            name = f"{names.get(verdict.subject, verdict.subject)} {verdict.metric}"
            yield printable(f"{name} is {_shown(verdict)}, and {_shown(expected)} by its measurements and its limit")


def _shown(verdict: Verdict) -> str:
    """Return the status, the value and the bounds of a verdict in words."""
    bounds = [f"{name} {bound:g}" for name in ("floor", "ceiling") if (bound := getattr(verdict, name)) is not None]
    return ", ".join([f"{verdict.status.value} at {show(verdict.value, verdict.unit)}", *bounds])


def _result(run: Run) -> Iterator[str]:
    """Yield the differences of the closing line from the one that the verdicts and the circumstances give."""
    if {run.simulated, *(measurement.simulated for measurement in run.measurements)} == {True, False}:
        yield "a part of it was measured on a simulated node"
    recorded, derived = run.closing, close(run.verdicts, run.circumstances or Circumstances())
    matches = (derived.result, derived.exit) == (recorded.result, recorded.exit)
    matches = matches and Result.words(recorded.result) in recorded.line
    if not matches or (derived.result is Result.ACCEPTED and derived.line.partition(" (")[0] not in recorded.line):
        claim = f"it closed as '{recorded.line}' with exit status {recorded.exit}"
        yield printable(f"{claim}, and what it holds closes as '{derived.line}'")


def disbelief(run: Run) -> Closing:
    """Return the closing line of a record that is not believed: neither good nor bad is concluded from it."""
    line = f"NOT JUDGED the record is not believed: {run.objections[0]}{and_more(run.objections)}"
    return Closing(f"{SIMULATED} {line}" if run.simulated else line, exits.NOT_JUDGED, Result.NOT_JUDGED)


def basis_of(attempts: list[Measurement], verdict: Verdict | None) -> Sequence[Measurement]:
    """Return the attempts that a verdict is based on; later ones may have been made for another metric."""
    rounds = together(attempts)
    if verdict is None or verdict.limit is None or verdict.attempts >= len(rounds):
        return attempts
    return rounds[: verdict.attempts]
