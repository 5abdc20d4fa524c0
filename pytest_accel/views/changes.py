"""The changes when a record is judged again, as plain lines with a colour each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_accel.core.verdict import Change, Verdict
from pytest_accel.views.terminal import COLOURS, Line, limit_of


def releases(old: str, new: str) -> list[Line]:
    """Return one line with the versions of the shipped thresholds, then and now; none for a record without a SKU."""
    if not new:
        return []
    said = f"{old or 'a version that the record does not state'} then, {new} now"
    return [(f"thresholds: {new}, as then", "") if old == new else (f"thresholds: {said}", "yellow")]


def limits(moved: Mapping[str, Sequence[str]], reasons: Callable[[str], Sequence[str]]) -> list[Line]:
    """Return one line for each limit that is not what it was, and one for each reason that the changelog states."""
    found: list[Line] = []
    for metric, differences in moved.items():
        found.append((f"limit: {metric}: {', '.join(differences)}", "yellow"))
        found += [(f"  {reason}", "") for reason in reasons(metric)]
    return found


def lines(changes: Sequence[Change], files: Sequence[str], names: Mapping[str, str]) -> list[Line]:
    """The files whose hash changed, then one line for each verdict that is not what it was."""
    if not changes and not files:
        return [("changed: nothing", "")]
    found: list[Line] = [(f"file: {text}", "yellow") for text in files]
    return found + [(_line(each, names), _colour(each.new)) for each in changes] + _none(changes)


def _line(change: Change, names: Mapping[str, str]) -> str:
    place = f"{names.get(change.subject, change.subject)} {change.metric}"
    return f"changed: {place}: {_said(change.old)} -> {_said(change.new)}{_why(change)}"


def _said(verdict: Verdict | None) -> str:
    if verdict is None:
        return "no verdict"
    limit = limit_of(verdict)
    status = "info" if verdict.information else verdict.status.value
    return f"{status} ({limit})" if limit else status


def _why(change: Change) -> str:
    """The sentence of what does not hold now."""
    return f": {change.new.sentence}" if change.new and change.new.status.fails else ""


def _colour(verdict: Verdict | None) -> str:
    return COLOURS.get(verdict.status, "") if verdict else ""


def _none(changes: Sequence[Change]) -> list[Line]:
    return [] if changes else [("changed: no verdict", "")]
