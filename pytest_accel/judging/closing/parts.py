"""The parts of the closing line: the devices that fail and why, what was not judged, what qualifies an acceptance.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

from pytest_accel.core.floor import MARGINAL_WITHIN
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Names, finite
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.sentences import decider, headline, limit_of, words
from pytest_accel.core.sku import Basis
from pytest_accel.core.verdict import Status, Verdict, Waiver, margin_of, show
from pytest_accel.core.words import counted, listed, more
from pytest_accel.probes.declare import REQUIRED
from pytest_accel.skus.readiness import CALLED, READ, Backing, is_plain, required_part

LONG = timedelta(days=366)
"""A waiver that holds for longer after the run is said to."""
SHORT = (Status.INCONCLUSIVE, Status.MARGINAL)
"""The statuses of a shortfall that does not reject."""
TOLD = (Basis.OWN, Basis.AGREED, Basis.CLASS)
"""Those that an acceptance names."""


def by_subject(verdicts: Iterable[Verdict], names: Names) -> dict[str, list[Verdict]]:
    """Return the verdicts of each subject, worst first; the subjects are in the order of `names`.

    A failure of the node counts for the device that it is attributed to.
    """
    groups = grouped(worst_first(list(verdicts)), lambda each: each.culprit)
    order = {subject: place for place, subject in enumerate(names)}
    return dict(sorted(groups.items(), key=lambda item: order.get(item[0], len(order))))


def rejected(failed: Sequence[Verdict], beside: Sequence[Verdict], names: Names, expected_devices: int) -> str:
    """Return every subject that fails, with the headline of its worst verdict.

    The devices that are short `beside` them follow in the same form.
    """
    groups = by_subject(failed, names)
    short = f"; short, but not rejected: {_worst_of_each(beside, names)}" if beside else ""
    if len(groups) == 1:
        ((subject, (worst, *_)),) = groups.items()
        return f"REJECTED {names[subject]}: {in_short(worst)}{more(failed)}{short}"
    devices = len(set(groups) - {NODE})
    total = max(expected_devices, len(set(names) - {NODE}), devices)
    return f"REJECTED {devices}/{total}: {_worst_of_each(failed, names)}{more(failed, len(groups))}{short}"


def _worst_of_each(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return every subject with its worst verdict; devices that broke one bound share a part, with their values."""
    worst = [own[0] for own in by_subject(verdicts, names).values()]
    alike = grouped(
        worst, lambda verdict: (verdict.metric, limit_of(verdict)) if _broke(verdict) else in_short(verdict)
    )
    return "; ".join(f"{spanned([names[each.culprit] for each in group])} {_of_all(group)}" for group in alike.values())


def _broke(verdict: Verdict) -> bool:
    """Return True if a value beyond a bound failed a verdict, and nothing else."""
    beyond = verdict.status is Status.FAIL and verdict.margin is not None and verdict.margin < 0
    return beyond and not (verdict.device_failed or verdict.failed_by)


def _of_all(group: Sequence[Verdict]) -> str:
    """Return a failure of several devices: "stream.triad 2510 to 2604 GB/s, floor 2762 GB/s"."""
    first, values = group[0], [value for verdict in group if (value := finite(verdict.value)) is not None]
    if not _broke(first) or not values or min(values) == max(values):
        return in_short(first)
    return f"{first.metric} {show(min(values), '')} to {show(max(values), first.unit)}, {limit_of(first)}"


