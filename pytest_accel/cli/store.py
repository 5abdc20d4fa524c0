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
without findings; 1 for a rejected node, something behind comparable ones, a slowdown or a repeated failure; 6 for a
node without a verdict or a run, a device in two places, or implausible values."""
SQL = """Print the SQL of a view for each question of 'store show', over the files of a store, for DuckDB and programs
that read its files, such as Grafana or Superset: pytest-accel store sql STORE | duckdb fleet.db"""
DEVICE = "Show the nights and figures of one device, wherever in the fleet it was."
FORMATS: Final = ("text", "prometheus", "json")
NAMED: Final = 10
"""Most files that are named one by one."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `store`."""
    declare(parser, ACTIONS)


def run(chosen: argparse.Namespace) -> int:
    """Run the chosen action, and return the exit status. Raises BadFile."""
    try:
        return run_chosen(chosen)
    except OSError as error:
        raise BadFile(paths.refused(error) if error.filename else f"{chosen.store}: {error.strerror}") from None


def _day(text: str) -> date:
    """Return a day in ISO 8601. Raises ArgumentTypeError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no day such as 2026-11-23") from None


_count = value_that(lambda found: 0 < found < 100_000, "above 0, below 100,000", int)


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", type=Path, help="the folder of the store")


# -- add


def _declare_add(parser: argparse.ArgumentParser) -> None:
    _store(parser)
    add = parser.add_argument
    add("records", metavar="RECORD|DIR", nargs="+", help="a record.json, or a folder with records somewhere below it")
    add("--night", metavar="YYYY-MM-DD", type=_day, help="the night (default: the day in UTC on which each run began)")
    add("--simulated", action="store_true", help="add runs of simulated nodes, to a store that holds no others")


def _add(chosen: argparse.Namespace) -> int:
    """Add records to a store; return 0, or 6 if some could not be added."""
    from pytest_accel.fleet.nights import extract, store

    records, closed = extract.find(chosen.records)
    added = store.add(chosen.store, records, night=chosen.night, simulated=chosen.simulated)
    added.unread += closed
    for night, number in added.runs.items():
        print(f"{night}: {counted(number, 'run')} added")
    if added.known:
        print(f"{counted(added.known, 'run')} already there")
    if not added.runs and not added.known:
        print("nothing added")
    _name("passed over", added.passed_over, sys.stdout)
    _name("not added", added.unread, sys.stderr)
    return exits.NOT_JUDGED if added.unread else exits.HOLDS


def _name(what: str, files: list[str], to: TextIO) -> None:
    """Print files with the reason for each, the first of them one by one."""
    for each in files[:NAMED]:
        print(printable(f"{what}: {each}"), file=to)
    if len(files) > NAMED:
        print(f"{what}: {counted(len(files) - NAMED, 'more file')}", file=to)


# -- show


def _declare_show(parser: argparse.ArgumentParser) -> None:
    _store(parser)
    add = parser.add_argument
    add("--night", metavar="YYYY-MM-DD", type=_day, help="the night to show (default: the last one)")
    text = "number of nights to look at, the shown one included (default: %(default)s)"
    add("--nights", metavar="N", type=_count, default=30, help=text)
    add("--format", choices=FORMATS, default="text", help="default: %(default)s")
    add("--output", metavar="FILE", type=Path, help="the file to replace, in one step (default: standard output)")


def _show(chosen: argparse.Namespace) -> int:
    """Show a night; return 0, 1 or 6. Raises BadFile, or OSError."""
    from pytest_accel.fleet.nights import metrics, night, text
    from pytest_accel.fleet.nights.queries import StoredNights

    last = chosen.night.isoformat() if chosen.night else None
    with contextlib.closing(StoredNights(chosen.store, night.window(chosen.store, last, chosen.nights))) as fleet:
        found = night.look(fleet)
    if chosen.format == "json":
        counts = {"nodes": found.nodes, "devices": found.devices, "gone": found.gone, "exit": found.exit}
        shown = _json({"schema": 1, **asdict(found), **counts})
    else:
        shown = (metrics if chosen.format == "prometheus" else text).text(found)
    result_file.write(chosen.output, shown)
    return found.exit


def _json(data: object) -> str:
    """Return data as JSON with an end of line; days are ISO 8601."""
    return json.dumps(data, indent=1, allow_nan=False, default=str) + "\n"


# -- sql


def _sql(chosen: argparse.Namespace) -> int:
    """Print the views; return 0."""
    from pytest_accel.fleet.nights import queries, store

    store.is_simulated(chosen.store)  # demands a store
    folders = [store.folder_of(chosen.store.absolute(), each) for each in store.nights(chosen.store)[-chosen.nights :]]
    if not folders:
        raise BadFile(f"{chosen.store}: holds no night")
    files = ([each / name for each in folders] for name in (store.FIGURES, store.RUNS))
    print(f"{queries.base(chosen.store.absolute(), *files)}\n{queries.VIEWS.read_text(encoding='utf-8')}", end="")
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


def _device(chosen: argparse.Namespace) -> int:
    """Show the nights and figures of a device; return 0, or 6 if a night has it on several nodes.

    Raises BadFile if the store knows no device of that name.
    """
    from pytest_accel.fleet.nights import history, store
    from pytest_accel.fleet.nights.queries import StoredNights

    with contextlib.closing(StoredNights(chosen.store, store.nights(chosen.store)[-chosen.nights :])) as fleet:
        known = fleet.device(chosen.device)
        if not known:
            raise BadFile(f"{chosen.store}: knows no device with serial number or UUID {printable(chosen.device, 200)}")
        found = [
            history.DeviceHistory(fleet.simulated, **each, entries=fleet.history(each["uuid"], chosen.metric))
            for each in known
        ]
    if chosen.format == "json":
        print(_json(list(map(asdict, found))), end="")
    else:
        print("\n".join(printable(line) for each in found for line in history.text(each, show)))
    return exits.NOT_JUDGED if any(each.doubled for each in found) else exits.HOLDS


ACTIONS: Actions = {
    "add": Subcommand("add records to a store", ADD, _declare_add, _add),
    "show": Subcommand("show a night, worst first", SHOW, _declare_show, _show),
    "sql": Subcommand("print the SQL of the questions", SQL, _declare_sql, _sql),
    "device": Subcommand("show the past of one device", DEVICE, _declare_device, _device),
}
