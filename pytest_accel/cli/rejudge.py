"""Judges a saved record again, by today's limits or those of another file. Pure.

Only the limits, and the verdicts that they require, are exchanged. The measurements and the circumstances of the run
stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.metrics import parse
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Against, AgainstKind, Circumstances, Run
from pytest_accel.core.sku import DeclaredBy, Limit, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.causes.diagnosis import explaining
from pytest_accel.judging.closing.anew import of_then
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.facts import delivery, diagnostics
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.facts.preconditions import skip_verdict
from pytest_accel.judging.facts.telemetry import SOAK_METRICS
from pytest_accel.judging.verdicts.attempts import Place, RunAttempts
from pytest_accel.judging.verdicts.history import kept_in
from pytest_accel.judging.verdicts.smallest_losses import of_run
from pytest_accel.probes.declare import conditions_of, declaration_of
from pytest_accel.run.options import AUTO
from pytest_accel.run.record import finding_entries, names_of, packing_entry, sku_entry
from pytest_accel.run.terms import Terms, Wanted
from pytest_accel.skus import peaks
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.waivers import used, waivable

AGAIN = "JUDGED AGAIN"
"""The first words of the closing line of a record that was judged again."""


def terms_of(wanted: Wanted, sku: Sku | None, record: Run) -> Terms:
    """Return the terms to judge a record by; level and platform are those of its run unless others are wanted.

    Raises Refused.
    """
    platform = str(record.info.get("platform"))
    usual = platform if sku and sku.platform_named(platform) else AUTO
    return wanted.settled(sku, record.devices, level=record.info.get("level"), platform=usual)


def judge_again(record: Run, terms: Terms, boards: PackingList | None = None) -> Run:
    """Return the record with the verdicts and the closing line that follow from `terms`.

    The packing list is `boards`, or that of the run, if it had one.
    """
    if boards:
        record = _compared_with(boards, record)
    listed = record.packing_list
    names_nodes = (listed.get("sha256", ""), listed.get("names_nodes", False)) if listed else None
    diagnosed = any(measurement.metric == diagnostics.METRIC for measurement in record.measurements)
    terms = replace(terms, devices=tuple(record.devices), listed=names_nodes, diagnosed=diagnosed)
    judged = _Again(record, terms, terms.required)
    verdicts = [verdict for place in _places(record) for verdict in judged.verdicts(place)]
    around = _circumstances(record, terms)
    measured = {each.metric for each in record.measurements}
    sensitivity = of_run(replace(record, verdicts=verdicts), terms.spread_of)
    closing = replace(close(verdicts, around), sensitivity=sensitivity)
    judged_again = replace(
        record,
        verdicts=verdicts,
        circumstances=around,
        waivers={**record.waivers, "used": used(verdicts)} if record.waivers else {},
        closing=replace(closing, line=f"{AGAIN} {closing.line}"),
        sku=sku_entry(terms.sku, record.sku.get("asked"), measured) if terms.sku else {},
        info={**record.info, "level": terms.level, "platform": terms.platform.name},
    )
    return replace(judged_again, findings=finding_entries(judged_again))


def _compared_with(boards: PackingList, record: Run) -> Run:
    """Return the record with its devices compared with a packing list; it holds nothing of another list any more."""
    metrics = delivery.METRICS if boards.by_node else (delivery.SERIAL,)
    when = next((each.ended for each in record.measurements if each.metric.startswith("inventory.")), 0.0)
    host = str(record.info.get("host", ""))
    found = [each for metric in metrics for each in delivery.measured(metric, boards, record.devices, host, when)]
    other = [each for each in record.measurements if each.metric not in delivery.METRICS]
    return replace(
        record,
        measurements=[*other, *(replace(each, simulated=record.simulated) for each in found)],
        verdicts=[each for each in record.verdicts if each.metric in metrics or each.metric not in delivery.METRICS],
        packing_list=packing_entry(boards),
    )


def other_conditions(measurement: Measurement, sku: Sku | None) -> str | None:
    """Return why the SKU's limits do not apply to a measurement of another shape or size; None if they apply."""
    declared = declaration_of(measurement.metric)
    if declared is None or sku is None or measurement.trouble:
        return None
    packaged, _ = conditions_of(declared.function, dict(sku.probes.get(declared.name, {})), {})
    name, stated = measurement.metric, declared.stated_by(measurement.metric)
    for key, whole in packaged.items():
        found = measurement.conditions.get(key, whole)
        of_some = isinstance(whole, Mapping) and isinstance(found, Mapping)  # shapes by dtype: compared where found
        wanted = {each: whole.get(each) for each in found} if of_some else whole
        named = "{" + key + "}" in declared.metric
        if named and key in measurement.conditions and stated.get(key) != str(found):
            return f"measured with {key}={found}, but the metric is {name}"
        if found != wanted and wanted is not None and not named and not isinstance(wanted, bool):
            return f"measured with {key}={found}, but the limits of {sku.name} are for {key}={wanted}"
    return None


