"""The subcommand `pytest-accel judge`: judges a saved record again, by today's limits or those of a file."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli import rejudge, screen
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.core import exits, untrusted
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.paths import writing
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Platform
from pytest_accel.core.verdict import Closing
from pytest_accel.judging.records.differences import judged_otherwise
from pytest_accel.run import record
from pytest_accel.run.options import AUTO, Refused
from pytest_accel.run.statement import SUMS
from pytest_accel.run.terms import TermOptions, Terms
from pytest_accel.run.terms import boards as boards_of
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.views import record_comparison, terminal
from pytest_accel.views.next_steps import next_steps
from pytest_accel.views.table import table
from pytest_accel.views.terminal import Line

DESCRIPTION = """Judge a saved record again without measuring: by today's limits, or by those of another file. A record
is never accepted more easily than its run was: if the run was filtered, interrupted or simulated, that still counts.
The exit statuses are those of a run: 0 accepted, 1 rejected, 4 wrong file or option, 6 not judged, or held where an
accelerator's SKU is named. Where none is named, a record whose limits hold ends as its run did."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `judge`."""
    option = parser.add_argument
    option("file", metavar="RECORD", help="a record.json, or the folder that holds it")
    option(
        "--sku", metavar="NAME|FILE", help="the SKU, or threshold file, to judge by (default: the SKU of the record)"
    )
    option("--platform", metavar="NAME", help="the platform to judge by (default: that of the record)")
    option("--level", choices=LEVELS, help="the level whose limits are required (default: that of the record)")
    option(
        "--packing-list",
        metavar="FILE",
        type=Path,
        help="the packing list to judge a record by: a CSV table with the column serial (default: that of the run)",
    )
    option("-v", "--verbose", action="store_true", help="list every verdict, and every next step with its metrics")
    option(
        "--output",
        metavar="DIR",
        type=Path,
        help="write the new verdicts to a record in this folder; it refers to the old record",
    )


def run(args: argparse.Namespace) -> int:
    """Judge a record again, print what changed, and return the exit status. Raises BadRecord or Refused."""
    path = record.find(Path(args.file))
    if args.output:
        _check_free(args.output)
    old = record.read(path)
    terms, boards = _terms(old, args)
    new = judge_again(old, terms, boards)
    names = record.names_of(new)
    sku, platform, level = new.sku.get("name", "no SKU"), new.info["platform"], new.info["level"]
    screen.show([(f"{path}: judged as {sku}, platform {platform}, level {level}", "bold")])
    screen.show([*_belief(old), *_lists(old, new)])
    screen.show(table(new.verdicts, names, record.findings_of(new), full=args.verbose, width=screen.width()))
    screen.show(record_comparison.changed(judged_otherwise(old, new)))
    if old.closing.line:
        screen.show([(f"before: {old.closing.line}", "")])
    if old.objections:
        _close(replace(old.closing, line=f"{rejudge.AGAIN} {old.closing.line}"), new, full=args.verbose)
        return exits.NOT_JUDGED
    _close(new.closing, new, full=args.verbose)
    findings, locations = record.findings_of(new), record.locations_of(new)
    screen.show(next_steps(findings, new.verdicts, names, locations, full=args.verbose))
    if args.output:
        screen.show([(f"record: {_write(new, old, path, args.output)}", "")])
    return new.closing.exit


def _belief(run: Run) -> list[Line]:
    """Return the objections to a record; the hash of one without, with its signature."""
    if run.objections:
        return [(f"not believed: {objection}", "red") for objection in run.objections]
    signed = untrusted.exists(run.path.with_name(f"{SUMS}.sig"))
    return terminal.hash_lines(run.sealed, screen.width(), signed=signed)


def _lists(old: Run, new: Run) -> list[Line]:
    """Return the packing list that the record is judged by, and the one before if it is another."""
    if not new.packing_list:
        return []
    earlier, changed = old.packing_list, old.packing_list.get("sha256") != new.packing_list.get("sha256")
    lines: list[Line] = [(f"packing list: {_of_list(new)}{'' if changed else ', as before'}", "")]
    if changed:
        lines.append((f"packing list before: {_of_list(old) if earlier else 'none'}", "yellow"))
    return lines


def _of_list(run: Run) -> str:
    """Return the packing list of a record in words."""
    entry = run.packing_list
    boards = entry.get("boards", 0)
    return f"{entry.get('file')}, {boards:,} board{'s' * (boards != 1)}, sha256 {entry.get('sha256')}"


def _terms(old: Run, args: argparse.Namespace) -> tuple[Terms, PackingList | None]:
    """Return the terms and the packing list of the options, or else those of the record. Raises Refused."""
    sku_asked = old.sku.get("asked")
    default = sku_asked if sku_asked and sku_asked != AUTO else old.sku.get("name")
    name = str(args.sku or default or AUTO)
    selection = TermOptions(name, args.platform or AUTO, args.level, "--")
    sku = selection.load_sku(on_hardware=not old.info.get("simulated"))
    terms = rejudge.terms_of(selection, sku, old)
    boards = boards_of(args.packing_list, "--packing-list")
    if sku is None:
        if args.sku:
            raise Refused(f"--sku={name}: name a SKU ('pytest-accel sku list' shows them) or a threshold file")
        if boards:
            raise Refused("--packing-list: the record names no SKU, and without one nothing is judged; add --sku")
        terms = replace(terms, platform=Platform(str(old.info.get("platform")), None))
    return replace(terms, sku_named=bool(args.sku)), boards


def _check_free(folder: Path) -> None:
    """Raise Refused for a folder that holds a record, or that the system refuses, before anything is judged."""
    with writing("--output", folder):
        exists = (folder / record.FILE).exists()
    if exists:
        raise Refused(f"--output: {folder} holds another record; name a new folder")


def _write(new: Run, old: Run, path: Path, folder: Path) -> Path:
    """Write the new record, with path and hash of the old one, and return its path. Raises Refused."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    new.judged_from = {"record": str(path.absolute()), "sha256": old.file_sha256, "judged": now}
    if new.packing_list != old.packing_list:
        new.judged_from["packing_list"] = old.packing_list
    new.telemetry = {}  # it stays beside the record of the run
    with writing("--output", folder):
        folder.mkdir(parents=True, exist_ok=True)
        record.write(new, folder)
    return folder / record.FILE


def _close(closing: Closing, run: Run, *, full: bool) -> None:
    """Print the closing line and the lines that belong to it."""
    width, verdicts = screen.width(), run.verdicts
    details = terminal.why_lines(closing, record.names_of(run), width, full=full)
    screen.show([*terminal.closing_lines(closing, verdicts, width), *details, *terminal.next_lines(closing, width)])
    screen.show(terminal.sensitivity_lines(closing, verdicts, width, full=full))
