"""`pytest-accel judge`: a saved record, or the figures of another tool, held against the limits of a SKU."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli import external_results, record_reader, rejudge
from pytest_accel.cli.external_results import BadFigures
from pytest_accel.cli.record_reader import BadRecord
from pytest_accel.cli.rejudge import Terms, judge_again
from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import LEVELS, Platform, Sku
from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.closing import Closing
from pytest_accel.run import record, selection
from pytest_accel.run.options import Refused
from pytest_accel.run.record import Record
from pytest_accel.skus import releases, requirements
from pytest_accel.views import changes, terminal
from pytest_accel.views.terminal import Line

ANSI = {"red": 31, "green": 32, "yellow": 33, "bold": 1}
WRONG = 4
"""Exit status for a wrong option or file, as in a run."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `judge` is given."""
    add = parser.add_argument
    add("file", metavar="RECORD|FIGURES.csv", help="record.json or its folder; or a table device,metric,value,unit")
    add("--accel-sku", metavar="NAME|FILE", help="judge by this SKU; of a record, by default the one that it names")
    add("--accel-platform", metavar="NAME", help="default: the record's; of figures, by the number of devices")
    add("--accel-level", choices=LEVELS, help="default: the record's; of figures, standard")
    add("--output", metavar="DIR", type=Path, help="write what was judged again as a new record that names the old one")


def judge(chosen: argparse.Namespace) -> int:
    """Judge what was named; returns the exit status, that of a run. What is wrong with a file or option is a 4."""
    try:
        if chosen.file.endswith(".csv"):
            return _judge_figures(chosen)
        return _judge_record(chosen)
    except (BadRecord, BadFigures, Refused) as error:
        print(error, file=sys.stderr)
        return WRONG


def _judge_record(chosen: argparse.Namespace) -> int:
    path = record_reader.find(Path(chosen.file))
    old = record_reader.load(path)
    new = judge_again(old, _terms(old, chosen))
    names = rejudge.names_of(new)
    _print([(f"{path}: {_as_what(new.sku.get('name', 'no SKU'), new.run['platform'], new.run['level'])}", "bold")])
    _print(terminal.table(new.verdicts, names))
    files = rejudge.files_changed(old.sku.get("files", {}), new.sku.get("files", {}))
    _print(changes.releases(old.sku.get("thresholds", ""), new.sku.get("thresholds", "")))
    _print(changes.limits(rejudge.limits_moved(old, new), _reasons(old, new)))
    _print(changes.lines(rejudge.changes(old, new), files, names))
    if old.closing.get("line"):
        _print([(f"then: {old.closing['line']}", "")])
    _close(Closing(**new.closing), new.verdicts)
    if chosen.output:
        _print([(f"record: {_write(new, path, chosen.output)}", "")])
    return int(new.closing["exit"])


def _terms(old: Record, chosen: argparse.Namespace) -> Terms:
    """What was asked for, and else what the record names. Raises Refused."""
    name = chosen.accel_sku or _named(old)
    sku = selection.named(name) if name else None
    level = chosen.accel_level or old.run.get("level")
    if level not in LEVELS:
        raise Refused(f"--accel-level: the record names no level; choose {', '.join(LEVELS)}")
    if sku is None:
        if name:
            raise Refused(f"--accel-sku={name}: to judge again, name a SKU or a file (pytest-accel sku list)")
        return Terms(None, Platform(str(old.run.get("platform")), None), level, releases.version())
    then = str(old.run.get("platform"))
    wanted = chosen.accel_platform or (then if then in sku.platforms else "auto")
    platform, _ = selection.platform_of(sku, wanted, old.devices)
    return Terms(sku, platform, level, releases.version())


