"""The last lines of a run: its result, the next steps, the commands that go on from here, the time and the record."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pytest_accel.core.verdict import Closing
from pytest_accel.run.record import findings_of, places_of
from pytest_accel.run.session import Session
from pytest_accel.views import terminal
from pytest_accel.views.next_steps import next_steps

Tests = Mapping[tuple[str, str, str], str]
"""Name of the test that asked for a verdict, by the key of the verdict."""


def lines(session: Session, tests: Tests, closing: Closing, width: int | None, *, full: bool) -> list[terminal.Line]:
    """Return the closing line and what follows it, each only where there is one.

    They are folded to `width` columns where a person reads them; None is for a file, in which whatever belongs together
    stays in one line. With `full`, every finding has its next step, and the time and the hash of the record are shown.
    """
    ledger, folder = session.ledger, session.ledger.folder
    run, together = ledger.record.info, session.asked.options.fabric  # no node leads on by itself from a fabric run
    took = [terminal.time_line(run["seconds"])] if full and "seconds" in run else []
    took += [terminal.sampling_line(run["sampling"])] if full and "sampling" in run else []
    found, places = findings_of(ledger.record), places_of(ledger.record)
    steps = next_steps(found, ledger.verdicts, ledger.names, places, full=full)
    return [
        *terminal.closing_lines(closing, ledger.verdicts, width),
        *terminal.folded(steps, width),
        *([] if together else [*terminal.next_lines(closing, width), *_repeated(session, tests, closing)]),
        *terminal.finds_lines(closing, width),
        *terminal.folded(took, width),
        *terminal.record_lines(folder.file, folder.instead_of, lost=bool(folder.lost)),
        *(terminal.hash_lines(ledger.record.sha256, width) if full and folder.file and not folder.lost else ()),
    ]


def _repeated(session: Session, tests: Tests, closing: Closing) -> list[terminal.Line]:
    """Return the command that measures again what the closing line names; the page of the first run stays."""
    named = [tests[each.key] for each in closing.named if each.key in tests]
    if not named:
        return []
    command = [word for word in session.asked.options.command if word.partition("=")[0] != "--accel-report"]
    kept = without_options(command, ("-k", "--accel-output", "--accel-hours"))
    words = [*kept, "-k", " or ".join(dict.fromkeys(named))]
    return [(f"again: {shlex.join(words)}", "")]


def without_options(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the words of a command line without these options and their values."""
    kept: list[str] = []
    skip = False
    for word in command:
        joined = word.startswith(tuple(f"{name}=" if name.startswith("--") else name for name in names))
        if not skip and word not in names and not joined:
            kept.append(word)
        skip = word in names
    return kept