class _Again:
    """A record, and the limits that its measurements are judged by again."""

    def __init__(self, record: Run, terms: Terms, limits: Mapping[str, Limit]) -> None:
        self.record, self.terms, self.limits = record, terms, limits
        self.before = grouped(record.verdicts, lambda verdict: (verdict.metric, verdict.subject))
        past_of, explain = kept_in(record.baseline), explaining(record.devices)
        self.attempts = RunAttempts.of_run(record, terms.spread_of, past_of, explain)
        for fact in facts("inventory.sku", Discovery(tuple(record.devices)), terms.sku):  # by today's threshold file
            old = self.attempts.measured.get((fact.metric, fact.subject), [])
            old[:] = [replace(each, value=fact.value) for each in old]

    def verdicts(self, place: Place) -> list[Verdict]:
        """Return the verdicts on a metric of a subject: one for each limit on it, or one without a limit."""
        old = self.before.get(place, [])
        if not old and place[0].startswith("host.") and place[0] not in self.limits:
            return []  # in the record for the reader alone
        markers = [each for each in old if _by_marker(each)]
        of_a_test = "=" in parse(place[0]).size  # under conditions of its own, to which the SKU's limits do not apply
        own = None if of_a_test else self.limits.get(place[0])  # also where the record has markers alone
        pairs: list[tuple[Limit | None, Verdict | None]] = [(each.limit, each) for each in markers]
        if own or not markers:
            pairs.append((own, next((each for each in old if not _by_marker(each)), None)))
        return [_waived(self._verdict(place, limit, then), then) for limit, then in pairs]

    def _verdict(self, place: Place, limit: Limit | None, old: Verdict | None) -> Verdict:
        terms, attempts = self.terms, of_then(self.attempts.measured.get(place, []), old)
        declared = declaration_of(place[0])
        fact = declared is not None and declared.fact
        why = skip_verdict(*place, terms.sku, terms.platform, self.record.devices, fact=fact)
        if why:
            return replace(why, limit=limit)
        if not attempts:
            return self._not_measured(place, limit, old)
        of_file = limit is not None and limit.declared_by is not DeclaredBy.MARKER
        if of_file and (other := other_conditions(attempts[-1], terms.sku)):
            return _unmeasured(place, limit, Note("other_conditions", other))
        return self.attempts.verdict(place, limit, [self._peaked(attempt) for attempt in attempts])

    def _not_measured(self, place: Place, limit: Limit | None, old: Verdict | None) -> Verdict:
        """Return the old verdict on something that was not measured, or UNMEASURED if a limit requires it now."""
        required = limit is not None and limit.required
        if old is not None and (not required or old.status is Status.UNMEASURED):
            return replace(old, limit=limit)
        return _unmeasured(place, limit, Note("not_in_record"))

    def _peaked(self, measurement: Measurement) -> Measurement:
        """Return the measurement with the peak of today's datasheet; one that was measured or read with it stays."""
        beside = measurement.peak and (measurement.peak.samples or measurement.metric in SOAK_METRICS)
        if self.terms.sku is None or beside:
            return measurement
        peak = peaks.peak(self.terms.sku, measurement.metric, self.terms.platform)
        return replace(measurement, peak=Peak(*peak) if peak else None)


def _places(record: Run) -> list[Place]:
    """Return everything that was judged or measured, in the order of the record."""
    both: Sequence[Verdict | Measurement] = [*record.verdicts, *record.measurements]
    return list(dict.fromkeys((each.metric, each.subject) for each in both))


def _waived(verdict: Verdict, old: Verdict | None) -> Verdict:
    """Return the verdict with the waiver that covered the old one, if it covers this one too."""
    return replace(verdict, waiver=old.waiver) if old and old.waiver and waivable(verdict) else verdict


def _unmeasured(place: Place, limit: Limit | None, why: Note) -> Verdict:
    """Return a verdict UNMEASURED for the reason `why`."""
    return Verdict(*place, Status.UNMEASURED, (why,), limit=limit)


def _by_marker(verdict: Verdict) -> bool:
    return verdict.limit is not None and verdict.limit.declared_by is DeclaredBy.MARKER


def _circumstances(record: Run, terms: Terms) -> Circumstances:
    """Return the circumstances of the run, changed by the terms. Whatever ruled out acceptance then still does."""
    then = record.circumstances or Circumstances()
    of_run = replace(
        then,
        names=names_of(record),
        against=list(dict.fromkeys(_against(record, terms))),
        simulated=then.simulated or record.simulated,
        interrupted=then.interrupted or (None if record.finished else "the run did not end"),
    )
    now = terms.circumstances(record.software, of_run)
    own_file = now.own_file
    if then.own_file not in (None, own_file):
        own_file = f"{own_file or 'the shipped file'}, measured by {then.own_file}"
    overridden = {each.metric for each in terms.limits.values() if each.overridden}
    overridden |= {each.metric for each in record.verdicts if each.limit and each.limit.overridden}
    datasheet, kept = list(dict.fromkeys([*then.other_datasheet, *now.other_datasheet])), then.not_judged
    return replace(now, overridden=len(overridden), other_datasheet=datasheet, own_file=own_file, not_judged=kept)


def _against(record: Run, terms: Terms) -> Iterator[Against]:
    """Yield what stood against an acceptance then, and that level or platform differ, which decided what was measured.

    Whoever names the SKU of an accelerator asks for an acceptance.
    """
    asked = terms.named and terms.accelerator
    kinds: dict[AgainstKind, AgainstKind] = {"unasked": "run", "tests": "filter"} if asked else {}
    for reason in record.circumstances.against if record.circumstances else ():
        if reason.kind not in ("file", "floors"):
            yield Against(kinds.get(reason.kind, reason.kind), reason.text)
    for key, now in (("level", terms.level), ("platform", terms.platform.name)):
        if record.info.get(key) != now:
            yield Against("run", f"{key} {now} instead of the run's {record.info.get(key)}")
    if record.circumstances is None:
        yield Against("run" if asked else "unasked", "the record does not say how it was made")