def _reasons(old: Record, new: Record) -> Callable[[str], list[str]]:
    """Return a function from a metric to what the changelog says of its limit, each reason with its version."""
    entries = releases.since(old.sku.get("thresholds", ""), releases.shipped())
    skus = [name.removesuffix(".yaml") for name in new.sku.get("files", {})]

    def reasons(metric: str) -> list[str]:
        said = [(entry.version, entry.why(sku, metric)) for entry in entries for sku in skus]
        return [f"{version}: {why}" for version, why in dict.fromkeys(said) if why]

    return reasons


def _named(old: Record) -> str | None:
    """The SKU of the record: as it was asked for, which may be a file, or as it was recognised."""
    asked = old.sku.get("asked")
    return str(asked) if asked and asked != "auto" else old.sku.get("name")


def _write(new: Record, path: Path, folder: Path) -> Path:
    """Write the new record, which names the old one by path and hash. Raises Refused."""
    if (folder / record.FILE).exists():
        raise Refused(f"--output: {folder} holds another record; name a new folder")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    new.judged_from = {"record": str(path.absolute()), "sha256": record.hash_file(path), "judged": now}
    if new.telemetry.get("file"):
        new.telemetry = {**new.telemetry, "file": str(path.absolute().parent / new.telemetry["file"])}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record.write(new, folder)
    except OSError as error:
        raise Refused(f"--output: cannot write to {folder}: {error.strerror}") from None
    return folder / record.FILE


def _judge_figures(chosen: argparse.Namespace) -> int:
    if chosen.output:
        raise Refused("--output: figures of another tool make no record")
    if not chosen.accel_sku:
        raise Refused("--accel-sku: name the SKU that the figures are to be judged by (pytest-accel sku list)")
    sku = selection.named(chosen.accel_sku)
    if sku is None:
        raise Refused("--accel-sku=auto: figures do not say what was measured; name a SKU")
    found, platform = _figures(Path(chosen.file), sku, chosen.accel_platform)
    level = chosen.accel_level or "standard"
    verdicts, closing, lacking = external_results.judge_figures(found, sku, platform, level)
    count = f"{len(external_results.names(found))} of {platform.devices or 'any number of'} devices"
    _print([(f"{chosen.file}: {_as_what(sku.name, platform.name, level)}, {count}", "bold")])
    _print(terminal.table(verdicts, {}))
    _print([(f"not in the file, and required: {_listed(lacking)}", "yellow")] if lacking else [])
    _close(closing, verdicts)
    return closing.exit


def _figures(path: Path, sku: Sku, wanted: str | None) -> tuple[list[external_results.ExternalFigure], Platform]:
    """The figures and the platform, which by default their number of devices points to. Raises BadFigures, Refused."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadFigures(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFigures(f"{path}: is not UTF-8 text") from None
    every = {metric: limit for each in sku.platforms.values() for metric, limit in sku.limits_on(each).items()}
    every = {**requirements.limits(sku, next(iter(sku.platforms.values())), 1), **every}
    found = external_results.parse(text, str(path), every)
    devices = [Device(name, place, sku.vendor, "") for place, name in enumerate(external_results.names(found))]
    return found, selection.platform_of(sku, wanted or "auto", devices)[0]


def _as_what(sku: str, platform: str, level: str) -> str:
    return f"as {sku}, platform {platform}, {level}"


def _listed(lacking: Sequence[str]) -> str:
    """What is lacking, by metric: for which devices."""
    devices: dict[str, list[str]] = {}
    for each in lacking:
        device, _, metric = each.rpartition(" ")
        devices.setdefault(metric, []).append(device)
    return ", ".join(f"{metric} ({' '.join(of)})" for metric, of in devices.items())


def _close(closing: Closing, verdicts: Sequence[Verdict]) -> None:
    _print(terminal.closing_lines(closing, verdicts))


def _print(lines: Sequence[Line]) -> None:
    """Lines in their colours, where there is a terminal and nobody forbids it."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for text, colour in lines:
        print(f"\033[{ANSI[colour]}m{text}\033[0m" if coloured and colour else text)
