"""The parts of the closing line: the devices that fail and why, what was not judged, what qualifies an acceptance.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from operator import attrgetter

from pytest_accel.core.floor import MARGINAL_WITHIN
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Names, finite
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.sentences import decider, headline, limit_of, words
from pytest_accel.core.sku_types import Basis
from pytest_accel.core.verdict import Status, Verdict, Waiver, margin_of, show
from pytest_accel.core.words import and_more, counted, listed
from pytest_accel.probes.declare import REQUIRED
from pytest_accel.skus.readiness import CALLED, READ, Backing, is_plain, required_part

LONG = timedelta(days=366)
"""The closing line says of a waiver that it holds for longer than this after the run."""
SHORT = (Status.INCONCLUSIVE, Status.MARGINAL)
"""The statuses of a shortfall that does not reject."""
TOLD = (Basis.OWN, Basis.AGREED, Basis.CLASS)
"""The bases that an acceptance names."""


def by_subject(verdicts: Iterable[Verdict], names: Names) -> dict[str, list[Verdict]]:
    """Return the verdicts of each subject, worst first; the subjects are in the order of `names`.

    A failure of the node counts for the device that it is attributed to.
    """
    groups = grouped(worst_first(list(verdicts)), lambda verdict: verdict.culprit)
    order = {subject: index for index, subject in enumerate(names)}
    return dict(sorted(groups.items(), key=lambda item: order.get(item[0], len(order))))


def rejected(failures: Sequence[Verdict], shortfalls: Sequence[Verdict], names: Names, expected_devices: int) -> str:
    """Return every subject that fails, with the headline of its worst verdict.

    The `shortfalls` on devices that nothing rejects follow in the same form.
    """
    groups = by_subject(failures, names)
    short_part = f"; short, but not rejected: {_worst_of_each(shortfalls, names)}" if shortfalls else ""
    if len(groups) == 1:
        ((subject, (worst, *_)),) = groups.items()
        return f"REJECTED {names[subject]}: {failure_text(worst)}{and_more(failures)}{short_part}"
    devices = len(set(groups) - {NODE})
    total = max(expected_devices, len(set(names) - {NODE}), devices)
    return f"REJECTED {devices}/{total}: {_worst_of_each(failures, names)}{and_more(failures, len(groups))}{short_part}"


def _worst_of_each(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return every subject with its worst verdict; devices that broke one bound share a part, with their values."""
    groups = grouped(
        worst_by_subject(verdicts, names),
        lambda verdict: (verdict.metric, limit_of(verdict)) if _broke(verdict) else failure_text(verdict),
    )
    parts = ((as_ranges([names[verdict.culprit] for verdict in group]), _of_all(group)) for group in groups.values())
    return "; ".join(map(" ".join, parts))


def _broke(verdict: Verdict) -> bool:
    """Return True if a value beyond a bound failed a verdict, and nothing else."""
    beyond = verdict.status is Status.FAIL and verdict.margin is not None and verdict.margin < 0
    return beyond and not (verdict.device_failed or verdict.failing_comparison)


def _of_all(group: Sequence[Verdict]) -> str:
    """Return a failure of several devices: "stream.triad 2510 to 2604 GB/s, floor 2762 GB/s"."""
    first, values = group[0], [value for verdict in group if (value := finite(verdict.value)) is not None]
    if not _broke(first) or not values or min(values) == max(values):
        return failure_text(first)
    return f"{first.metric} {show(min(values), '')} to {show(max(values), first.unit)}, {limit_of(first)}"


