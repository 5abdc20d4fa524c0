"""The result of a passive check as one line of at most 80 characters, which schedulers cut off: the essence first.

Slurm's `sinfo -R` shows 20 characters of a reason, node-problem-detector 80 of an output.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.core.printable import printable
from pytest_accel.core.verdict import Verdict, show
from pytest_accel.core.words import age
from pytest_accel.judging.closing_parts import spanned
from pytest_accel.judging.findings import Finding
from pytest_accel.judging.passive import Found
from pytest_accel.run.last_run import LastRun
from pytest_accel.run.passive import Checked

WIDTH = 80
CUT = "..."


def line(checked: Checked, *, fresh: bool, asked: bool) -> str:
    """Return the line. `fresh` is False for a last run that is too old; `asked` is True if there should be one."""
    if checked.last and fresh and checked.last.rejects and not (checked.found and checked.found.broken):
        text = f"ERROR last run REJECTED {checked.last.day}"
        return _cut(f"{text}: {_why(checked.last)}", WIDTH)
    last = _last(checked, fresh=fresh) if asked else ""
    text = _cut(_essence(checked), WIDTH - len(last))
    return printable(f"{text}{last}")[:WIDTH]


def lines(checked: Checked) -> list[str]:
    """Return every verdict with a remark as a line of any length, worst first."""
    found = checked.found or Found()
    names = checked.names
    return [
        printable(f"{names.get(each.culprit, each.culprit)} {_title(found, each)} {each.metric}: {each.sentence}")
        for each in (*found.broken, *found.undecided, *found.marginal)
    ]


def _essence(checked: Checked) -> str:
    """Return what the check itself found."""
    found = checked.found
    if found and found.broken:
        return f"ERROR {_worst(checked, found, found.broken)}"
    if found is None or checked.unknown:
        return f"UNKNOWN {checked.unknown}"
    if found.undecided:
        worst = found.undecided[0]
        return f"UNKNOWN {checked.names.get(worst.culprit, worst.culprit)} {worst.metric}: {worst.sentence}"
    warns = f", warns {_worst(checked, found, found.marginal)}" if found.marginal else ""
    sku = checked.sku.name if checked.sku else "unknown"
    devices = f"{checked.accelerators} x {sku}" if checked.accelerators else "no accelerator"
    return f"OK {devices}{warns}"


def _worst(checked: Checked, found: Found, verdicts: Sequence[Verdict]) -> str:
    """Return the first verdict with the devices that share it, and the number of the others."""
    worst = verdicts[0]
    finding = found.findings[worst.key]
    alike = [each for each in verdicts if found.findings[each.key].fault is finding.fault]
    worst = next((each for each in alike if each.value), worst)  # shorter than a sentence, but not if nothing is there
    subjects = list(dict.fromkeys(checked.names.get(each.culprit, each.culprit) for each in alike))
    others = len({found.findings[each.key].code for each in verdicts}) - 1
    more = f" +{others} more" if others else ""
    return f"{spanned(subjects)} {finding.code} {finding.fault.name}{more}: {_detail(worst, finding)}"


def _detail(verdict: Verdict, finding: Finding) -> str:
    """Return what was found, in a few words: the vendor's own code, a value beside the expected one, a sentence."""
    if finding.vendor:
        return finding.vendor
    if verdict.value is not None and verdict.limit and verdict.limit.equals is not None:
        return f"{show(verdict.value, verdict.unit)}, not {show(verdict.limit.equals, verdict.unit)}"
    return verdict.sentence


def _title(found: Found, verdict: Verdict) -> str:
    """Return status and code of a verdict."""
    finding = found.findings.get(verdict.key)
    return f"{verdict.status.value} {finding.title if finding else ''}".rstrip()


def _last(checked: Checked, *, fresh: bool) -> str:
    """Return the word and the age of the newest result, behind a semicolon."""
    if checked.record_problem:
        return "; last run not read"
    if checked.last is None:
        return "; no run found"
    when = checked.last.day if checked.last.rejects else f"{age(checked.last.age)} ago"
    return f"; last run {checked.last.word} {when}{'' if fresh else ', stale'}"


def _why(last: LastRun) -> str:
    """Return the closing line of a run without its word."""
    return last.summary["line"].removeprefix("SIMULATED ").removeprefix(last.word).lstrip(" :")


def _cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, of which every one is visible."""
    text = printable(text)
    return text if len(text) <= most else text[: most - len(CUT)].rstrip() + CUT