def short_beside(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return what falls short on devices that nothing rejects, beside others that are rejected."""
    guilty = {each.culprit for each in verdicts if each.rejects}
    short = [each for each in verdicts if each.status in SHORT and each.waiver is None]
    short = [each for each in short if each.behind or (each.margin is not None and each.margin < 0)]
    return [each for each in short if each.culprit not in {*guilty, NODE}] if guilty else []


def in_short(verdict: Verdict) -> str:
    """Return a failure with its headline: "stream.triad 2597 GB/s, floor 2762 GB/s (-6.0%)"."""
    return f"{verdict.metric} {headline(verdict) or verdict.status.value}"


def named(verdicts: Sequence[Verdict], names: Names) -> tuple[Verdict, ...]:
    """Return the worst verdict of every subject: those that the closing line names, which are worth repeating."""
    return tuple(own[0] for own in by_subject(verdicts, names).values())


def undecided(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return what was not judged and why: the worst of every subject, those with one cause together."""
    causes = grouped(worst_first(verdicts), lambda verdict: (verdict.status, headline(verdict), verdict.metric))
    seen: set[str] = set()
    parts, told = [], 0
    for (status, reason, metric), group in causes.items():
        subjects = by_subject(group, names)
        if subjects.keys() <= seen:
            continue
        seen |= subjects.keys()
        parts.append(f"{spanned([names[each] for each in subjects])} {metric}: {status.value}, {reason}")
        told += len(subjects)
    return "; ".join(parts) + more(verdicts, told)


def missing(places: Iterable[tuple[str, str]], names: Names) -> str:
    """Return the (metric, subject) that have no verdict, by subject; subjects that lack the same are together."""
    by_name = grouped(places, lambda place: names[place[1]])
    lacking = {name: tuple(metric for metric, _ in own) for name, own in by_name.items()}
    alike = grouped(lacking, lacking.__getitem__)
    return "; ".join(f"{spanned(members)} {listed(metrics)}" for metrics, members in alike.items())


# -- beside an acceptance


def marginal(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return the number of marginal verdicts and the worst of them; empty if there is none."""
    found = [each for each in verdicts if each.status is Status.MARGINAL]
    if not found:
        return ""
    worst = worst_first(found)[0]
    which = ", worst" if len(found) > 1 else ":"
    return f"{len(found)} marginal{which} {names[worst.culprit]} {worst.metric}{_why_marginal(worst)}"


def _why_marginal(verdict: Verdict) -> str:
    """Return what makes a verdict MARGINAL: the warning limit, a small margin, or the reason that its sentence adds."""
    if verdict.warned:
        short = f" ({margin})" if (margin := margin_of(verdict)) else ""
        return f" {show(verdict.value, verdict.unit)}, warn {show(verdict.warned[0], '')}{short}"
    reason, near = decider(verdict), verdict.margin is not None and verdict.margin < MARGINAL_WITHIN
    if reason and reason is not verdict.reasons[0] and not near:
        return f", {words(reason, verdict)}"
    return f" {margin_of(verdict)}".rstrip()


def backed(deciding: Sequence[Verdict]) -> dict[str, Backing]:
    """Return the evidence behind the floors that judged, by part in the order of `REQUIRED`.

    Of each device the strongest limit counts, and of the devices the one with the weakest.
    """
    best: dict[str, dict[str, Backing]] = {}
    for verdict in deciding:
        part = "" if is_plain(verdict.metric) else required_part(verdict.metric)
        if verdict.limit and verdict.basis and part not in ("", *READ):
            found = Backing(verdict.metric, verdict.basis, verdict.limit.class_floor)
            devices = best.setdefault(part, {})
            devices[verdict.subject] = min(found, devices.get(verdict.subject, found), key=lambda each: each.rank)
    return {part: max(best[part].values(), key=lambda each: each.rank) for part in REQUIRED if part in best}


def bases(found: Mapping[str, Backing], deciding: Sequence[Verdict]) -> str:
    """Return the evidence behind the floors that judged in words: "matmul by 1 publisher, memory by 3".

    Figures that others published and measured by our method go without saying.
    """
    told = {CALLED.get(part, part): each for part, each in found.items() if each.basis in TOLD}
    groups = grouped((part for part in told if not told[part].publishers), lambda part: told[part].words)
    others = [
        f"{', '.join(parts)} by {words}{_few(deciding) if told[parts[0]].basis is Basis.OWN else ''}"
        for words, parts in groups.items()
    ]
    counts = [f"{part} by {each.words}" for part, each in told.items() if each.publishers]
    counts = counts[:1] + [text.partition(" publisher")[0] for text in counts[1:]]  # the first says what they count
    return "; ".join(filter(None, [*others, ", ".join(counts)]))


def _few(deciding: Sequence[Verdict]) -> str:
    """Return when the figures of own floors were measured, and on how few nodes: " of 2026-11-24, 1 node"."""
    limits = [each.limit for each in deciding if each.basis is Basis.OWN and required_part(each.metric) not in READ]
    sources = [limit.source for limit in limits if limit and limit.source]
    nodes = min((each.nodes for each in sources if each.nodes), default=0)
    return f" of {max(each.date for each in sources)}" + (f", {counted(nodes, 'node')}" if nodes else "")


def waivers(verdicts: Sequence[Verdict], names: Names, day: str) -> str:
    """Return the waivers that were used: what they waive, by whom, until when, and how far they reach.

    `day` is the date of the run in ISO format; empty if it is not known. The result is empty if there is none.
    """
    covered = [(each.waiver, each) for each in worst_first(verdicts) if each.waiver]
    waived = grouped(covered, lambda pair: pair[0])
    reach = {waiver: ", ".join(_reach(waiver, [each for _, each in group], day)) for waiver, group in waived.items()}
    terms = grouped(waived, lambda waiver: f"by {waiver.by} {reach[waiver]}")
    text = "; ".join(
        f"{', '.join(_broken(waived[waiver][0][1], names) for waiver in some)} {by}" for by, some in terms.items()
    )
    return f"{counted(len(waived), 'waiver')}: {text}" if waived else ""


def _broken(verdict: Verdict, names: Names) -> str:
    """Return the worst verdict of a waiver: "gpu2 stream.triad -30.1%"; a limit of the node without the word node."""
    subject = "" if verdict.culprit == NODE else f"{names[verdict.culprit]} "
    return f"{subject}{verdict.metric} {margin_of(verdict)}".rstrip()


def _reach(waiver: Waiver, group: Sequence[Verdict], day: str) -> list[str]:
    """Return how far a waiver reaches: its last day, and whether that is more than one device and one year."""
    run = _date(day)
    far = run is not None and waiver.until - run > LONG
    everywhere = not waiver.devices and any(each.subject != NODE for each in group)
    return [f"until {waiver.until}", *["more than a year ahead"] * far, *["for all devices"] * everywhere]


def _date(day: str) -> date | None:
    """Return a text as a date; None for one that is none, as in a record that was written by other means."""
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


# -- words


def spanned(names: Sequence[str]) -> str:
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
