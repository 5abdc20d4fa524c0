"""Judges a saved record again, by today's limits or those of another file. Pure.

Only the limits, and the verdicts that they require, are exchanged. The measurements and the circumstances of the run
stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.metric_name import parse
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Circumstances, Objection, ObjectionKind, Run
from pytest_accel.core.sku_types import DeclaredBy, Limit, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.causes.diagnosis import explaining
from pytest_accel.judging.closing.anew import basis_of
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.facts import diagnostics, packing
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.facts.preconditions import skip_verdict
from pytest_accel.judging.facts.telemetry import SOAK_METRICS
from pytest_accel.judging.verdicts.attempts import MetricKey, RunAttempts
from pytest_accel.judging.verdicts.history import stored_pasts
from pytest_accel.judging.verdicts.smallest_losses import of_run
from pytest_accel.probes.declare import conditions_of, declaration_of
from pytest_accel.run.options import AUTO
from pytest_accel.run.record import finding_entries, names_of, packing_entry, sku_entry
from pytest_accel.run.terms import TermOptions, Terms
from pytest_accel.skus import peaks
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.waivers import used, waivable

AGAIN = "JUDGED AGAIN"
"""The first words of the closing line of a record that was judged again."""


def terms_of(selection: TermOptions, sku: Sku | None, record: Run) -> Terms:
    """Return the terms to judge a record by; level and platform are those of its run unless others are wanted.

    Raises Refused.
    """
    platform = str(record.info.get("platform"))
    default = platform if sku and sku.platform_named(platform) else AUTO
    return selection.terms_for(sku, record.devices, level=record.info.get("level"), platform=default)


def judge_again(record: Run, terms: Terms, boards: PackingList | None = None) -> Run:
    """Return the record with the verdicts and the closing line that follow from `terms`.

    The packing list is `boards`, or that of the run, if it had one.
    """
    if boards:
        record = _compared_with(boards, record)
    entry = record.packing_list
    packing_list = (entry.get("sha256", ""), entry.get("names_nodes", False)) if entry else None
    has_diagnostic = any(measurement.metric == diagnostics.METRIC for measurement in record.measurements)
    terms = replace(terms, devices=tuple(record.devices), packing_list=packing_list, has_diagnostic=has_diagnostic)
    judge = _Rejudgement(record, terms, terms.required)
    verdicts = [verdict for key in _keys(record) for verdict in judge.verdicts(key)]
    circumstances = _circumstances(record, terms)
    metrics = {measurement.metric for measurement in record.measurements}
    sensitivity = of_run(replace(record, verdicts=verdicts), terms.spread_of)
    closing = replace(close(verdicts, circumstances), sensitivity=sensitivity)
    judged_again = replace(
        record,
        verdicts=verdicts,
        circumstances=circumstances,
        waivers={**record.waivers, "used": used(verdicts)} if record.waivers else {},
        closing=replace(closing, line=f"{AGAIN} {closing.line}"),
        sku=sku_entry(terms.sku, record.sku.get("asked"), metrics) if terms.sku else {},
        info={**record.info, "level": terms.level, "platform": terms.platform.name},
    )
    return replace(judged_again, findings=finding_entries(judged_again))


def _compared_with(boards: PackingList, record: Run) -> Run:
    """Return the record with its devices compared with a packing list; it holds nothing of another list any more."""
    metrics = packing.METRICS if boards.by_node else (packing.SERIAL,)
    left_out = {*packing.METRICS} - {*metrics}
    time = next((reading.ended for reading in record.measurements if reading.metric.startswith("inventory.")), 0.0)
    host = str(record.info.get("host", ""))
    figures = [figure for metric in metrics for figure in packing.facts(metric, boards, record.devices, host, time)]
    others = [reading for reading in record.measurements if reading.metric not in packing.METRICS]
    return replace(
        record,
        measurements=[*others, *(replace(reading, simulated=record.simulated) for reading in figures)],
        verdicts=[verdict for verdict in record.verdicts if verdict.metric not in left_out],
        packing_list=packing_entry(boards),
    )


def other_conditions(measurement: Measurement, sku: Sku | None) -> str | None:
    """Return the reason why the SKU's limits do not apply to a measurement of another shape or size, or None."""
    declaration = declaration_of(measurement.metric)
    if declaration is None or sku is None or measurement.trouble:
        return None
    packaged, _ = conditions_of(declaration.function, dict(sku.probes.get(declaration.name, {})), {})
    name, sizes = measurement.metric, declaration.stated_by(measurement.metric)
    for key, default in packaged.items():
        actual = measurement.conditions.get(key, default)
        of_some = isinstance(default, Mapping) and isinstance(actual, Mapping)  # shapes by dtype: compared where found
        expected = {part: default.get(part) for part in actual} if of_some else default
        in_name = "{" + key + "}" in declaration.metric
        if in_name and key in measurement.conditions and sizes.get(key) != str(actual):
            return f"measured with {key}={actual}, but the metric is {name}"
        if actual != expected and expected is not None and not in_name and not isinstance(expected, bool):
            return f"measured with {key}={actual}, but the limits of {sku.name} are for {key}={expected}"
    return None


