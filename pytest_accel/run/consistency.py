"""Looks for contradictions in a saved record: whether its parts follow from each other.

A change of the file that is not carried through everything that depends on it contradicts something here. One that is
carried through cannot be told from the run itself, since a record is not signed. Only what no version has ever written
is a contradiction, so that a record is not accused for having been judged by other rules.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from pytest_accel.core import simulated, untrusted, versions
from pytest_accel.core.display_names import Names
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement, Value, is_rate
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.stats import SAMPLE_DIGITS
from pytest_accel.core.verdict import Status, Verdict, show
from pytest_accel.judging.closing import SIMULATED, close
from pytest_accel.judging.compare import of_peak_of
from pytest_accel.judging.diagnosis import variation
from pytest_accel.judging.distance import FAR
from pytest_accel.judging.inventory import Discovery, facts
from pytest_accel.judging.rounds import round_of, value_in
from pytest_accel.judging.telemetry import seen_beside
from pytest_accel.probes.declare import declaration_of
from pytest_accel.run.record import hash_file, names_of

CLOSE = 1e-6
"""The largest difference of two figures that should be the same, as a share: a record holds them to 16 digits."""
ROUNDED = 4 * 0.5 * 10 ** (1 - SAMPLE_DIGITS)
"""The largest difference of two products of a sample and its duration, as a share: each factor is rounded."""
HOUR_ROUNDING = 0.01
"""Hours by which the time of a run and that of its starts may differ by rounding."""
STATED = ("inventory.", "health.")
"""Prefixes of metrics whose values follow from the facts of a device."""
DEPENDS_ON_FILE = "inventory.sku"
"""The fact whose value also depends on the threshold file."""
LINE = 160
"""Characters of a closing line that are shown of it."""
DROPPED = "JUDGED AGAIN "
"""The beginning of the closing line of a record that was judged again."""


def contradictions(saved: Run) -> list[str]:
    """Return a sentence for each contradiction in a record, or between it and the files that it states the hash of."""
    checks = [
        _hash(saved),
        _files(saved),
        *(check(saved) for check in (_simulation, _subjects, _values, _rounds, _verdicts)),
    ]
    return [each for check in checks for each in _checked(check)]


def _checked(check: Iterator[str]) -> Iterator[str]:
    """Yield what a check finds; a sentence where a value of another kind than any version writes stops it."""
    try:
        yield from check
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        yield f"it holds values that no run writes ({type(error).__name__}: {error})"


def unverified(saved: Run) -> list[str]:
    """Return a sentence for each thing that could not be verified."""
    name = saved.telemetry.get("file")
    return [f"{name} is not there"] if name and not untrusted.exists(_beside(saved.path, name)) else []


def traces(record: Run) -> tuple[list[str], list[str]]:
    """Return what says that a node was simulated: as the run states it, and as its devices and its host show it."""
    stated = {
        "the entry run.simulated": bool(record.run.get("simulated")),
        "the circumstances": record.circumstances is not None and record.circumstances.simulated,
        "the closing line": record.closing.get("line", "").removeprefix(DROPPED).startswith(SIMULATED),
        "the command": any(word.startswith("--accel-simulate") for word in record.run.get("command", ())),
    }
    shown = [text for device in record.devices if (text := simulated.shown_by(device))]
    reasons = [each.trouble.reason for each in record.measurements if each.trouble]
    shown += ["the facts of the host"] if any(simulated.HOST in reason for reason in reasons) else []
    return [name for name, said in stated.items() if said], shown


# -- the file


def _hash(saved: Run) -> Iterator[str]:
    """Yield a sentence if the record was changed since its hash was computed."""
    stated = saved.sha256
    if not stated:
        yield "the record states no hash of itself"
    elif saved.altered:
        yield f"the record was changed after it was written: its hash is {saved.sealed[:12]}, it states {stated[:12]}"


def _files(record: Run) -> Iterator[str]:
    """Yield a sentence for each file of which the record states the hash, and which has another one."""
    problem = record.circumstances.record_problem if record.circumstances else None
    if record.state == "finished" and not record.telemetry.get("sha256") and not problem:
        yield "the record of a finished run states no hash of its telemetry"
    both = (
        ("telemetry", record.telemetry.get("file"), record.telemetry.get("sha256")),
        ("the record that it was judged from", record.judged_from.get("record"), record.judged_from.get("sha256")),
    )
    for what, name, stated in both:
        found = hash_file(_beside(record.path, name)) if name and stated else None
        if name and stated and found not in (None, stated):
            yield f"{what}, {name}, was changed: the record states the hash {stated[:12]}, and it has {str(found)[:12]}"


def _beside(path: Path, name: str) -> Path:
    return path.absolute().parent / name


# -- the whole


def _simulation(record: Run) -> Iterator[str]:
    """Yield a sentence if some parts of the record say that the node was simulated and others do not."""
    stated, shown = traces(record)
    if not (stated or shown):
        return
    if "the entry run.simulated" not in stated:
        yield f"a simulated node passes for hardware: {(shown + stated)[0]} shows it, but run.simulated is absent"
    elif record.circumstances is not None and "the circumstances" not in stated:
        yield "a simulated node passes for hardware: the circumstances do not say that it was simulated"


def _subjects(record: Run) -> Iterator[str]:
    """Yield a sentence for each device that is spoken of and not held, or that has two names."""
    names = names_of(record)
    said = [each.subject for each in record.measurements] + [each.subject for each in record.verdicts]
    for subject in dict.fromkeys(said):
        if subject not in names:
            yield f"the record speaks of {subject}, which is not among its devices"
    for subject, name in (record.circumstances.names if record.circumstances else {}).items():
        if names.get(subject, name) != name:
            yield f"{subject} is {names[subject]} by its place and {name} in the circumstances"
    if len(names) != len(record.devices) + 1 or len(set(names.values())) != len(names):
        yield "two devices have the same UUID or name"


# -- the values


def _values(record: Run) -> Iterator[str]:
    """Yield a sentence for each value that does not follow from what it was made of."""
    names = names_of(record)
    for each in record.measurements:
        for why in (*_from_samples(each), *_from_details(each)):
            yield f"{names[each.subject]} {each.metric}: {why}"
    yield from _from_facts(record, names)
    yield from _from_telemetry(record, names)


def _from_samples(measured: Measurement) -> Iterator[str]:
    """Yield how value, samples and their durations contradict each other."""
    samples, seconds, estimate = measured.samples, measured.seconds, measured.estimate
    if not samples or estimate is None:
        return
    if not _same(measured.value, estimate.mean):
        value, found = (show(each, measured.unit) for each in (measured.value, estimate.mean))
        yield f"the value is {value}, but the {measured.statistic} of its {len(samples)} samples is {found}"
    if not _packaged(measured.metric) or not seconds:
        return
    if len(seconds) != len(samples):
        yield f"{len(samples)} samples have {len(seconds)} durations"
    elif not _proportional(samples, seconds, rate=is_rate(measured.unit)):
        yield "the samples do not follow from their durations"


def _proportional(samples: Sequence[float], seconds: Sequence[float], *, rate: bool) -> bool:
    """Return True if every sample stands for the same work: rates fall with the duration, times grow with it."""
    work = [
        value * time if rate else value / time
        for value, time in zip(samples, seconds, strict=True)
        if time and math.isfinite(value) and math.isfinite(time)
    ]
    return not work or math.isclose(min(work), max(work), rel_tol=ROUNDED)


def _from_details(measured: Measurement) -> Iterator[str]:
    """Yield how the details contradict the value or the samples that they were computed from."""
    details = measured.details
    if measured.samples and _packaged(measured.metric):
        computed = (
            ("of_peak", details.get("of_peak"), of_peak_of(measured)),
            ("variation", details.get("variation"), variation(measured.samples)),
        )
        for name, stated, found in computed:
            if stated is not None and not _same(stated, found):
                yield f"{name} is {stated:.4g}, but {_number(found)} by the samples"
        if len(details.get("ends", ())) > len(measured.samples):
            yield f"{len(measured.samples)} samples are left of {len(details['ends'])}"
    ranks = details.get("ranks")
    if ranks and measured.value is not None and not any(_same(measured.value, each) for each in ranks):
        yield "the value is that of no rank"
    windows = details.get("windows")
    if windows is not None and measured.unit == "count" and not measured.trouble:
        total = sum(each["moved"] for each in windows)
        if measured.value != total:
            yield f"the value is {measured.value}, but the counter increased by {total}"


def _from_facts(record: Run, names: Names) -> Iterator[str]:
    """Yield a sentence for each fact that differs from what the device states in the same record."""
    discovery, stated = Discovery(tuple(record.devices)), {}
    metrics = {each.metric for each in record.measurements if each.metric.startswith(STATED)} - {DEPENDS_ON_FILE}
    for metric in metrics:
        stated.update({(metric, each.subject): each for each in facts(metric, discovery, None)})
    for each in record.measurements:
        device = stated.get((each.metric, each.subject))
        if "changed" in each.details or not device or device.trouble or each.trouble:  # read again later, or not read
            continue
        if not _same(each.value, device.value):
            where = f"{names.get(each.subject)} {each.metric}"
            yield f"{where}: the value is {each.value}, but the device states {device.value}"


def _from_telemetry(record: Run, names: Names) -> Iterator[str]:
    """Yield a sentence for each metric that differs from the summary of the telemetry that it was computed from."""
    devices = {device.uuid: device for device in record.devices}
    held = {(each.metric, each.subject, each.started): each for each in record.measurements}
    for each in record.measurements:
        if each.subject not in devices or "telemetry" not in each.details or each.trouble:
            continue
        for beside in seen_beside(each, devices[each.subject], each.details["telemetry"]):
            other = held.get((beside.metric, beside.subject, beside.started))
            if other and not other.trouble and not beside.trouble and not _same(other.value, beside.value):
                shown = (show(other.value, other.unit), show(beside.value, beside.unit))
                yield f"{names[each.subject]} {other.metric}: the value is {shown[0]}, but {shown[1]} by the telemetry"


def _rounds(record: Run) -> Iterator[str]:
    """Yield how the rounds of a long run contradict what was measured, or the time that it was going."""
    entry, starts, names = record.rounds, record.run.get("starts", []), names_of(record)
    if not entry:
        return
    hours = sum(each["seconds"] for each in starts) / 3600
    if abs(entry["done"] - hours) > HOUR_ROUNDING:
        yield f"{entry['done']:.3g} hours are done, but the starts of the run add up to {hours:.3g}"
    around = record.circumstances
    if around is not None and around.hours != entry["hours"]:
        yield f"{entry['hours']:g} hours were asked for, but the circumstances say {around.hours:g}"
    held = grouped(record.measurements, lambda each: (each.metric, each.subject, round_of(each)))
    for (metric, subject, place), attempts in held.items():
        values = entry["series"].get(metric, {"unit": "", "values": {}})["values"].get(subject, [])
        if len(values) >= place and values[place - 1] != value_in(attempts):
            where = f"{names[subject]} {metric}"
            yield f"{where}: the value of round {place} is {values[place - 1]}, but it was measured otherwise"
    rounds = [len(values) for each in entry["series"].values() for values in each["values"].values()]
    if rounds and max(rounds) < entry["complete"]:
        yield f"{entry['complete']} rounds are complete, but there are values of {max(rounds)}"


# -- the verdicts


def _verdicts(record: Run) -> Iterator[str]:
    """Yield a sentence for each verdict that does not follow from value and limit, and for the closing line."""
    names = names_of(record)
    attempts = grouped(record.measurements, lambda each: (each.metric, each.subject))
    alike = grouped(record.measurements, lambda each: each.metric)
    for each in record.verdicts:
        values = [one.value for one in alike.get(each.metric, ())]
        for why in _verdict(each, attempts.get((each.metric, each.subject), []), values):
            yield f"{names[each.subject]} {each.metric}: {why}"
    yield from _closing(record)


def _verdict(verdict: Verdict, attempts: Sequence[Measurement], alike: Sequence[Value | None]) -> Iterator[str]:
    """Yield how a verdict contradicts the attempts that it judges, or its limit.

    `alike` are the values of the same metric on all devices.
    """
    if verdict.value is not None and not any(_same(verdict.value, each.value) for each in attempts):
        yield f"the verdict is on {show(verdict.value, verdict.unit)}, which was not measured"
    together = [each for each in attempts if each.how == "together"] or attempts
    if attempts and verdict.attempts > len(together):
        yield f"the verdict is on {verdict.attempts} attempts, of which the record holds {len(together)}"
    limit, margin = verdict.limit, _margin(verdict)
    judged = limit is not None and not limit.relative and verdict.margin is not None
    if limit and judged and (verdict.floor, verdict.ceiling) != (limit.floor, limit.ceiling):
        yield "the bounds of the verdict are not those of its limit"
    if verdict.margin is not None and not _same(verdict.margin, margin):
        yield f"the margin is {verdict.margin:+.1%}, but {_number(margin)} by value and limit"
    if verdict.status.holds:
        yield from _holds(verdict, attempts)
    elif verdict.status is Status.FAIL and not _may_fail(verdict, attempts, alike):
        yield f"the verdict is {verdict.status.value}, though every attempt is within the limit"


def _holds(verdict: Verdict, attempts: Sequence[Measurement]) -> Iterator[str]:
    """Yield why a verdict says that a limit holds which does not."""
    if not attempts or verdict.value is None:
        yield f"the verdict is {verdict.status.value}, but the record holds no measurement of it"
    elif any(each.trouble and each.trouble.kind == "device" for each in attempts) and not verdict.advises:
        yield f"the verdict is {verdict.status.value}, but the device failed"
    elif not verdict.advises and _broken(verdict):
        yield f"the verdict is {verdict.status.value}, but the limit is broken by {show(verdict.value, verdict.unit)}"
    elif _below_class(verdict):
        yield f"the verdict is {verdict.status.value}, but {show(verdict.value, verdict.unit)} is below its class floor"


def _broken(verdict: Verdict) -> bool:
    """Return True if the value of a verdict breaks its limit."""
    limit, margin = verdict.limit, _margin(verdict)
    if limit is not None and (limit.equals is not None or limit.one_of):
        return verdict.value not in (limit.one_of or (limit.equals,))
    if limit is not None and limit.version is not None:
        return versions.parse(limit.version).holds(str(verdict.value)) is False
    if limit is not None and limit.same_on_all:
        return verdict.value != verdict.expected
    return margin is not None and margin < 0


def _may_fail(verdict: Verdict, attempts: Sequence[Measurement], alike: Sequence[Value | None]) -> bool:
    """Return False if nothing in the record can make a verdict FAIL.

    That is so if every attempt has a value within the bounds, and the value is about that of the other devices and of
    the device's own past.
    """
    if (
        verdict.behind
        or verdict.fault
        or verdict.margin is None
        or verdict.margin < 0
        or any(each.trouble for each in attempts)
    ):
        return True
    if _below_class(verdict):
        return True
    numbers = [float(each) for each in alike if isinstance(each, int | float)]
    if isinstance(verdict.value, int | float):
        share = verdict.value / (median(numbers) or math.inf)
        if not FAR <= share <= 1 / FAR:
            return True
    margins = [_margin_of(each.value, verdict.floor, verdict.ceiling) for each in attempts]
    return any(margin is None or margin < 0 for margin in margins)


def _below_class(verdict: Verdict) -> bool:
    """Return True if the value lies below the floor of the class beneath the limit, whatever the limit itself does."""
    floor = verdict.limit.beneath if verdict.limit else None
    return floor is not None and isinstance(verdict.value, int | float) and verdict.value < floor.value


def _margin(verdict: Verdict) -> float | None:
    return _margin_of(verdict.value, verdict.floor, verdict.ceiling)


def _margin_of(value: Value | None, floor: float | None, ceiling: float | None) -> float | None:
    """Return the smaller distance of a value to its bounds as a share of the bound, None without either."""
    if isinstance(value, bool | str) or value is None:
        return None
    distances = [(value - floor, floor)] if floor is not None else []
    distances += [(ceiling - value, ceiling)] if ceiling is not None else []
    return min((_share(distance, bound) for distance, bound in distances), default=None)


def _share(distance: float, bound: float) -> float:
    return distance / abs(bound) if bound else math.copysign(math.inf, distance) if distance else 0.0


def _closing(record: Run) -> Iterator[str]:
    """Yield how the closing line contradicts the verdicts and the circumstances, from which it is worked out again."""
    line, word, status = (record.closing.get(key) for key in ("line", "word", "exit"))
    if record.state == "running":
        return
    if not line or not word or status is None:
        yield "the run has ended, but there is no closing line"
        return
    said = str(line).removeprefix(DROPPED).removeprefix(f"{SIMULATED} ")
    if not said.startswith(str(word)):
        yield f"the closing line does not begin with its result, {word}"
    found = close(record.verdicts, record.circumstances or Circumstances())
    if (found.word, found.exit) != (word, status):
        line = textwrap.shorten(found.line, LINE, placeholder=" ...")
        yield f"the run closed as {word} with exit status {status}, but what it holds closes as {line}"
    if word in ("ACCEPTED", "HELD") and record.rounds and record.rounds["done"] < record.rounds["hours"]:
        yield f"the run closed as {word} after {record.rounds['done']:.3g} of {record.rounds['hours']:g} hours"


# -- figures


def _same(one: object, other: object) -> bool:
    """Return True for the same value; two floats may differ by rounding."""
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return False
        return math.isclose(one, other, rel_tol=CLOSE) or (math.isnan(one) and math.isnan(other))
    return one == other


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def _packaged(metric: str) -> bool:
    """Return True for a metric of a packaged probe, whose samples and details are known to depend on each other."""
    declared = declaration_of(metric)
    return declared is not None and declared.packaged


def listed(found: Iterable[str], most: int = 5) -> list[str]:
    """Return the first sentences, and one that counts the others."""
    every = list(found)
    return every[:most] + ([f"{len(every) - most} more"] if len(every) > most else [])
