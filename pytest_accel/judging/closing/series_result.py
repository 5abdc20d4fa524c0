"""A series of runs (--accel-hours): the verdicts of its runs together, and its closing line. Pure.

Every run is judged as it would be alone, and its figures are compared with those of the first run. So little is left to
decide: a limit that is broken in one run is broken; one that could not be judged counts as such if it is so in the last
run; a run that did not end rules out acceptance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pytest_accel.core.measurement import NODE
from pytest_accel.core.reasons import DidNotEnd
from pytest_accel.core.run import Circumstances, CountedEntry, HostCountedEntry, Objection, Run
from pytest_accel.core.summary import moment
from pytest_accel.core.verdict import Closing, Result, Status, Verdict
from pytest_accel.core.words import counted
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.history import terms_of
from pytest_accel.judging.verdicts.judge_attempts import worse
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus.waivers import Waivers

DIRECTLY = 600.0
"""Seconds after the end of a run in which the next one follows it directly: it passes no idle gate, and the time
between them is a pause of the load. After a longer time the series was stopped meanwhile."""
LEFT = "the hours are not over"
"""The words of the closing line for a series that can go on."""
SET = 60.0
"""Seconds by which the wall clock may be set during a run. NTP slews, which both clocks follow, what is less."""
MOST_PAUSED = 0.05
"""The largest share of the time in which the devices may have no load between two runs."""


@dataclass(frozen=True)
class SeriesRun:
    """A run of a series, as far as the series is judged by it."""

    number: int
    state: str
    """The state of its record. A run that is over and whose record says "running" did not end."""
    whole: bool
    """True if everything was measured."""
    seconds: float
    """The time that it took, 0 unless it is whole."""
    boot: str
    last: str
    """The time of its last reading: ISO 8601, in UTC."""
    loaded: tuple[float, float] | None
    """When the first measurement began and the last one ended, in seconds since the epoch; None on a simulated node,
    whose time is its own."""
    line: str
    verdicts: Sequence[Verdict]
    """The verdicts that break a limit or are MARGINAL."""
    terms: Mapping[str, str]
    """The terms that are the same in all runs of a series."""
    simulated: bool = False
    epoch: float = 0.0
    """The time in `loaded` at which CLOCK_MONOTONIC of its boot was zero."""
    clock_set: str = ""
    """The step by which the clock of the host was set during the run, in words; empty without one."""
    loaded_names: Sequence[str] = ()
    """The names of what the run loaded (`Circumstances.loaded`)."""


def of_record(number: int, run: Run, last: str) -> SeriesRun:
    """Return the run whose record this is; `last` is the time of its last reading."""
    whole = run.finished and not (run.circumstances and run.circumstances.texts("time"))
    terms = terms_of(run.info.get("level", ""), run.info.get("platform", ""), run.software)
    files = " ".join(f"{name} {digest[:12]}" for name, digest in sorted(run.sku.get("files", {}).items()))
    devices = " ".join(sorted(device.uuid for device in run.devices))
    return SeriesRun(
        number,
        run.state,
        whole,
        seconds_of(run) if whole else 0.0,
        run.info.get("boot", ""),
        last,
        None if run.simulated else _loaded(run),
        run.closing.line,
        [verdict for verdict in run.verdicts if verdict.status in (Status.FAIL, Status.MARGINAL)],
        {**terms, "SKU": run.sku.get("name", ""), "threshold files": files, "devices": devices},
        run.simulated,
        _epochs(run)[0],
        clock_set(run),
        run.circumstances.loaded if run.circumstances else (),
    )


def _epochs(run: Run) -> tuple[float, float]:
    return run.info.get("epochs", (0.0, 0.0))


def seconds_of(run: Run) -> float:
    """Return the seconds of a run by CLOCK_MONOTONIC, 0 if it did not end; of a simulated node by its own if more."""
    start, end = moment(run.started), moment(run.info.get("ended", ""))
    first, last = _epochs(run)
    seconds = (end.timestamp() - last) - (start.timestamp() - first) if start and end else 0.0
    return max(seconds, run.info.get("seconds", {}).get("device", 0.0)) if run.simulated else seconds


def clock_set(run: Run) -> str:
    """Return the step by which the clock of the host was set during a run, in words; empty if it was not."""
    first, last = _epochs(run)
    hours, minutes = divmod(round(abs(last - first) / 60), 60)
    sign = "-" if last < first else "+"
    return f"the clock of the host was set by {sign}{hours} h {minutes} min" if abs(last - first) > SET else ""


def _loaded(run: Run) -> tuple[float, float] | None:
    pairs = ((attempt, declaration_of(attempt.metric)) for attempt in run.measurements)
    timed = [attempt for attempt, probe in pairs if probe and not probe.fact and attempt.ended > attempt.started > 0]
    return (min(attempt.started for attempt in timed), max(attempt.ended for attempt in timed)) if timed else None


def directly(before: Run, boot: str, now: float) -> bool:
    """Return True if a run that begins `now` (CLOCK_MONOTONIC of this boot) follows directly on another."""
    end = moment(before.info.get("ended", ""))
    if end is None or before.info.get("boot") != boot:
        return False
    return 0 <= now - (end.timestamp() - _epochs(before)[1]) <= DIRECTLY


def counts(before: Run, boot: str, epoch: float) -> tuple[dict[str, CountedEntry], HostCountedEntry | None]:
    """Return the last counts of the run before, of devices and host, at their times by a run that has this `epoch`."""
    shift = epoch - before.info.get("epochs", (epoch,))[0] if before.info.get("boot") == boot else 0.0
    devices, host = before.info.get("counted", {}), before.info.get("host_counted")
    entries = {uuid: CountedEntry(at=entry["at"] + shift, numbers=entry["numbers"]) for uuid, entry in devices.items()}
    return entries, HostCountedEntry(at=host["at"] + shift, answers=host["answers"]) if host else None


def hours_done(runs: Sequence[SeriesRun]) -> float:
    """Return the hours of all runs that are whole."""
    return sum(run.seconds for run in runs) / 3600


def worst_verdicts(runs: Sequence[SeriesRun], last: Sequence[Verdict]) -> list[Verdict]:
    """Return the worst verdict on each limit.

    `last` are the verdicts of the last whole run. A verdict that says nothing about the hardware counts there alone.
    """
    # such verdicts are not among those of a `SeriesRun`: if a later run holds the limit, the disturbance is over
    by_key = {verdict.key: verdict for verdict in last}
    for run in runs:
        for verdict in run.verdicts:
            by_key[verdict.key] = worse(by_key.get(verdict.key), verdict)
    return list(by_key.values())


def unfinished_runs(runs: Sequence[SeriesRun], waivers: Waivers) -> list[Verdict]:
    """Return a verdict on each run that began and did not end, unless it was stopped in order, which its record says.

    A waiver of the limit `series.run_N` explains what ended it, such as a power cut.
    """
    return [
        waivers.apply(Verdict(f"series.run_{run.number}", NODE, Status.UNMEASURED, (DidNotEnd(run.boot, run.last),)))
        for run in runs
        if run.state == "running"
    ]


def paused_share(runs: Sequence[SeriesRun]) -> float:
    """Return the share of the time in which the devices had no load, between runs that follow each other directly."""
    pauses = [
        max(0.0, new.loaded[0] - old.loaded[1] - (new.epoch - old.epoch if old.boot == new.boot else 0.0))
        for old, new in pairwise(runs)
        if old.whole and old.loaded and new.loaded  # any other was stopped
    ]
    # after a longer pause the series was stopped meanwhile, which is no pause of the load
    pause, loads = sum(pause for pause in pauses if pause <= DIRECTLY), [pause.loaded for pause in runs if pause.loaded]
    return pause / (pause + sum(end - begin for begin, end in loads)) if loads else 0.0


def closing(
    runs: Sequence[SeriesRun], last: Run | None, hours: float, waivers: Waivers, *, stopped: Closing | None = None
) -> Closing:
    """Return the closing line of a series that was to go on for so many hours.

    `last` is the record of the last whole run, None before there is one. `stopped` is how a run closed that ended the
    series early: it was interrupted, or broken by an error of software.
    """
    elapsed, share = hours_done(runs), paused_share(runs)
    verdicts = [*worst_verdicts(runs, last.verdicts if last else ()), *unfinished_runs(runs, waivers)]
    loaded = tuple(dict.fromkeys(name for run in runs for name in run.loaded_names))
    around = replace((last.circumstances if last else None) or Circumstances(), loaded=loaded)
    against = [*around.against, *(Objection("run", reason) for reason in _differing(runs))]
    against += [Objection("run", f"the load may pause for {MOST_PAUSED:.0%} of the time")] * (share > MOST_PAUSED)
    remains = elapsed < hours
    simulated = any(run.simulated for run in runs)
    if reason := unreliable(runs) or (LEFT if remains else ""):
        against.append(Objection("time", reason))
    conclusion = close(verdicts, replace(around, simulated=simulated, against=against))
    if stopped and conclusion.result is not Result.REJECTED:
        conclusion = stopped
    failed_keys = {verdict.key for verdict in conclusion.verdicts if verdict.fails}
    first = next((run.number for run in runs for verdict in run.verdicts if verdict.key in failed_keys), 0)
    span = f"{round(elapsed, 3):.3g}" + (f" of {hours:g}" if remains else "")
    remarks = [f"{counted(len(runs), 'run')} in {span} h", f"load paused for {share:.1%}", *_events(runs)]
    remarks += [f"found in run {first}"] * (first > 0)
    sensitivity = last.closing.sensitivity if last else ""
    return replace(conclusion, line=f"{conclusion.line}; {', '.join(remarks)}", sensitivity=sensitivity)


def unreliable(runs: Sequence[SeriesRun]) -> str:
    """Return the first whole run in which the clock was set, in words, so that no hours count; empty without one."""
    stepped = (run for run in runs if run.whole and run.clock_set)
    return next((f"{run.clock_set} during run {run.number}: begin a new series" for run in stepped), "")


def _differing(runs: Sequence[SeriesRun]) -> list[str]:
    """Return the terms in which a run differs from the first, in words: they are no series then."""
    return list(
        dict.fromkeys(
            f"{name} was {runs[0].terms[name]} in run 1, and is {run.terms[name]} in run {run.number}"
            for run in runs[1:]
            for name in run.terms
            if runs[0].terms.get(name) and run.terms[name] and run.terms[name] != runs[0].terms[name]
        )
    )


def _events(runs: Sequence[SeriesRun]) -> list[str]:
    """Return the numbers of stops of the series and of boots of the host, in words."""
    stops = sum(not run.whole for run in runs)
    boots = sum(bool(before.boot and after.boot) and before.boot != after.boot for before, after in pairwise(runs))
    return [counted(number, word) for number, word in ((stops, "stop"), (boots, "reboot")) if number]
