"""The subcommand `pytest-accel compare`: what changed between two records, or over a folder of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_accel.cli import screen
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Sku
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.differences import Comparison, compare, not_comparable
from pytest_accel.judging.figure_differences import SpreadOf
from pytest_accel.run import earlier_records, record, summaries
from pytest_accel.run.options import Refused
from pytest_accel.run.terms import Wanted
from pytest_accel.views import differences

OTHER_KIND = "another SKU"
OTHER_DEVICES = "none of the same devices"

DESCRIPTION = """Show what changed between the first and the last of some records, most important first: devices,
verdicts, facts, software, limits, and figures that changed by more than two runs differ. Of more than two, or a folder
of records, also the trend of every figure. A figure is compared with one of the same method and conditions alone. The
exit status is 0 if nothing is worse, 1 if a figure or a state of the hardware is, 4 for a wrong file, 6 if the records
are not comparable, or the oldest or the newest of several is not."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `compare`."""
    text = "a record.json, the folder that holds it, or a folder of such folders"
    parser.add_argument("records", metavar="RECORD|DIR", nargs="+", help=text)
    text = "default: %(default)s; text has at most 60 lines"
    parser.add_argument("--format", choices=("text", "json", "md"), default="text", help=text)


def run(chosen: argparse.Namespace) -> int:
    """Compare records, print what changed, and return the exit status. Raises WrongUse."""
    found, notes = _find(chosen.records)
    between: list[Summary] = []
    others: dict[str, str] = {}
    left_out = ""
    if len(found) > 2:
        ends = found[0], found[-1]
        found, others = _comparable(found)
        between = found[1:-1]
        left_out = _left_out(ends, others)
    comparison, more = _compared(found)
    comparison = replace(comparison, left_out=left_out)
    beside = differences.Beside(len(between), others, [*notes, *more])
    _print(comparison, beside, chosen.format)
    return comparison.exit


def _find(names: Sequence[str]) -> tuple[list[Summary], list[str]]:
    """Return the records under some names, and notes on what was not read. Raises BadFile.

    More than two, or those of a folder, are in the order in which they started.
    """
    found: list[Summary] = []
    notes: list[str] = []
    for name in names:
        path = Path(name)
        if path.is_dir() and not (path / record.FILE).exists():
            inside = earlier_records.inside(path)
            if not inside.found:
                why = f": {inside.ignored[0]}" if inside.ignored else ""
                raise BadFile(f"{name}: holds no record of a run{why}; name a record.json or a folder with one")
            found += inside.found
            notes += inside.notes()
        else:
            found.append(summaries.summary(record.read(record.find(path))))
    found = list({each.path.absolute(): each for each in found}.values()) if len(found) > 2 else found
    if len(found) < 2:
        raise BadFile(f"{', '.join(names)}: holds one record; name another one to compare it with")
    if len(names) != 2 or len(found) != 2:
        found.sort(key=lambda each: each.started)
    return found, notes


def _comparable(found: Sequence[Summary]) -> tuple[list[Summary], dict[str, str]]:
    """Return those of several records that share SKU and devices with most others, and why the others do not.

    Of groups of the same size the newest counts. Where no two records share a device, the first and the last of the
    SKU are compared: two nodes.
    """
    groups = _groups(found)
    group = max(groups, key=lambda each: (len(each), each[-1].started))
    if len(group) == 1:
        of_sku = [each for each in found if _kind(each) == _kind(group[0])]
        group = [of_sku[0], of_sku[-1]] if len(of_sku) > 1 else [found[0], found[-1]]
    kept = {id(each) for each in group}
    return group, {str(each.path): _why(each, group[-1]) for each in found if id(each) not in kept}


