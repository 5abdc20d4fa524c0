"""A record in Markdown, in less than 60 lines: for a ticket, or the summary of a CI job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, margin_of, show
from pytest_accel.core.words import listed
from pytest_accel.judging.closing.parts import spanned
from pytest_accel.judging.verdicts.ranking import worst_first
from pytest_accel.run.record import findings_of
from pytest_accel.views.markdown import code, escaped, table
from pytest_accel.views.next_steps import by_finding
from pytest_accel.views.table import limit_of

STEPS, VERDICTS, DEVICES = 7, 11, 10
"""Number of rows of each table."""
ICONS = {0: "white_check_mark", 1: "x"}
"""GitHub's names of the pictures for exit statuses; another one is a question mark."""


def text(record: Run) -> str:
    """Return a record in Markdown."""
    run, names = record.run, _names(record)
    word = record.closing.word or record.state
    simulated = "SIMULATED " if "simulated" in run else ""
    icon = ICONS.get(record.closing.exit, "grey_question")
    terms = [record.sku.get("name") or "no SKU", run.get("platform"), run.get("level")]
    lines = [f"## :{icon}: {escaped(simulated + word)}: {code(run.get('host', 'unknown host'))}", ""]
    closing = record.closing.line or "The run did not end: there is no closing line."
    lines += [f"**{escaped(closing)}**", ""]  # the mark keeps it from being a list or a heading
    about = {
        "judged as": ", ".join(code(each) for each in terms if each),
        "this run": escaped(record.closing.finds),
        "time": f"{code(run.get('started', '?'))} to {code(run.get('ended', '?'))}",
        "verdicts": _counted(record.verdicts),
        "record": f"{code(run.get('output', '?'))}, SHA-256 {code(record.sha256 or 'none')}",
    }
    lines += [*(f"- {name}: {words}" for name, words in about.items() if words), ""]
    return "\n".join([*lines, *_steps(record, names), *_verdicts(record, names), *_devices(record, names)]) + "\n"


def _names(record: Run) -> dict[str, str]:
    """Return the name of every subject, by UUID or NODE, fit to be shown and different for every subject."""
    names: dict[str, str] = {NODE: NODE}
    for device in record.devices:
        name = printable(device.name, SHOWN)
        names[device.uuid] = f"{name} ({printable(device.uuid, SHOWN)})" if name in names.values() else name
    for verdict in record.verdicts:
        names.setdefault(verdict.subject, printable(verdict.subject, SHOWN))
    return names


def _counted(verdicts: Sequence[Verdict]) -> str:
    """Return the number of verdicts by status, those that do not apply left out."""
    counts = Counter(each.status for each in verdicts)
    return ", ".join(f"{counts[each]} {each.value}" for each in WORST_FIRST[:-1] if counts[each])


def _steps(record: Run, names: dict[str, str]) -> list[str]:
    """Return the table of fault codes, worst first."""
    rows = []
    for finding, members, metrics in by_finding(findings_of(record), record.verdicts):
        subjects = spanned([name for subject, name in names.items() if subject in members])
        title, metric = escaped(finding.title), escaped(listed(metrics))
        rows.append((title, finding.severity.value, escaped(subjects), escaped(finding.do), metric))
    return _table("Next steps", ("code", "severity", "devices", "next step", "metrics"), rows, STEPS)


def _verdicts(record: Run, names: dict[str, str]) -> list[str]:
    """Return the table of verdicts that fail, are waived or are marginal; those with one cause share a row."""
    short = [each for each in record.verdicts if each.status.fails or each.status is Status.MARGINAL]
    groups = grouped(worst_first(short), lambda each: (each.subject, each.status, sentence_of(each)))
    rows = []
    for (subject, status, sentence), group in groups.items():
        first = group[0]
        margin = "" if len(group) > 1 else margin_of(first)
        value, limit = (show(first.value, first.unit), limit_of(first)) if len(group) == 1 else ("", "")
        told = status.value + (" (waived)" if first.waiver else "")
        cells = (told, names[subject], listed([each.metric for each in group], 1), value, limit, margin, sentence)
        rows.append(tuple(escaped(each) for each in cells))
    return _table("Verdicts", ("status", "device", "metric", "value", "limit", "margin", "cause"), rows, VERDICTS)


def _devices(record: Run, names: dict[str, str]) -> list[str]:
    """Return the table of devices, each with its identity and the number of its verdicts.

    Of more than it has rows, those that fail come first.
    """
    rows, every = [], list(record.devices)
    if len(every) > DEVICES:
        failing = {each.subject for each in record.verdicts if each.fails}
        every.sort(key=lambda device: device.uuid not in failing)
    for device in every:
        own = [each for each in record.verdicts if each.subject == device.uuid]
        identity = code(device.product), code(device.serial or ""), code(device.uuid)
        rows.append((escaped(names[device.uuid]), *identity, _counted(own)))
    return _table("Devices", ("device", "product", "serial number", "UUID", "verdicts"), rows, DEVICES)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> list[str]:
    """Return a table with its title; nothing if it has no rows, and the number of rows that are left out."""
    if not rows:
        return []
    left_out = len(rows) - most
    more = [f"{left_out} more are in the record.", ""] if left_out > 0 else []
    return [f"### {title}", "", *table(head, rows[:most]), "", *more]
