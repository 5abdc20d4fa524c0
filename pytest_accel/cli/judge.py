"""The subcommand `pytest-accel judge`: judges a saved record, or results of another tool, by the limits of a SKU."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli import rejudge, screen
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.cli.tool_outputs.output import ToolOutput, several
from pytest_accel.cli.tool_outputs.recognise import LOOKED_FOR, OutputReader, other, reader_of
from pytest_accel.cli.tool_outputs.verdicts import judge_output, lacking, not_judged, whatever_platform
from pytest_accel.core import exits, untrusted
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Names
from pytest_accel.core.paths import writing
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Closing, Verdict
from pytest_accel.judging.records.differences import judged_otherwise
from pytest_accel.run import record
from pytest_accel.run.options import AUTO, Refused
from pytest_accel.run.statement import SUMS
from pytest_accel.run.terms import Terms, Wanted
from pytest_accel.run.terms import boards as boards_of
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.views import differences, fabric, terminal
from pytest_accel.views.next_steps import next_steps
from pytest_accel.views.table import table
from pytest_accel.views.terminal import Line

DESCRIPTION = """Judge earlier results without measuring: a saved record by today's limits or those of another file,
or the output of another tool by the limits of a SKU, as nccl-tests, rccl-tests or nvbandwidth
printed it. A record is never accepted more easily than its
run was: if the run was filtered, interrupted or simulated, that still counts. Results of another tool are never
accepted. The exit statuses are those of a run: 0 accepted, 1 rejected, 4 wrong file or option, 6 not judged, or held
where an accelerator's SKU is named. Where none is named, a record whose limits hold ends as its run did."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `judge`."""
    option = parser.add_argument
    option(
        "file",
        metavar="RECORD|OUTPUT",
        help="a record.json, the folder that holds it, or the output of a tool named above",
    )
    option(
        "--sku",
        metavar="NAME|FILE",
        help="the SKU, or threshold file, to judge by; required for results of a tool (default: the SKU of the record)",
    )
    option(
        "--platform",
        metavar="NAME",
        help="the platform to judge by (default: that of the record; for an output, the one that fits the number of "
        "devices)",
    )
    option(
        "--level",
        choices=LEVELS,
        help="the level whose limits are required (default: that of the record; for an output, standard)",
    )
    option(
        "--expect",
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


def run(chosen: argparse.Namespace) -> int:
    """Judge a record or an output, and return the exit status of a run. Raises WrongUse."""
    path = Path(chosen.file)
    if not path.is_file() or path.name == record.FILE:
        return _judge_record(chosen)
    text = untrusted.read_text(path, most=untrusted.JSON_BYTES)
    reader, own, notes = reader_of(text)
    if reader:
        return _judge_output(chosen, own, reader, notes)
    unknown = f"no record and no output of a known tool: {LOOKED_FOR}"
    if (what := other(text)) or not text.lstrip().startswith("{"):
        raise BadFile(f"{path}: is {what or unknown}")
    try:
        found = untrusted.parse_json(text.encode(), str(path))
    except BadFile as bad:
        raise BadFile(f"{bad}; {unknown}") from None
    if "schema" not in found:
        raise BadFile(f"{path}: is JSON with {several(list(found)) or 'no key'}, but without 'schema': {unknown}")
    return _judge_record(chosen)


def _judge_record(chosen: argparse.Namespace) -> int:
    """Judge a record again, print what changed, and return the exit status. Raises BadRecord or Refused."""
    path = record.find(Path(chosen.file))
    if chosen.output:
        _check_free(chosen.output)
    old = record.read(path)
    terms, boards = _terms(old, chosen)
    new = judge_again(old, terms, boards)
    names = record.names_of(new)
    screen.show([(f"{path}: {_as_what(new.sku.get('name', 'no SKU'), new.run['platform'], new.run['level'])}", "bold")])
    screen.show(_belief(old))
    screen.show(_lists(old, new))
    screen.show(table(new.verdicts, names, record.findings_of(new), full=chosen.verbose, width=screen.width()))
    screen.show(differences.changed(judged_otherwise(old, new)))
    if old.closing.line:
        screen.show([(f"before: {old.closing.line}", "")])
    if old.objections:
        _close(replace(old.closing, line=f"{rejudge.AGAIN} {old.closing.line}"), new.verdicts)
        return exits.NOT_JUDGED
    _close(new.closing, new.verdicts)
    found, places = record.findings_of(new), record.places_of(new)
    screen.show(next_steps(found, new.verdicts, names, places, full=chosen.verbose))
    if chosen.output:
        screen.show([(f"record: {_write(new, old, path, chosen.output)}", "")])
    return new.closing.exit


def _belief(saved: Run) -> list[Line]:
    """Return whether a record is believed, its hash, and whether it is signed."""
    if saved.objections:
        return [(f"not believed: {objection}", "red") for objection in saved.objections]
    signed = untrusted.exists(saved.path.with_name(f"{SUMS}.sig"))
    return terminal.hash_lines(saved.sealed, screen.width(), signed=signed)


def _lists(old: Run, new: Run) -> list[Line]:
    """Return the packing list that the record is judged by, and the one before if it is another."""
    if not new.packing_list:
        return []
    then, other = old.packing_list, old.packing_list.get("sha256") != new.packing_list.get("sha256")
    lines: list[Line] = [(f"packing list: {_of_list(new)}{'' if other else ', as before'}", "")]
    if other:
        lines.append((f"packing list before: {_of_list(old) if then else 'none'}", "yellow"))
    return lines


def _of_list(found: Run) -> str:
    """Return the packing list of a record in words."""
    entry = found.packing_list
    boards = entry.get("boards", 0)
    return f"{entry.get('file')}, {boards:,} board{'s' * (boards != 1)}, sha256 {entry.get('sha256')}"


def _terms(old: Run, chosen: argparse.Namespace) -> tuple[Terms, PackingList | None]:
    """Return the terms and the packing list of the options, or else those of the record. Raises Refused."""
    asked = old.sku.get("asked")
    then = asked if asked and asked != AUTO else old.sku.get("name")
    name = str(chosen.sku or then or AUTO)
    wanted = Wanted(name, chosen.platform or AUTO, chosen.level, "--")
    sku = wanted.named(on_hardware=not old.run.get("simulated"))
    settled = rejudge.terms_of(wanted, sku, old)
    boards = boards_of(chosen.expect, "--expect")
    if sku is None:
        if chosen.sku:
            raise Refused(f"--sku={name}: name a SKU ('pytest-accel sku list' shows them) or a threshold file")
        if boards:
            raise Refused("--expect: the record names no SKU, and without one nothing is judged; add --sku")
        settled = replace(settled, platform=Platform(str(old.run.get("platform")), None))
    return replace(settled, named=bool(chosen.sku)), boards


def _check_free(folder: Path) -> None:
    """Raise Refused for a folder that holds a record, or that the system refuses, before anything is judged."""
    with writing("--output", folder):
        taken = (folder / record.FILE).exists()
    if taken:
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


def _judge_output(chosen: argparse.Namespace, text: str, reader: OutputReader, notes: Sequence[str]) -> int:
    """Judge another tool's output, with notes on it, and return the exit status. Raises BadFile or Refused."""
    if chosen.output:
        raise Refused("--output: results of another tool cannot be written as a record; leave the option out")
    if chosen.expect:
        raise Refused("--expect: results of another tool state no serial numbers; leave the option out")
    if not chosen.sku:
        raise Refused("--sku: name the SKU to judge the output by ('pytest-accel sku list' shows them)")
    wanted = Wanted(chosen.sku, chosen.platform or AUTO, chosen.level, "--")
    sku = wanted.named()
    if sku is None:
        raise Refused("--sku=auto: an output does not identify the product; name a SKU")
    found = _read(text, chosen.file, sku, reader)
    names = [device.uuid for device in found.devices]
    terms = wanted.settled(sku, found.devices)
    verdicts, closing, absent = judge_output(found, sku, terms)
    count = f"{len(names)} of {terms.platform.devices or 'any number of'} devices"
    screen.show([(f"{chosen.file}: {_as_what(sku.name, terms.platform.name, terms.level)}, {count}", "bold")])
    screen.show([(f"{found.tool}: {note}", "yellow") for note in (*notes, *found.notes)])
    screen.show(table(verdicts, Names(), full=chosen.verbose, width=screen.width()))
    for figure in found.figures:
        screen.show(fabric.port_lines(figure, sku, terms.platform, screen.width()))
    screen.show([(line, "yellow") for line in not_judged(verdicts)])
    missing = lacking(absent, names)
    screen.show([(f"required, but not in the file: {missing}", "yellow")] if missing else [])
    if not chosen.platform:
        closing = whatever_platform(found, sku, terms, closing)
    _close(closing, verdicts)
    return closing.exit


def _read(text: str, shown: str, sku: Sku, reader: OutputReader) -> ToolOutput:
    """Return what an output states. Raises BadFile, and Refused for an output of another product."""
    platforms = sku.platforms.values()
    limits = {metric: limit for platform in platforms for metric, limit in sku.limits_on(platform).items()}
    limits = {**Terms(sku, next(iter(platforms))).limits, **limits}
    found = reader.read(text, shown, limits, sku)
    known = [each for each in found.devices if each.model]
    other = next((each for each in known if not sku.recognises(each)), None)
    if other:
        raise Refused(f"--sku={sku.name}: {shown} names {other.name} {other.model}, which is another product")
    unnamed = [] if found.devices and known == found.devices else ["the output names no product; it is taken as named"]
    return replace(found, notes=[*found.notes, *unnamed])


def _as_what(sku: str, platform: str, level: str) -> str:
    """Return the terms of a judgement in words."""
    return f"judged as {sku}, platform {platform}, level {level}"


def _close(closing: Closing, verdicts: Sequence[Verdict]) -> None:
    """Print the closing line."""
    screen.show(terminal.closing_lines(closing, verdicts, screen.width()))
    screen.show(terminal.next_lines(closing, screen.width()))
    screen.show(terminal.finds_lines(closing, screen.width()))
