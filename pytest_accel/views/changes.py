"""The changes when a record was judged again (files, limits, verdicts), as lines of text with a colour each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_accel.core.measurement import Names
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Change, Verdict
from pytest_accel.views.table import limit_of
from pytest_accel.views.terminal import COLOURS, Line


def limits(moved: Mapping[str, Sequence[str]]) -> list[Line]:
    """Return one line for each limit that is not what it was."""
    return [(f"limit: {metric}: {', '.join(differences)}", "yellow") for metric, differences in moved.items()]


def lines(changes: Sequence[Change], files: Sequence[str], names: Names) -> list[Line]:
    """Return a line for each file whose hash changed, then a line for each changed verdict.

    `files` are sentences about the files, `names` are display names by subject.
    """
    if not changes and not files:
        return [("changed: nothing", "")]
    found: list[Line] = [(f"file: {text}", "yellow") for text in files]
    for each in changes:
        why = f": {sentence_of(each.new)}" if each.new and each.new.status.fails else ""
        said = f"{names[each.subject]} {each.metric}: {_summary(each.old)} -> {_summary(each.new)}{why}"
        found.append((f"changed: {said}", COLOURS.get(each.new.status, "") if each.new else ""))
    return found if changes else [*found, ("changed: no verdict", "")]


def _summary(verdict: Verdict | None) -> str:
    """Return status and limit of a verdict: "PASS (floor 672 TFLOPS)"."""
    if verdict is None:
        return "no verdict"
    limit = limit_of(verdict)
    status = "info" if verdict.information else verdict.status.value
    return f"{status} ({limit})" if limit else status
