"""Works out the acceptance of a run from its record: what in the record does not follow from the rest of it. Pure.

A change of the file that is not carried through everything that depends on it contradicts something here. One that is
carried through cannot be told from the run itself; a signature tells it. Only what no version has ever written
is a contradiction, so that a record is not accused for having been judged by other rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from pytest_accel.core import simulated, versions
from pytest_accel.core.contradiction import Contradiction, Contradicts
from pytest_accel.core.fabric import SCORED
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Measurement, Names, Value, is_rate, is_time, mean_of
from pytest_accel.core.reasons import BehindNeighbours, BehindNodes, BehindPast
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.stats import SAMPLE_DIGITS
from pytest_accel.core.summary import ACCEPTED, moment
from pytest_accel.core.verdict import Status, Verdict, show
from pytest_accel.core.words import listed
from pytest_accel.judging.causes.diagnosis import variation
from pytest_accel.judging.closing.line import SIMULATED, close
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.facts.telemetry import seen_beside
from pytest_accel.judging.verdicts.distance import beyond
from pytest_accel.judging.verdicts.limit import of_peak_of
from pytest_accel.probes.declare import declaration_of, declarations

CLOSE = 1e-6
"""The largest difference of two figures that should be the same, as a share: a record holds them to 16 digits."""
ROUNDED = 4 * 0.5 * 10 ** (1 - SAMPLE_DIGITS)
"""The largest difference of two products of a sample and its duration, as a share: each factor is rounded."""
CLOCK = timedelta(minutes=1)
"""How far a measurement may lie outside the run by its times: a clock is set, and a run states whole seconds."""
MANY_SAMPLES = 5
"""Samples from which on no two devices measure the same ones."""
STATED = ("inventory.", "health.")
"""Prefixes of metrics whose values follow from the facts of a device."""
DEPENDS_ON_FILE = "inventory.sku"
"""The fact whose value also depends on the threshold file."""


@dataclass(frozen=True)
class Beside:
    """What the files say that a record names: those that lie beside it, and the record that it judges again."""

    altered: Sequence[str] = ()
    """Files of another hash than the record states."""
    elsewhere: Sequence[str] = ()
    """Files that would lie in another folder, which are not read."""
    subjects: AbstractSet[str] = field(default_factory=frozenset)
    """The UUIDs of the devices that the telemetry speaks of."""
    empty: Sequence[str] = ()
    """Files of telemetry that hold no readings of devices, or none that can be read."""


def contradictions(run: Run, beside: Beside) -> tuple[Contradiction, ...]:
    """Return what in a record contradicts the rest of it, or the files that it names."""
    found: list[Contradiction] = []
    files = partial(_files, beside=beside)
    for check in (files, _closing, _marks, _subjects, _terms, _times, _twins, _values, _verdicts, _suite):
        try:
            found += check(run)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            found.append(Contradiction(Contradicts.NO_RUN, f"{type(error).__name__}: {error}"))
    return tuple(found)


Found = Iterator[Contradiction]


def _files(run: Run, beside: Beside) -> Found:
    """Yield what differs from the hashes that the record states, of itself and of the files that it names."""
    if not run.sha256:
        yield Contradiction(Contradicts.UNSEALED)
    elif run.altered:
        yield Contradiction(Contradicts.ALTERED, run.sha256[:12], run.sealed[:12])
    problem = run.circumstances.record_problem if run.circumstances else None
    if run.finished and not (run.telemetry.get("sha256") or problem or run.judged_from):
        yield Contradiction(Contradicts.NO_TELEMETRY)
    yield from (Contradiction(Contradicts.FILE, each) for each in beside.altered)
    yield from (Contradiction(Contradicts.ELSEWHERE, each) for each in beside.elsewhere)
    if run.word == ACCEPTED:
        yield from (Contradiction(Contradicts.READINGS, each) for each in beside.empty)
    for each in sorted(beside.subjects - Names.of(run.devices).keys())[:1]:
        yield Contradiction(Contradicts.SUBJECT, each, where="the telemetry")


# -- the whole


def _terms(run: Run) -> Found:
    """Yield what the run states otherwise than the circumstances of its result, and what an acceptance cannot lack."""
    around = run.circumstances
    if around is None:
        return
    stated = {"level": (run.run.get("level", ""), around.level), "SKU": (run.sku.get("name", ""), around.sku)}
    if run.word == ACCEPTED:
        stated["number of devices"] = (str(len(run.devices)), str(around.expected_devices))
    for name, (said, found) in stated.items():
        if said and found and said != found:
            yield Contradiction(Contradicts.TERMS, f"the {name} {said}", found)
    required = {tuple(key) for key in around.required}
    for each in run.verdicts:
        limit, own = each.limit, each.limit is None or each.limit.declared_by is DeclaredBy.MARKER
        if limit and not own and limit.required and around.level in limit.levels and each.key not in required:
            yield Contradiction(Contradicts.REQUIRED, where=f"{Names.of(run.devices)[each.subject]} {each.metric}")
            return


def _marks(run: Run) -> Found:
    """Yield a contradiction if parts of the record say that the node was simulated, and others that it was not."""
    names, line = Names.of(run.devices), run.closing.line
    marks = [("the run", run.simulated)]
    marks += [("the circumstances", run.circumstances.simulated)] if run.circumstances else []
    marks += [("the closing line", SIMULATED in line)] if line else []
    marks += [(each.name, simulated.is_simulated(each)) for each in run.devices]
    marks += [(f"{names[each.subject]} {each.metric}", each.simulated) for each in run.measurements]
    first = {mark: where for where, mark in reversed(marks)}
    if len(first) > 1:
        yield Contradiction(Contradicts.SIMULATED, first[True], first[False])


def _subjects(run: Run) -> Found:
    """Yield each device that is spoken of and not held, or that has two names."""
    names = Names.of(run.devices)
    said = dict.fromkeys(each.subject for part in (run.measurements, run.verdicts) for each in part)
    yield from (Contradiction(Contradicts.SUBJECT, each) for each in said if each not in names)
    for subject, name in (run.circumstances.names if run.circumstances else {}).items():
        if names.get(subject, name) != name:
            yield Contradiction(Contradicts.NAME, names[subject], name)
    if len(names) != len(run.devices) + 1 or len(set(names.values())) != len(names):
        yield Contradiction(Contradicts.TWICE)


def _times(run: Run) -> Found:
    """Yield the first measurement that was made before the run began or after it ended.

    The devices of a simulated node work for longer than the host's clock goes.
    """
    began, ended, names = moment(run.started), moment(run.run.get("ended", "")), Names.of(run.devices)
    least = (began - CLOCK).timestamp() if began else -math.inf
    most = (ended + CLOCK).timestamp() if ended else math.inf
    most += run.run.get("seconds", {}).get("device", 0.0) if run.simulated else 0.0
    if run.word == ACCEPTED and not (began and ended):
        yield Contradiction(Contradicts.NO_TIMES)
    for each in run.measurements:
        if (each.started or each.samples) and not least <= each.started <= each.ended <= most:
            yield Contradiction(Contradicts.TIME, where=f"{names[each.subject]} {each.metric}")
            return


def _twins(run: Run) -> Found:
    """Yield each device that has the samples of another one. Those of copies between all are of the whole node."""
    names, owners = Names.of(run.devices), dict[tuple[str, tuple[float, ...]], str]()
    for each in run.measurements:
        declared = declaration_of(each.metric)
        if declared and declared.for_several:
            continue
        if len(set(each.samples)) >= MANY_SAMPLES and (is_rate(each.unit) or is_time(each.unit)):
            owner = owners.setdefault((each.metric, each.samples), each.subject)
            if owner != each.subject:
                yield Contradiction(Contradicts.TWINS, names[owner], where=f"{names[each.subject]} {each.metric}")


def _suite(run: Run) -> Found:
    """Yield what an acceptance has no verdict on: a metric of the suite, or one that another device has a verdict on.

    The suite gives a verdict on each of its metrics at every level; one that cannot exist is NOT APPLICABLE. What is
    measured between nodes is no part of it.
    """
    if run.word != ACCEPTED:
        return
    judged = {each.uuid: {one.metric for one in run.verdicts if one.subject == each.uuid} for each in run.devices}
    every, known = set[str]().union(*judged.values()), {each.metric for each in run.verdicts}
    probes = {each.name for one in known if (each := declaration_of(one))}
    lacking = {each.name: sorted(every - judged[each.uuid]) for each in run.devices}
    packaged = [each for each in declarations() if each.packaged and each.runs != "nodes"]
    lacking[NODE] = [each.name for each in packaged if each.name not in probes]
    lacking[NODE] += [one for each in packaged if each.name in probes for one in each.asked() if one not in known]
    for where, left_out in lacking.items():
        if left_out:
            yield Contradiction(Contradicts.SUITE, listed(left_out), where=where)


# -- the values


def _values(run: Run) -> Found:
    """Yield each value that does not follow from what it was made of."""
    names = Names.of(run.devices)
    for each in run.measurements:
        where, declared = f"{names[each.subject]} {each.metric}", declaration_of(each.metric)
        yield from _from_samples(each, where, packaged=declared is not None and declared.packaged)
        yield from _from_details(each, where)
    yield from _from_facts(run, names)
    yield from _from_telemetry(run, names)


def _from_samples(measured: Measurement, where: str, *, packaged: bool) -> Found:
    """Yield how value, samples, their durations and what was computed of them contradict each other.

    Of a packaged probe the samples and details are known to depend on each other.
    """
    samples, details, unit = measured.samples, measured.details, measured.unit
    if not samples or not packaged:  # a user's probe may give a value of its own beside its samples
        return
    mean = mean_of(samples, unit, measured.statistic)
    if not _same(measured.value, mean):
        yield Contradiction(Contradicts.VALUE, show(measured.value, unit), show(mean, unit), where)
    if measured.seconds and not _of_same_work(measured):
        yield Contradiction(Contradicts.DURATIONS, where=where)
    for name, stated in (("of_peak", details.get("of_peak")), ("variation", details.get("variation"))):
        if stated is not None:
            found = of_peak_of(measured) if name == "of_peak" else variation(samples)
            if not _same(stated, found):
                yield Contradiction(Contradicts.DETAIL, f"{name} is {_number(stated)}", _number(found), where)
    if len(details.get("ends", ())) > len(samples):
        yield Contradiction(Contradicts.SAMPLES, str(len(samples)), str(len(details["ends"])), where)


def _of_same_work(measured: Measurement) -> bool:
    """Return True if every sample stands for the same work: rates fall with the duration, times grow with it."""
    if len(measured.samples) != len(measured.seconds):
        return False
    rate = is_rate(measured.unit)
    both = zip(measured.samples, measured.seconds, strict=True)
    work = [value * time if rate else value / time for value, time in both if time and math.isfinite(value * time)]
    return not work or math.isclose(min(work), max(work), rel_tol=ROUNDED)


def _from_details(measured: Measurement, where: str) -> Found:
    """Yield how the details contradict the value that was computed from them."""
    ranks, windows = measured.details.get("ranks"), measured.details.get("windows")
    if ranks and measured.value is not None and not any(_same(measured.value, each) for each in ranks):
        yield Contradiction(Contradicts.RANK, where=where)
    if windows is not None and measured.unit == "count" and not measured.trouble:
        total = sum(each["moved"] for each in windows)
        if measured.value != total:
            yield Contradiction(Contradicts.COUNTER, str(measured.value), str(total), where)
    if part := measured.details.get("fabric"):
        values = [each.value for each in part.rounds if each.kind in SCORED and each.value is not None]
        best = max(values, default=None)
        for said in (part.score, part.score if measured.trouble else measured.value):
            if not _same(said, best):
                yield Contradiction(Contradicts.ROUNDS, show(said, measured.unit), show(best, measured.unit), where)
                break


def _from_facts(run: Run, names: Names) -> Found:
    """Yield each fact that differs from what the device states in the same record."""
    metrics = {each.metric for each in run.measurements if each.metric.startswith(STATED)} - {DEPENDS_ON_FILE}
    discovery = Discovery(tuple(run.devices))
    stated = {(metric, each.subject): each for metric in metrics for each in facts(metric, discovery, None)}
    for each in run.measurements:
        device = stated.get((each.metric, each.subject))
        if "changed" in each.details or not device or device.trouble or each.trouble:  # read again later, or not read
            continue
        if not _same(each.value, device.value):
            where = f"{names.get(each.subject)} {each.metric}"
            yield Contradiction(Contradicts.FACT, str(each.value), str(device.value), where)


def _from_telemetry(run: Run, names: Names) -> Found:
    """Yield each metric that differs from the summary of the telemetry that it was computed from."""
    devices = {device.uuid: device for device in run.devices}
    held = {(each.metric, each.subject, each.started): each for each in run.measurements}
    for each in run.measurements:
        if each.subject not in devices or "telemetry" not in each.details or each.trouble:
            continue
        for beside in seen_beside(each, devices[each.subject], each.details["telemetry"]):
            other = held.get((beside.metric, beside.subject, beside.started))
            if other and not other.trouble and not beside.trouble and not _same(other.value, beside.value):
                shown = show(other.value, other.unit), show(beside.value, beside.unit)
                yield Contradiction(Contradicts.TELEMETRY, *shown, f"{names[each.subject]} {other.metric}")


# -- the verdicts


def _verdicts(run: Run) -> Found:
    """Yield how a verdict does not follow from what was measured and from its limit."""
    names = Names.of(run.devices)
    attempts = grouped(run.measurements, lambda each: (each.metric, each.subject))
    for each in run.verdicts:
        for kind, said, found in of_verdict(each, attempts.get((each.metric, each.subject), [])):
            yield Contradiction(kind, said, found, f"{names[each.subject]} {each.metric}")


def of_verdict(verdict: Verdict, attempts: Sequence[Measurement]) -> Iterator[tuple[Contradicts, str, str]]:
    """Yield how a verdict contradicts the attempts that it judges, or its limit."""
    limit, status, shown = verdict.limit, verdict.status.value, show(verdict.value, verdict.unit)
    margin = _margin(verdict.value, verdict)
    if verdict.value is not None and not any(_same(verdict.value, each.value) for each in attempts):
        yield Contradicts.NOT_MEASURED, shown, ""
    together = [each for each in attempts if each.how == "together"] or attempts
    if attempts and verdict.attempts > len(together):
        yield Contradicts.ATTEMPTS, str(verdict.attempts), str(len(together))
    judged = limit is not None and not limit.relative and verdict.margin is not None
    if limit and judged and (verdict.floor, verdict.ceiling) != (limit.floor, limit.ceiling):
        yield Contradicts.BOUNDS, "", ""
    if verdict.margin is not None and not _same(verdict.margin, margin):
        yield Contradicts.MARGIN, _number(verdict.margin), _number(margin)
    if verdict.status is Status.FAIL and not _may_fail(verdict, attempts):
        yield Contradicts.WITHIN, status, ""
    if not verdict.status.holds:
        return
    if not attempts or verdict.value is None:
        yield Contradicts.NO_MEASUREMENT, status, ""
    elif any(map(_failed, attempts)) and not verdict.advises:
        yield Contradicts.DEVICE_FAILED, status, ""
    elif not verdict.advises and _broken(verdict):
        yield Contradicts.BROKEN, status, shown
    elif _below_class(verdict):
        yield Contradicts.BELOW_CLASS, status, shown


def _failed(measured: Measurement) -> bool:
    """Return True if the device was the trouble of a measurement, or a fabric run named the node as slow."""
    part = measured.details.get("fabric")
    return bool(measured.trouble and measured.trouble.kind == "device") or bool(part and part.found == "slow")


def _broken(verdict: Verdict) -> bool:
    """Return True if the value of a verdict breaks its limit."""
    limit, margin = verdict.limit, _margin(verdict.value, verdict)
    if limit is not None and (limit.equals is not None or limit.one_of):
        return verdict.value not in (limit.one_of or (limit.equals,))
    if limit is not None and limit.version is not None:
        return versions.parse(limit.version).holds(str(verdict.value)) is False
    if limit is not None and limit.same_on_all:
        return verdict.value != verdict.expected
    return margin is not None and margin < 0


def _may_fail(verdict: Verdict, attempts: Sequence[Measurement]) -> bool:
    """Return False if nothing in the record can make a verdict FAIL: every attempt has a value within the bounds."""
    compared = any(isinstance(each, BehindNeighbours | BehindNodes | BehindPast) for each in verdict.reasons)
    if compared or verdict.behind or verdict.fault or verdict.margin is None or _below_class(verdict):
        return True
    margins = [verdict.margin, *(_margin(each.value, verdict) for each in attempts)]
    return any(each.trouble for each in attempts) or any(margin is None or margin < 0 for margin in margins)


def _below_class(verdict: Verdict) -> bool:
    """Return True if the value lies below the floor of the class beneath the limit, whatever the limit itself does."""
    floor = verdict.limit.beneath if verdict.limit else None
    return floor is not None and isinstance(verdict.value, int | float) and verdict.value < floor.value


def _margin(value: Value | None, verdict: Verdict) -> float | None:
    """Return the smaller distance of a value to the bounds of a verdict as a share of the bound; None without one."""
    if isinstance(value, bool | str) or value is None:
        return None
    found = beyond(value, verdict.floor, verdict.ceiling)
    return None if found is None else -found.lost


def _closing(run: Run) -> Found:
    """Yield how the result contradicts the verdicts and the circumstances, from which it is worked out again."""
    line, word, status = run.closing.line, run.closing.word, run.closing.exit
    if run.state == "running":
        return
    if not line or not word or status < 0:
        yield Contradiction(Contradicts.NO_CLOSING)
        return
    if word not in line:
        yield Contradiction(Contradicts.LINE, word)
    found = close(run.verdicts, run.circumstances or Circumstances())
    if (found.word, found.exit) != (word, status):
        yield Contradiction(Contradicts.CLOSING, f"{word} with exit status {status}", found.line)
    elif word == ACCEPTED and found.line.partition(" (")[0] not in str(line):
        yield Contradiction(Contradicts.CLOSING, str(line), found.line)


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
