"""The subcommand `pytest-accel store`: the results of many nights in few files, and their analysis."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Final, TextIO

from pytest_accel.cli import result_file
from pytest_accel.cli.parser import Actions, Subcommand, declare, run_chosen
from pytest_accel.core import exits, paths
from pytest_accel.core.durations import value_that
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import show
from pytest_accel.core.words import counted

DESCRIPTION = "Keep the results of many nights in few files, and analyse them."
ADD = """Add the runs of records to a store: a folder for each night with sorted Parquet files, for DuckDB and other
programs. A run is added once. Unreadable records and folders are named, and the others are added; the exit status is 6
then. Filtered runs and records that were judged again do not count."""
SHOW = """Show a night of a store, worst first: results, devices, nodes and racks behind comparable ones, slowdowns with
their beginning, repeated failures, moved boards, missing nodes and nights, changes by updates. The exit status is 0
without anomalies; 1 for a rejected node, something behind comparable ones, a slowdown or a repeated failure; 6 for a
node without a verdict or a run, a device in two locations, or implausible values."""
SQL = """Print the SQL of a view for each question of 'store show', over the files of a store, for DuckDB and programs
that read its files, such as Grafana or Superset: pytest-accel store sql STORE | duckdb fleet.db"""
DEVICE = "Show the nights and figures of one device, wherever in the fleet it was."
FORMATS: Final = ("text", "prometheus", "json")
NAMED: Final = 10
"""Most files that are named one by one."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `store`."""
    declare(parser, ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action, and return the exit status. Raises BadFile."""
    try:
        return run_chosen(args)
    except OSError as error:
        raise BadFile(paths.refusal(error) if error.filename else f"{args.store}: {error.strerror}") from None


def _day(text: str) -> date:
    """Return a day in ISO 8601. Raises ArgumentTypeError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no day such as 2026-11-23") from None


_count = value_that(lambda number: 0 < number < 100_000, "above 0, below 100,000", int)


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", type=Path, help="the folder of the store")


# -- add


def _declare_add(parser: argparse.ArgumentParser) -> None:
    _store(parser)
    add = parser.add_argument
    add("records", metavar="RECORD|DIR", nargs="+", help="a record.json, or a folder with records somewhere below it")
    add("--night", metavar="YYYY-MM-DD", type=_day, help="the night (default: the day in UTC on which each run began)")
    add("--simulated", action="store_true", help="add runs of simulated nodes, to a store that holds no others")


def _add(args: argparse.Namespace) -> int:
    """Add records to a store; return 0, or 6 if some could not be added."""
    from pytest_accel.fleet.nights import extract, night_store

    records, unreadable = extract.find(args.records)
    result = night_store.add(args.store, records, night=args.night, simulated=args.simulated)
    result.unread += unreadable
    for night, number in result.runs.items():
        print(f"{night}: {counted(number, 'run')} added")
    if result.duplicates:
        print(f"{counted(result.duplicates, 'run')} already there")
    if not result.runs and not result.duplicates:
        print("nothing added")
    _name("passed over", result.passed_over, sys.stdout)
    _name("not added", result.unread, sys.stderr)
    return exits.NOT_JUDGED if result.unread else exits.HOLDS


def _name(label: str, files: list[str], stream: TextIO) -> None:
    """Print files with the reason for each, the first of them one by one."""
    for file in files[:NAMED]:
        print(printable(f"{label}: {file}"), file=stream)
    if len(files) > NAMED:
        print(f"{label}: {counted(len(files) - NAMED, 'more file')}", file=stream)


# -- show


def _declare_show(parser: argparse.ArgumentParser) -> None:
    _store(parser)
    add = parser.add_argument
    add("--night", metavar="YYYY-MM-DD", type=_day, help="the night to show (default: the last one)")
    text = "number of nights to look at, the shown one included (default: %(default)s)"
    add("--nights", metavar="N", type=_count, default=30, help=text)
    add("--format", choices=FORMATS, default="text", help="default: %(default)s")
    add("--output", metavar="FILE", type=Path, help="the file to replace, in one step (default: standard output)")


def _show(args: argparse.Namespace) -> int:
    """Show a night; return 0, 1 or 6. Raises BadFile, or OSError."""
    from pytest_accel.fleet.nights import night, night_metrics, text
    from pytest_accel.fleet.nights.queries import StoredNights

    last = args.night.isoformat() if args.night else None
    with contextlib.closing(StoredNights(args.store, night.window(args.store, last, args.nights))) as fleet:
        report = night.look(fleet)
    if args.format == "json":
        counts = {"nodes": report.nodes, "devices": report.devices, "gone": report.gone, "exit": report.exit}
        output = _json({"schema": 1, **asdict(report), **counts})
    else:
        output = (night_metrics if args.format == "prometheus" else text).text(report)
    result_file.write(args.output, output)
    return report.exit


def _json(data: object) -> str:
    """Return data as JSON with an end of line; days are ISO 8601."""
    return json.dumps(data, indent=1, allow_nan=False, default=str) + "\n"


# -- sql


def _sql(args: argparse.Namespace) -> int:
    """Print the views; return 0."""
    from pytest_accel.fleet.nights import night_store, queries

    night_store.is_simulated(args.store)  # demands a store
    folder = args.store.absolute()
    folders = [night_store.folder_of(folder, night) for night in night_store.nights(args.store)[-args.nights :]]
    if not folders:
        raise BadFile(f"{args.store}: holds no night")
    files = ([folder / name for folder in folders] for name in (night_store.FIGURES, night_store.RUNS))
    print(f"{queries.base(folder, *files)}\n{queries.VIEWS.read_text(encoding='utf-8')}", end="")
    return 0


def _declare_sql(parser: argparse.ArgumentParser) -> None:
    _store(parser)
    parser.add_argument("--nights", metavar="N", type=_count, default=30, help="the last nights (default: %(default)s)")


# -- device


def _declare_device(parser: argparse.ArgumentParser) -> None:
    _store(parser)
    add = parser.add_argument
    add("device", metavar="SERIAL|UUID", help="serial number or UUID of the device")
    add("--metric", metavar="METRIC", default="", help="show one metric only")
    add("--nights", metavar="N", type=_count, default=365, help="number of last nights (default: %(default)s)")
    add("--format", choices=("text", "json"), default="text", help="default: %(default)s")


def _device(args: argparse.Namespace) -> int:
    """Show the nights and figures of a device; return 0, or 6 if a night has it on several nodes.

    Raises BadFile if the store knows no device of that name.
    """
    from pytest_accel.fleet.nights import device_history, night_store
    from pytest_accel.fleet.nights.queries import StoredNights

    with contextlib.closing(StoredNights(args.store, night_store.nights(args.store)[-args.nights :])) as fleet:
        devices = fleet.device(args.device)
        if not devices:
            raise BadFile(f"{args.store}: knows no device with serial number or UUID {printable(args.device, 200)}")
        histories = [
            device_history.DeviceHistory(fleet.simulated, **device, entries=fleet.history(device["uuid"], args.metric))
            for device in devices
        ]
    if args.format == "json":
        print(_json(list(map(asdict, histories))), end="")
    else:
        print("\n".join(printable(line) for entry in histories for line in device_history.text(entry, show)))
    return exits.NOT_JUDGED if any(entry.doubled for entry in histories) else exits.HOLDS


ACTIONS: Actions = {
    "add": Subcommand("add records to a store", ADD, _declare_add, _add),
    "show": Subcommand("show a night, worst first", SHOW, _declare_show, _show),
    "sql": Subcommand("print the SQL of the questions", SQL, _declare_sql, _sql),
    "device": Subcommand("show the past of one device", DEVICE, _declare_device, _device),
}
