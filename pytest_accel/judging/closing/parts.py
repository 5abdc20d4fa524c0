"""The parts of the closing line: the devices that fail and why, what was not judged, what qualifies an acceptance.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

from pytest_accel.core.floor import MARGINAL_WITHIN
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import LEFT_OUT, NODE, Names
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.sentences import phrases, sentence_of
from pytest_accel.core.sku import Basis
from pytest_accel.core.verdict import Status, Verdict, Waiver, margin_of, show
from pytest_accel.core.words import counted, listed, more
from pytest_accel.probes.declare import REQUIRED
from pytest_accel.skus.readiness import CALLED, READ, Backing, is_plain, required_part

LONG = timedelta(days=366)
"""A waiver that holds for longer after the run is said to."""
SHORT = (Status.INCONCLUSIVE, Status.MARGINAL)
"""The statuses of a shortfall that does not reject."""
SHORT_SENTENCE = 40
"""Characters of the longest sentence that a list of several devices shows in full."""

TOLD = (Basis.OWN, Basis.AGREED, Basis.CLASS)
"""Those that an acceptance names."""

HAPPENED = {
    "hung": "hung in",
    "crashed": "crashed in",
    "lost": "lost its context in",
    "uncorrectable": "had an uncorrectable memory error in",
    LEFT_OUT: "not measured:",
}
"""The words for the event of a verdict, which its metric follows."""


def by_subject(verdicts: Iterable[Verdict], names: Names) -> dict[str, list[Verdict]]:
    """Return the verdicts of each subject, worst first; the subjects are in the order of `names`.

    A failure of the node counts for the device that it is attributed to.
    """
    groups = grouped(worst_first(list(verdicts)), lambda each: each.culprit)
    order = {subject: place for place, subject in enumerate(names)}
    return dict(sorted(groups.items(), key=lambda item: order.get(item[0], len(order))))


def rejected(failed: Sequence[Verdict], beside: Sequence[Verdict], names: Names, expected_devices: int) -> str:
    """Return every subject that fails, with its worst verdict and the number of its limits, and the worst in full.

    The devices that are short `beside` them follow in the same form.
    """
    groups = by_subject(failed, names)
    worst = worst_first(failed)[0]
    full = f"{worst.metric} {sentence_of(worst)}"
    short = f"; short, but not rejected: {_each(beside, names)}" if beside else ""
    if len(groups) == 1:
        return f"REJECTED {names[worst.culprit]}: {full}{more(failed)}{short}"
    devices = len(set(groups) - {NODE})
    total = max(expected_devices, len(set(names) - {NODE}), devices)
    told = "" if in_short(worst) == full else f"; worst: {names[worst.culprit]} {full}"
    return f"REJECTED {devices}/{total}: {_each(failed, names)}{short}{told}"


def _each(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return every subject with its worst verdict and the number of its limits; those with the same are together."""
    groups = by_subject(verdicts, names)
    counts = {subject: f" ({len(own)} limits)" if len(own) > 1 else "" for subject, own in groups.items()}
    texts = grouped(groups, lambda subject: in_short(groups[subject][0]) + counts[subject])
    return "; ".join(f"{spanned([names[each] for each in members])} {text}" for text, members in texts.items())


def short_beside(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return what falls short on devices that nothing rejects, beside others that are rejected."""
    guilty = {each.culprit for each in verdicts if each.rejects}
    short = [each for each in verdicts if each.status in SHORT and each.waiver is None]
    short = [each for each in short if each.behind or (each.margin is not None and each.margin < 0)]
    return [each for each in short if each.culprit not in {*guilty, NODE}] if guilty else []


def in_short(verdict: Verdict) -> str:
    """Return a failure in a few words: "stream.triad -14.0%", "hung in matmul.fp64", "health.fabric failed"."""
    if verdict.event:
        return f"{HAPPENED[verdict.event]} {verdict.metric}"
    if margin := margin_of(verdict):
        return f"{verdict.metric} {margin}"
    value = [] if verdict.value is None else [show(verdict.value, verdict.unit)]
    told = (text for text in (sentence_of(verdict), *value) if len(text) <= SHORT_SENTENCE)
    return f"{verdict.metric} {next(told, verdict.status.value)}"


def named(verdicts: Sequence[Verdict], names: Names) -> tuple[Verdict, ...]:
    """Return the worst verdict of every subject: those that the closing line names, which are worth repeating."""
    return tuple(own[0] for own in by_subject(verdicts, names).values())


def undecided(verdicts: Sequence[Verdict], names: Names) -> str:
    """Return what was not judged and why: the worst of every subject, those with one cause together."""
    causes = grouped(worst_first(verdicts), lambda each: (each.status, sentence_of(each)))
    seen: set[str] = set()
    parts, told = [], 0
    for (status, sentence), group in causes.items():
        if {each.culprit for each in group} <= seen:
            continue
        seen |= {each.culprit for each in group}
        parts.append(f"{_places(group, names)}: {status.value}, {sentence}")
        told += len(group)
    rest = len(verdicts) - told
    return "; ".join(parts) + (f" (and {rest} more)" if rest else "")


def _places(group: Sequence[Verdict], names: Names) -> str:
    """Return the subjects and the metrics of verdicts with one cause: "gpu0 to gpu7 matmul.int8 and 3 more"."""
    metrics = list(dict.fromkeys(each.metric for each in group))
    subjects = [names[subject] for subject in by_subject(group, names)]
    return f"{spanned(subjects)} {listed(metrics, 1)}"


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
    _, *further = phrases(verdict)
    if further and verdict.margin is not None and verdict.margin >= MARGINAL_WITHIN:
        return f", {further[0]}"
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
