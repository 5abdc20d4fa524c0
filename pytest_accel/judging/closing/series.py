"""A series of runs (--accel-hours): what its runs found together, and its closing line. Pure.

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
from pytest_accel.core.run import Against, Circumstances, CountedEntry, HostCountedEntry, Run
from pytest_accel.core.summary import moment
from pytest_accel.core.verdict import Closing, Result, Status, Verdict
from pytest_accel.core.words import counted
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.history import terms_of
from pytest_accel.judging.verdicts.judge import worst
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus.waivers import Waivers

DIRECTLY = 600.0
"""Seconds after the end of a run in which the next one follows it directly: it passes no idle gate, and the time
between them is a pause of the load. After a longer time the series was stopped meanwhile."""
LEFT = "the hours are not over"
"""What the closing line says of a series that can go on."""
SET = 60.0
"""Seconds by which the wall clock may be set during a run. NTP slews, which both clocks follow, what is less."""
MOST_PAUSED = 0.05
"""The largest share of the time in which the devices may have no load between two runs."""


@dataclass(frozen=True)
class SeriesRun:
    """A run of a series, as far as the series is judged by it."""

    number: int
    state: str
    """That of its record. A run that is over and whose record says "running" did not end."""
    whole: bool
    """True if everything was measured."""
    seconds: float
    """How long it took, 0 unless it is whole."""
    boot: str
    last: str
    """The time of its last reading: ISO 8601, in UTC."""
    loaded: tuple[float, float] | None
    """When the first measurement began and the last one ended, in seconds since the epoch; None on a simulated node,
    whose time is its own."""
    line: str
    verdicts: Sequence[Verdict]
    """Those that break a limit or are MARGINAL."""
    terms: Mapping[str, str]
    """What is the same in all runs of a series."""
    simulated: bool = False
    epoch: float = 0.0
    """The time in `loaded` at which CLOCK_MONOTONIC of its boot was zero."""
    clock_set: str = ""
    """The step by which the clock of the host was set during the run, in words; empty without one."""
    beside: Sequence[str] = ()
    """The names of what the run loaded (`Circumstances.loaded`)."""


def of_record(number: int, run: Run, last: str) -> SeriesRun:
    """Return the run whose record this is; `last` is the time of its last reading."""
    whole = run.finished and not (run.circumstances and run.circumstances.texts("time"))
    terms = terms_of(run.info.get("level", ""), run.info.get("platform", ""), run.software)
    files = " ".join(f"{name} {digest[:12]}" for name, digest in sorted(run.sku.get("files", {}).items()))
    devices = " ".join(sorted(each.uuid for each in run.devices))
    return SeriesRun(
        number,
        run.state,
        whole,
        seconds_of(run) if whole else 0.0,
        run.info.get("boot", ""),
        last,
        None if run.simulated else _loaded(run),
        run.closing.line,
        [each for each in run.verdicts if each.status in (Status.FAIL, Status.MARGINAL)],
        {**terms, "SKU": run.sku.get("name", ""), "threshold files": files, "devices": devices},
        run.simulated,
        _epochs(run)[0],
        clock_set(run),
        run.circumstances.loaded if run.circumstances else (),
    )


def _epochs(run: Run) -> tuple[float, float]:
    return run.info.get("epochs", (0.0, 0.0))


def seconds_of(run: Run) -> float:
    """Return how long a run took by CLOCK_MONOTONIC, 0 if it did not end; of a simulated node by its own if ahead."""
    began, ended = moment(run.started), moment(run.info.get("ended", ""))
    first, last = _epochs(run)
    took = (ended.timestamp() - last) - (began.timestamp() - first) if began and ended else 0.0
    return max(took, run.info.get("seconds", {}).get("device", 0.0)) if run.simulated else took


def clock_set(run: Run) -> str:
    """Return in words by how much the clock of the host was set while a run went on; empty if it was not."""
    first, last = _epochs(run)
    hours, minutes = divmod(round(abs(last - first) / 60), 60)
    sign = "-" if last < first else "+"
    return f"the clock of the host was set by {sign}{hours} h {minutes} min" if abs(last - first) > SET else ""


def _loaded(run: Run) -> tuple[float, float] | None:
    declared = ((each, declaration_of(each.metric)) for each in run.measurements)
    timed = [each for each, its in declared if its and not its.fact and each.ended > each.started > 0]
    return (min(each.started for each in timed), max(each.ended for each in timed)) if timed else None


def directly(before: Run, boot: str, now: float) -> bool:
    """Return True if a run that begins `now` (CLOCK_MONOTONIC of this boot) follows directly on another."""
    ended = moment(before.info.get("ended", ""))
    if ended is None or before.info.get("boot") != boot:
        return False
    return 0 <= now - (ended.timestamp() - _epochs(before)[1]) <= DIRECTLY


def counts(before: Run, boot: str, epoch: float) -> tuple[dict[str, CountedEntry], HostCountedEntry | None]:
    """Return the last counts of the run before, of devices and host, at their times by a run that has this `epoch`."""
    shift = epoch - before.info.get("epochs", (epoch,))[0] if before.info.get("boot") == boot else 0.0
    devices, host = before.info.get("counted", {}), before.info.get("host_counted")
    moved = {uuid: CountedEntry(at=each["at"] + shift, numbers=each["numbers"]) for uuid, each in devices.items()}
    return moved, HostCountedEntry(at=host["at"] + shift, answers=host["answers"]) if host else None


def hours_done(runs: Sequence[SeriesRun]) -> float:
    """Return the hours of all runs that are whole."""
    return sum(each.seconds for each in runs) / 3600


def merged(runs: Sequence[SeriesRun], last: Sequence[Verdict]) -> list[Verdict]:
    """Return the worst verdict on each limit.

    `last` are the verdicts of the last whole run. A verdict that says nothing about the hardware counts there alone: if
    a later run holds the limit, what disturbed an earlier one is over.
    """
    found = {each.key: each for each in last}
    for run in runs:
        for each in run.verdicts:
            found[each.key] = worst(found.get(each.key), each)
    return list(found.values())


def unfinished(runs: Sequence[SeriesRun], waivers: Waivers) -> list[Verdict]:
    """Return a verdict on each run that began and did not end, unless it was stopped in order, which its record says.

    A waiver of the limit `series.run_N` explains what ended it, such as a power cut.
    """
    return [
        waivers.apply(Verdict(f"series.run_{each.number}", NODE, Status.UNMEASURED, (DidNotEnd(each.boot, each.last),)))
        for each in runs
        if each.state == "running"
    ]


def paused(runs: Sequence[SeriesRun]) -> float:
    """Return the share of the time in which the devices had no load, between runs that follow each other directly."""
    pauses = [
        max(0.0, two.loaded[0] - one.loaded[1] - (two.epoch - one.epoch if one.boot == two.boot else 0.0))
        for one, two in pairwise(runs)
        if one.whole and one.loaded and two.loaded  # any other was stopped
    ]
    pause, loads = sum(each for each in pauses if each <= DIRECTLY), [each.loaded for each in runs if each.loaded]
    return pause / (pause + sum(end - begin for begin, end in loads)) if loads else 0.0


def closing(
    runs: Sequence[SeriesRun], last: Run | None, hours: float, waivers: Waivers, *, stopped: Closing | None = None
) -> Closing:
    """Return the closing line of a series that was to go on for so many hours.

    `last` is the record of the last whole run, None before there is one. `stopped` is how a run closed that ended the
    series early: it was interrupted, or broken by an error of software.
    """
    done, share = hours_done(runs), paused(runs)
    verdicts = [*merged(runs, last.verdicts if last else ()), *unfinished(runs, waivers)]
    beside = tuple(dict.fromkeys(name for run in runs for name in run.beside))
    around = replace((last.circumstances if last else None) or Circumstances(), loaded=beside)
    against = [*around.against, *(Against("run", why) for why in _differing(runs))]
    against += [Against("run", f"the load may pause for {MOST_PAUSED:.0%} of the time")] * (share > MOST_PAUSED)
    left = done < hours
    simulated = any(each.simulated for each in runs)
    if cut := unreliable(runs) or (LEFT if left else ""):
        against.append(Against("time", cut))
    found = close(verdicts, replace(around, simulated=simulated, against=against))
    if stopped and found.result is not Result.REJECTED:
        found = stopped
    broken = {each.key for each in found.named if each.fails}
    first = next((run.number for run in runs for each in run.verdicts if each.key in broken), 0)
    span = f"{round(done, 3):.3g}" + (f" of {hours:g}" if left else "")
    told = [f"{counted(len(runs), 'run')} in {span} h", f"load paused for {share:.1%}", *_events(runs)]
    told += [f"found in run {first}"] * (first > 0)
    sensitivity = last.closing.sensitivity if last else ""
    return replace(found, line=f"{found.line}; {', '.join(told)}", sensitivity=sensitivity)


def unreliable(runs: Sequence[SeriesRun]) -> str:
    """Return in which whole run the clock was set, so that no hours are accepted; empty without one."""
    found = (run for run in runs if run.whole and run.clock_set)
    return next((f"{run.clock_set} during run {run.number}: begin a new series" for run in found), "")


def _differing(runs: Sequence[SeriesRun]) -> list[str]:
    """Return in what a run differs from the first: they are no series then."""
    return list(
        dict.fromkeys(
            f"{name} was {runs[0].terms[name]} in run 1, and is {run.terms[name]} in run {run.number}"
            for run in runs[1:]
            for name in run.terms
            if runs[0].terms.get(name) and run.terms[name] and run.terms[name] != runs[0].terms[name]
        )
    )


def _events(runs: Sequence[SeriesRun]) -> list[str]:
    """Return how often the series was stopped, and the host was booted."""
    stops = sum(not each.whole for each in runs)
    boots = sum(bool(one.boot and two.boot) and one.boot != two.boot for one, two in pairwise(runs))
    return [counted(number, word) for number, word in ((stops, "stop"), (boots, "reboot")) if number]