def unrejected_shortfalls(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the shortfalls on devices that nothing rejects, if others are rejected."""
    culprits = {verdict.culprit for verdict in verdicts if verdict.rejects}
    spared = [verdict for verdict in verdicts if culprits and verdict.culprit not in {*culprits, NODE}]
    shortfalls = [verdict for verdict in spared if verdict.behind or (verdict.margin or 0.0) < 0]
    return [verdict for verdict in shortfalls if verdict.status in SHORT and verdict.waiver is None]


def failure_text(verdict: Verdict) -> str:
    """Return a failure with its headline: "stream.triad 2597 GB/s, floor 2762 GB/s (-6.0%)"."""
    return f"{verdict.metric} {headline(verdict) or verdict.status.value}"


def worst_by_subject(verdicts: Sequence[Verdict], names: Names) -> tuple[Verdict, ...]:
    """Return the worst verdict of every subject: those that the closing line names, which are worth repeating."""
    return tuple(group[0] for group in by_subject(verdicts, names).values())


def undecided(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return the verdicts that were not judged, and why: the worst of every subject, those with one cause together."""
    causes = grouped(worst_first(verdicts), lambda verdict: (verdict.status, headline(verdict), verdict.metric))
    mentioned: set[str] = set()
    parts, count = [], 0
    for (status, reason, metric), group in causes.items():
        subjects = by_subject(group, names)
        if subjects.keys() <= mentioned:
            continue
        mentioned |= subjects.keys()
        parts.append(f"{as_ranges([names[subject] for subject in subjects])} {metric}: {status.value}, {reason}")
        count += len(subjects)
    return "; ".join(parts) + and_more(verdicts, count)


def missing(keys: Iterable[tuple[str, str]], names: Names) -> str:
    """Return the (metric, subject) that have no verdict, by subject; subjects that lack the same are together."""
    by_name = grouped(keys, lambda key: names[key[1]])
    metrics_by_name = {name: tuple(metric for metric, _ in keys_of_name) for name, keys_of_name in by_name.items()}
    names_by_metrics = grouped(metrics_by_name, metrics_by_name.__getitem__)
    return "; ".join(f"{as_ranges(members)} {listed(metrics)}" for metrics, members in names_by_metrics.items())


# -- beside an acceptance


def marginal(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return the number of marginal verdicts and the worst of them; empty if there is none."""
    marginals = [verdict for verdict in verdicts if verdict.status is Status.MARGINAL]
    if not marginals:
        return ""
    worst = worst_first(marginals)[0]
    label = ", worst" if len(marginals) > 1 else ":"
    return f"{len(marginals)} marginal{label} {names[worst.culprit]} {worst.metric}{_why_marginal(worst)}"


def _why_marginal(verdict: Verdict) -> str:
    """Return the reason for a MARGINAL: the warning limit, a small margin, or the reason that its sentence adds."""
    if verdict.past_warning:
        note = f" ({margin})" if (margin := margin_of(verdict)) else ""
        return f" {show(verdict.value, verdict.unit)}, warn {show(verdict.past_warning[0], '')}{note}"
    reason, is_close = decider(verdict), verdict.margin is not None and verdict.margin < MARGINAL_WITHIN
    if reason and reason is not verdict.reasons[0] and not is_close:
        return f", {words(reason, verdict)}"
    return f" {margin_of(verdict)}".rstrip()


def backings_by_part(deciding: Sequence[Verdict]) -> dict[str, Backing]:
    """Return the evidence behind the floors that judged, by part in the order of `REQUIRED`.

    Of each device the strongest limit counts, and of the devices the one with the weakest.
    """
    by_part: dict[str, dict[str, Backing]] = {}
    for verdict in deciding:
        part = "" if is_plain(verdict.metric) else required_part(verdict.metric)
        if verdict.limit and verdict.basis and part not in ("", *READ):
            backing = Backing(verdict.metric, verdict.basis, verdict.limit.class_floor)
            devices = by_part.setdefault(part, {})
            devices[verdict.subject] = min(backing, devices.get(verdict.subject, backing), key=attrgetter("rank"))
    return {part: max(by_part[part].values(), key=attrgetter("rank")) for part in REQUIRED if part in by_part}


def bases(backings: Mapping[str, Backing], deciding: Sequence[Verdict]) -> str:
    """Return the evidence behind the floors that judged in words: "matmul by 1 publisher, memory by 3"."""
    # figures that others published and measured by our method go without saying
    shown_backings = [(CALLED.get(part, part), backing) for part, backing in backings.items() if backing.basis in TOLD]
    groups = grouped((pair for pair in shown_backings if not pair[1].publishers), lambda pair: pair[1].words)
    phrases = [
        f"{', '.join(part for part, _ in pairs)} by {words}{_few(deciding) if pairs[0][1].basis is Basis.OWN else ''}"
        for words, pairs in groups.items()
    ]
    counts = [f"{part} by {backing.words}" for part, backing in shown_backings if backing.publishers]
    counts = counts[:1] + [text.partition(" publisher")[0] for text in counts[1:]]  # the first says what they count
    return "; ".join(filter(None, [*phrases, ", ".join(counts)]))


def _few(deciding: Sequence[Verdict]) -> str:
    """Return the day of the figures of own floors, and their smallest number of nodes: " of 2026-11-24, 1 node"."""
    own_verdicts = [verdict for verdict in deciding if verdict.basis is Basis.OWN]
    limits = [verdict.limit for verdict in own_verdicts if required_part(verdict.metric) not in READ]
    sources = [limit.source for limit in limits if limit and limit.source]
    nodes = min((source.nodes for source in sources if source.nodes), default=0)
    return f" of {max(source.date for source in sources)}" + (f", {counted(nodes, 'node')}" if nodes else "")


def waivers(verdicts: Sequence[Verdict], names: Names, day: str) -> str:
    """Return the waivers that were used in words: the limits that they waive, by whom, until when, and their reach.

    `day` is the date of the run in ISO format; empty if it is not known. The result is empty if there is none.
    """
    used = [verdict for verdict in worst_first(verdicts) if verdict.waiver]
    waived: dict[Waiver, list[Verdict]] = grouped(used, attrgetter("waiver"))
    terms = grouped(waived, lambda waiver: f"by {waiver.by} {', '.join(_reach(waiver, waived[waiver], day))}")
    text = "; ".join(
        f"{', '.join(_broken(waived[waiver][0], names) for waiver in group)} {by}" for by, group in terms.items()
    )
    return f"{counted(len(waived), 'waiver')}: {text}" if waived else ""


def _broken(verdict: Verdict, names: Names) -> str:
    """Return the worst verdict of a waiver: "gpu2 stream.triad -30.1%"; a limit of the node without the word node."""
    subject = "" if verdict.culprit == NODE else f"{names[verdict.culprit]} "
    return f"{subject}{verdict.metric} {margin_of(verdict)}".rstrip()


def _reach(waiver: Waiver, group: Sequence[Verdict], day: str) -> list[str]:
    """Return the reach of a waiver in words: its last day, and a remark if it is far away or all devices are meant."""
    run = _date(day)
    is_long = run is not None and waiver.until - run > LONG
    everywhere = not waiver.devices and any(verdict.subject != NODE for verdict in group)
    return [f"until {waiver.until}", *["more than a year ahead"] * is_long, *["for all devices"] * everywhere]


def _date(day: str) -> date | None:
    """Return a text as a date; None for one that is none, as in a record that was written by other means."""
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


# -- words


def as_ranges(names: Sequence[str]) -> str:
    """Return names as a list, with three or more that follow each other as a range: "gpu0, gpu2 to gpu7"."""
    runs: list[list[str]] = []
    for name in names:
        if runs and name == _next(runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _next(name: str) -> str | None:
    """Return the name of the device after one: "gpu4" for "gpu3"; None for a name without a number."""
    stem = name.rstrip("0123456789")
    return f"{stem}{int(name[len(stem) :]) + 1}" if stem != name else None
