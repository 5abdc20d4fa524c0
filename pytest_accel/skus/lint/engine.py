"""Runs the rules over threshold files, and applies the explanations that the files give for messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path

from pytest_accel.core.untrusted import BadFile, ErrorAt
from pytest_accel.core.yaml_nodes import Located, nearest
from pytest_accel.skus import loader
from pytest_accel.skus.lint.linted_file import RULES, SEVERITIES, LintedFile, LintMessage, moved, same

OWN_RULES = {
    "schema": "Report what every run refuses: unknown keys, wrong units, figures without a source, infinite bounds.",
    "explained": "Require that an explanation names a known rule and explains a message.",
}
"""The rules that are not a function of a single readable file."""


@dataclass(frozen=True)
class LintReport:
    """The messages in the requested files, and those in the files that they extend (`below`)."""

    files: int
    limits: int
    messages: Sequence[LintMessage]
    below: Sequence[LintMessage]

    @property
    def open(self) -> list[LintMessage]:
        """The messages that no explanation covers."""
        return [message for message in self.messages if not message.explained]

    def count(self, severity: str) -> int:
        """Return the number of unexplained messages of one severity."""
        return Counter(message.severity for message in self.open)[severity]

    @property
    def clean(self) -> bool:
        """True if there is no unexplained error and no unexplained warning."""
        return not self.count("error") and not self.count("warning")


def explanations() -> dict[str, str]:
    """Return the description of each rule by name."""
    return {name: (check.__doc__ or "").splitlines()[0] for name, check in RULES.items()} | OWN_RULES


def lint(names: Sequence[str], today: str) -> LintReport:
    """Check the named SKUs and files, or all shipped ones without a name. `today` is a date such as 2026-11-21.

    Raises BadFile for a SKU or path that does not exist.
    """
    paths = [loader.find(name) for name in names]
    own_paths = [path for path in paths if loader.SHIPPED.resolve() not in path.resolve().parents]
    # all shipped ones beside a requested one, which may be the base of others, or of a vendor's SKUs
    shipped = [] if own_paths and own_paths == paths else loader.names()
    entries = [_open(path, today) for path in (*map(loader.find, shipped), *own_paths)]
    requested = {loader.display_name(path) for path in paths} or {file for entry in entries for file in entry.files}
    selected = [entry for entry in entries if requested & entry.files]
    subjects = [entry.subject for entry in selected if entry.subject is not None]
    messages = {message for entry in selected for message in entry.errors}.union(_examined(subjects))
    by_location = sorted(messages, key=attrgetter("file", "line", "rule", "key", "value"))
    return _report(subjects, sorted(by_location, key=lambda message: SEVERITIES.index(message.severity)), requested)


@dataclass(frozen=True)
class _Opened:
    """A threshold file: its subject, or the messages if it cannot be read.

    `files` are the files that its values, or these messages, come from.
    """

    subject: LintedFile | None
    errors: list[LintMessage]
    files: set[str]


def _open(path: Path, today: str) -> _Opened:
    name = loader.display_name(path)
    try:
        subject = _subject(path, today)
    except BadFile as bad:
        messages = [_refusal(error, name) for error in bad.errors]
        return _Opened(None, messages, {name, *(message.file for message in messages)})
    return _Opened(subject, [], set(subject.sku.files))


def _subject(path: Path, today: str) -> LintedFile:
    """Return a file and the files that it extends as subjects of the check. Raises BadFile."""
    sku, root = loader.read(str(path))
    base = loader.extended(path, root)
    return LintedFile(sku, root, _subject(base, today) if base else None, today)


def _report(subjects: Iterable[LintedFile], messages: Sequence[LintMessage], requested: set[str]) -> LintReport:
    limits = {limit.origin for subject in subjects for _, limit, _ in subject.limits()}
    return LintReport(
        files=len(requested),
        limits=sum(origin.rpartition(":")[0] in requested for origin in limits),
        messages=[message for message in messages if message.file in requested or message.rule == "schema"],
        below=[message for message in messages if message.file not in requested and message.rule != "schema"],
    )


def _refusal(error: str | ErrorAt, name: str) -> LintMessage:
    """Return an error of a file as a message; one without a location is of the first line."""
    file, line, text = (name, 1, error) if isinstance(error, str) else error
    return LintMessage(file, line, "error", "", text, "", "schema")


def _examined(subjects: Iterable[LintedFile]) -> Iterator[LintMessage]:
    """Yield the messages of all subjects, each with its explanation if it has one, and the stale explanations."""
    applied: set[tuple[str, int]] = set()
    explaining: dict[tuple[str, int], Located] = {}
    for subject in subjects:
        explaining |= {(entry.file, entry.line): entry for entry in _entries(subject)}
        yield from (message for _, message in _explained(subject, applied))
    for location, entry in explaining.items():
        if location not in applied:
            yield _stale(entry)


def _explained(subject: LintedFile, applied: set[tuple[str, int]]) -> Iterator[tuple[LintMessage, LintMessage]]:
    """Yield each message of a subject as its rule states it, and as it is reported: at the file that it belongs to.

    The explanations that hold are added to `applied`. An explanation holds for the findings of its own file; a value
    that another file puts there is not explained by it.
    """
    base, own_file = subject.base, subject.sku.own_file
    base_messages = {same(raw): message for raw, message in _explained(base, set())} if base else {}
    vendors = [name for name in subject.sku.files if own_file and name.startswith(f"{loader.VENDOR_FILES}/")]
    files, entries = base.sku.files if base else vendors, _entries(subject)
    for message in _messages(subject):
        of_rule = (entry for entry in entries if entry.data["rule"].data == message.rule)
        entry = next((entry for entry in of_rule if fnmatchcase(message.key, entry.data["key"].data)), None)
        inherited = base_messages.get(same(message))
        if entry is not None:
            applied.add((entry.file, entry.line))
            yield message, replace(message, explained=str(entry.plain()["reason"]))
        elif inherited is not None:
            yield message, inherited if message.file in files else replace(message, explained=inherited.explained)
        else:
            yield message, moved(message, subject, files)


def _messages(subject: LintedFile) -> Iterator[LintMessage]:
    for name, check in RULES.items():
        for message in check(subject):
            yield replace(message, rule=name)


def _entries(subject: LintedFile) -> list[Located]:
    """Return the explanations that a file gives, without those of the files that it extends."""
    inherited = subject.base.sku.files if subject.base else ()
    section = subject.root.data.get("explained")
    return [entry for entry in (section.data if section else ()) if entry.file not in inherited]


def _stale(entry: Located) -> LintMessage:
    """Return the message on an explanation that explains nothing, or whose rule does not exist."""
    rule, rules = entry.data["rule"].data, explanations()
    if rule not in rules:
        severity, value, expected = "error", f"rule {rule}", f"expected a rule; {nearest(rule, rules)}"
    else:
        value, expected = f"{rule} at {entry.data['key'].data}", "expected a message: delete the entry"
        severity = "warning"
    return LintMessage(entry.file, entry.line, severity, "explained", value, expected, "explained")