class _Rejudgement:
    """A record, and the limits that its measurements are judged by again."""

    def __init__(self, record: Run, terms: Terms, limits: Mapping[str, Limit]) -> None:
        self.record, self.terms, self.limits = record, terms, limits
        self.before = grouped(record.verdicts, lambda verdict: (verdict.metric, verdict.subject))
        past_of, explain = stored_pasts(record.baseline), explaining(record.devices)
        self.attempts = RunAttempts.of_run(record, terms.spread_of, past_of, explain)
        for fact in facts("inventory.sku", Discovery(tuple(record.devices)), terms.sku):  # by today's threshold file
            attempts = self.attempts.by_key.get((fact.metric, fact.subject), [])
            attempts[:] = [replace(attempt, value=fact.value) for attempt in attempts]

    def verdicts(self, key: MetricKey) -> list[Verdict]:
        """Return the verdicts on a metric of a subject: one for each limit on it, or one without a limit."""
        old = self.before.get(key, [])
        if not old and key[0].startswith("host.") and key[0] not in self.limits:
            return []  # in the record for the reader alone
        markers = [verdict for verdict in old if _by_marker(verdict)]
        of_a_test = "=" in parse(key[0]).size  # under conditions of its own, to which the SKU's limits do not apply
        limit = None if of_a_test else self.limits.get(key[0])  # also where the record has markers alone
        pairs: list[tuple[Limit | None, Verdict | None]] = [(verdict.limit, verdict) for verdict in markers]
        if limit or not markers:
            pairs.append((limit, next((verdict for verdict in old if not _by_marker(verdict)), None)))
        return [_waived(self._verdict(key, limit, verdict), verdict) for limit, verdict in pairs]

    def _verdict(self, key: MetricKey, limit: Limit | None, old: Verdict | None) -> Verdict:
        terms, attempts = self.terms, basis_of(self.attempts.by_key.get(key, []), old)
        declaration = declaration_of(key[0])
        fact = declaration is not None and declaration.fact
        skip = skip_verdict(*key, terms.sku, terms.platform, self.record.devices, fact=fact)
        if skip:
            return replace(skip, limit=limit)
        if not attempts:
            return self._not_measured(key, limit, old)
        of_file = limit is not None and limit.declared_by is not DeclaredBy.MARKER
        if of_file and (reason := other_conditions(attempts[-1], terms.sku)):
            return _unmeasured(key, limit, Note("other_conditions", reason))
        return self.attempts.verdict(key, limit, [self._peaked(attempt) for attempt in attempts])

    def _not_measured(self, key: MetricKey, limit: Limit | None, old: Verdict | None) -> Verdict:
        """Return the old verdict on something that was not measured, or UNMEASURED if a limit requires it now."""
        required = limit is not None and limit.required
        if old is not None and (not required or old.status is Status.UNMEASURED):
            return replace(old, limit=limit)
        return _unmeasured(key, limit, Note("not_in_record"))

    def _peaked(self, measurement: Measurement) -> Measurement:
        """Return the measurement with the peak of today's datasheet; one that was measured or read with it stays."""
        from_run = measurement.peak and (measurement.peak.samples or measurement.metric in SOAK_METRICS)
        if self.terms.sku is None or from_run:
            return measurement
        peak = peaks.peak(self.terms.sku, measurement.metric, self.terms.platform)
        return replace(measurement, peak=Peak(*peak) if peak else None)


def _keys(record: Run) -> list[MetricKey]:
    """Return the keys of everything that was judged or measured, in the order of the record."""
    entries: Sequence[Verdict | Measurement] = [*record.verdicts, *record.measurements]
    return list(dict.fromkeys((entry.metric, entry.subject) for entry in entries))


def _waived(verdict: Verdict, old: Verdict | None) -> Verdict:
    """Return the verdict with the waiver that covered the old one, if it covers this one too."""
    return replace(verdict, waiver=old.waiver) if old and old.waiver and waivable(verdict) else verdict


def _unmeasured(key: MetricKey, limit: Limit | None, note: Note) -> Verdict:
    """Return a verdict UNMEASURED for the reason `note`."""
    return Verdict(*key, Status.UNMEASURED, (note,), limit=limit)


def _by_marker(verdict: Verdict) -> bool:
    return verdict.limit is not None and verdict.limit.declared_by is DeclaredBy.MARKER


def _circumstances(record: Run, terms: Terms) -> Circumstances:
    """Return the circumstances of the run, changed by the terms. Whatever ruled out acceptance then still does."""
    before = record.circumstances or Circumstances()
    of_run = replace(
        before,
        names=names_of(record),
        against=list(dict.fromkeys(_against(record, terms))),
        simulated=before.simulated or record.simulated,
        interrupted=before.interrupted or (None if record.finished else "the run did not end"),
    )
    after = terms.circumstances(record.software, of_run)
    own_file = after.own_file
    if before.own_file not in (None, own_file):
        own_file = f"{own_file or 'the shipped file'}, measured by {before.own_file}"
    metrics = {limit.metric for limit in terms.limits.values() if limit.overridden}
    metrics |= {verdict.metric for verdict in record.verdicts if verdict.limit and verdict.limit.overridden}
    datasheet, not_judged = list(dict.fromkeys([*before.other_datasheet, *after.other_datasheet])), before.not_judged
    return replace(after, overridden=len(metrics), other_datasheet=datasheet, own_file=own_file, not_judged=not_judged)


def _against(record: Run, terms: Terms) -> Iterator[Objection]:
    """Yield what stood against an acceptance then, and that level or platform differ, which decided what was measured.

    Whoever names the SKU of an accelerator asks for an acceptance.
    """
    is_acceptance = terms.sku_named and terms.accelerator
    kinds: dict[ObjectionKind, ObjectionKind] = {"unasked": "run", "tests": "filter"} if is_acceptance else {}
    for reason in record.circumstances.against if record.circumstances else ():
        if reason.kind not in ("file", "floors"):
            yield Objection(kinds.get(reason.kind, reason.kind), reason.text)
    for key, value in (("level", terms.level), ("platform", terms.platform.name)):
        if record.info.get(key) != value:
            yield Objection("run", f"{key} {value} instead of the run's {record.info.get(key)}")
    if record.circumstances is None:
        yield Objection("run" if is_acceptance else "unasked", "the record does not say how it was made")
