"""The subcommand `pytest-accel compare`: what changed between two records."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_accel.cli import screen
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.records.differences import RecordComparison, compare, not_comparable
from pytest_accel.judging.verdicts.background import SpreadOf
from pytest_accel.run import record
from pytest_accel.run.options import AUTO, Refused
from pytest_accel.run.terms import TermOptions
from pytest_accel.views import record_comparison

DESCRIPTION = """Show what changed between two records of the same devices, most important first: devices, verdicts,
facts, software, and figures that changed by more than two runs differ. A figure is compared with one of the same method
and conditions alone. The exit status is 0 if nothing is worse, 1 if a figure or a state of the hardware is, 4 for a
wrong file, 6 if the records are not comparable."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `compare`."""
    for name, meaning in (("first", "the older record"), ("last", "the newer one")):
        parser.add_argument(name, metavar=name.upper(), help=f"{meaning}: a record.json, or the folder that holds it")


def run(args: argparse.Namespace) -> int:
    """Compare two records, print what changed, and return the exit status. Raises WrongUse."""
    first, last = records = [record.read(record.find(Path(name))) for name in (args.first, args.last)]
    notes = [note for entry in records for note in _incomplete(entry)]
    doubted = [f"{entry.path} is not believed: {entry.objections[0]}" for entry in records if entry.objections]
    if reason := not_comparable(first, last) or "".join(doubted[:1]):  # nothing is concluded from it
        comparison = RecordComparison(first, last, obstacle=reason)
    else:
        spread, remarks = _spread(last)
        comparison, notes = compare(first, last, spread), [*notes, *remarks]
    screen.show(record_comparison.text(comparison, notes))
    return comparison.exit


def _incomplete(run: Run) -> list[str]:
    """Return a note on a record that is not of a whole run; nothing for one that is."""
    filtered = run.circumstances and run.circumstances.narrowed
    state = "did not end" if run.state != "finished" else "was filtered" if filtered else ""
    return [f"{run.path}: the run {state}; what it did not measure is not compared"] if state else []


def _spread(run: Run) -> tuple[SpreadOf, list[str]]:
    """Return the variation of a metric among healthy devices by the SKU of a record, and a note if it is not known."""
    sku_asked, name = run.sku.get("asked"), run.sku.get("name")
    try:
        sku = TermOptions(str(name if sku_asked in (None, "", AUTO) else sku_asked)).load_sku(on_hardware=False)
    except (BadFile, Refused):
        sku = None
    if sku is None or sku.name != name:
        note = f"the threshold file of {name or 'the devices'} was not found: what two runs differ by is assumed"
        return lambda _metric: None, [note]
    return sku.spread_of, []