def _left_out(ends: tuple[Summary, Summary], others: Mapping[str, str]) -> str:
    """Return which of the oldest and the newest record was not compared, with its result and why; empty if none.

    What changed since or until such a record is not known, so that nothing may be called as good as before.
    """
    left = [
        (each, age) for each, age in zip(reversed(ends), ("newest", "oldest"), strict=True) if str(each.path) in others
    ]
    said = [
        f"the {age} record {each.path} ({'SIMULATED ' * each.simulated}{each.word or 'not ended'}): "
        f"{others[str(each.path)]}"
        for each, age in left
    ]
    return "; ".join(said)


def _kind(found: Summary) -> tuple[str, bool]:
    """Return the SKU, and whether the node was simulated. Records are comparable if both are the same."""
    return found.sku, found.simulated


def _names(found: Summary) -> set[str]:
    """Return the identities of the devices: UUIDs and serials."""
    return {each.uuid for each in found.devices} | {each.serial for each in found.devices if each.serial}


def _groups(found: Iterable[Summary]) -> list[list[Summary]]:
    """Return records in groups that share SKU and devices, one through another."""
    groups: list[list[Summary]] = []
    for each in found:
        near = [
            group
            for group in groups
            if _kind(group[0]) == _kind(each) and any(_names(each) & _names(other) for other in group)
        ]
        joined = sorted([*(one for group in near for one in group), each], key=lambda one: one.started)
        groups = [*(group for group in groups if group not in near), joined]
    return groups


def _why(each: Summary, last: Summary) -> str:
    if each.simulated != last.simulated:
        return "simulated" if each.simulated else "not simulated"
    return f"{OTHER_KIND}: {each.sku or 'none'}" if _kind(each) != _kind(last) else OTHER_DEVICES


def _compared(found: Sequence[Summary]) -> tuple[Comparison, list[str]]:
    """Compare the first and the last of some records, with the trend over all. Raises BadFile."""
    first, last = saved = [record.read(each.path) for each in (found[0], found[-1])]
    notes = [note for each in saved for note in _incomplete(each)]
    altered = [f"{each.path} was changed after it was written" for each in saved if each.altered]
    if why := not_comparable(first, last) or "".join(altered[:1]):  # nothing is concluded from one that was changed
        return Comparison(first, last, other=why), notes
    spread, said = _spread(last)
    return compare(first, last, spread, found), [*notes, *said]


def _incomplete(saved: Run) -> list[str]:
    """Return what a reader should know of a record: that it is not of a whole run, or contradicts itself."""
    notes = []
    if saved.state != "finished":
        notes.append("the run did not end; what it did not measure is not compared")
    elif saved.circumstances and saved.circumstances.filtered:
        notes.append("the run was filtered; what it did not measure is not compared")
    if saved.contradictions:
        notes.append(f"contradicts itself: {saved.contradictions[0]}")
    return [f"{saved.path}: {note}" for note in notes]


def _spread(one: Run) -> tuple[SpreadOf, list[str]]:
    """Return the variation of a metric among healthy devices by the SKU of a record, and a note if it is not known."""
    asked, name = one.sku.get("asked"), one.sku.get("name")
    own = [path for path in one.sku.get("files", {}) if Path(path).is_absolute()]
    sku: Sku | None = None
    for known in dict.fromkeys([asked if asked != "auto" else None, *own, name]):
        try:
            read = Wanted(known).named(on_hardware=False) if known else None
        except (BadFile, Refused):
            continue
        if sku is None and read is not None and read.name == name:
            sku = read
    if sku is None:
        note = f"the threshold file of {name or 'the devices'} was not found: what two runs differ by is assumed"
        return lambda _metric: None, [note]
    return sku.spread_of, []


def _print(found: Comparison, beside: differences.Beside, form: str) -> None:
    """Print a comparison, in colour if stdout is a terminal and NO_COLOR is not set."""
    if form == "json":
        print(differences.as_json(found, beside))
        return
    if form == "md":
        print(differences.markdown(found, beside), end="")
        return
    screen.show(differences.text(found, beside))
