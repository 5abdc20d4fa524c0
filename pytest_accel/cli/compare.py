"""The subcommand `pytest-accel compare`: what changed between two records, or over a folder of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_accel.cli import screen
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Sku
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.records.differences import Comparison, compare, not_comparable
from pytest_accel.judging.verdicts.background import SpreadOf
from pytest_accel.run import earlier_records, record
from pytest_accel.run.options import Refused
from pytest_accel.run.terms import Wanted
from pytest_accel.views import differences

DESCRIPTION = """Show what changed between the first and the last of some records of the same devices, most important
first: devices, verdicts, facts, software, and figures that changed by more than two runs differ. Of more than two, or a
folder of records, also the record from which on a figure is worse. A figure is compared with one of the same method and
conditions alone. The exit status is 0 if nothing is worse, 1 if a figure or a state of the hardware is, 4 for a wrong
file, 6 if the records are not comparable, or the oldest of several is not."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `compare`."""
    text = "a record.json, the folder that holds it, or a folder of such folders"
    parser.add_argument("records", metavar="RECORD|DIR", nargs="+", help=text)


def run(chosen: argparse.Namespace) -> int:
    """Compare records, print what changed, and return the exit status. Raises WrongUse."""
    found, notes = _find(chosen.records)
    oldest, newest = found[0], found[-1]
    others = (
        {str(each.path): why for each in found[:-1] if (why := not_comparable(each, newest))} if len(found) > 2 else {}
    )
    group = [each for each in found if str(each.path) not in others]
    why = others.get(str(oldest.path), "")
    comparison, more = _compared(group if len(group) > 1 else [oldest, newest])
    comparison = replace(comparison, left_out=f"the oldest record {oldest.path}: {why}" if why else "")
    notes += [*(f"not comparable: {path}: {why}" for path, why in others.items()), *more]
    screen.show(differences.text(comparison, len(group), notes))
    return comparison.exit


def _find(names: Sequence[str]) -> tuple[list[Summary], list[str]]:
    """Return the records under some names, and notes on what was not read. Raises BadFile.

    More than two, or those of a folder, are in the order in which they started.
    """
    found: list[Summary] = []
    notes: list[str] = []
    for name in names:
        under = earlier_records.under(Path(name))
        found += under.found
        notes += under.notes()
    found = list({each.path.absolute(): each for each in found}.values()) if len(found) > 2 else found
    if len(found) < 2:
        raise BadFile(f"{', '.join(names)}: holds one record; name another one to compare it with")
    if len(names) != 2 or len(found) != 2:
        found.sort(key=lambda each: each.started)
    return found, notes


def _compared(found: Sequence[Summary]) -> tuple[Comparison, list[str]]:
    """Compare the first and the last of some records, with the trend over all. Raises BadFile."""
    first, last = saved = [record.read(each.path) for each in (found[0], found[-1])]
    notes = [note for each in saved for note in _incomplete(each)]
    doubted = [f"{each.path} is not believed: {each.objections[0]}" for each in saved if each.objections]
    if why := not_comparable(found[0], found[-1]) or "".join(doubted[:1]):  # nothing is concluded from it
        return Comparison(first, last, other=why), notes
    spread, said = _spread(last)
    return compare(first, last, spread, found), [*notes, *said]


def _incomplete(saved: Run) -> list[str]:
    """Return what a reader should know of a record: that it is not of a whole run."""
    filtered = saved.circumstances and saved.circumstances.filtered
    why = "did not end" if saved.state != "finished" else "was filtered" if filtered else ""
    return [f"{saved.path}: the run {why}; what it did not measure is not compared"] if why else []


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
