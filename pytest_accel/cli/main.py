"""The command `pytest-accel`: what is not a test run."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import date

import pytest_accel
from pytest_accel.cli import judge, schema
from pytest_accel.core.yaml_lines import BadFile
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.setup import Setup
from pytest_accel.simulate import faults
from pytest_accel.skus import lint, loader, releases
from pytest_accel.views import devices, lint_report, sheet
from pytest_accel.views import host as host_view

JUDGE = """Judge what was measured before by the limits of today, or of another file. A record is judged as its run
was, and never accepted more easily: what filtered, interrupted or simulated the run still counts. Figures of other
tools (a CSV file with the header device,metric,value,unit; more columns are conditions) are never accepted. Exit
statuses are those of a run: 0 holds, 1 rejected, 4 a wrong file or option, 6 not judged."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="pytest-accel", description=__doc__)
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("discover", help="show devices, SKU and host, and what cannot be reached or seen")
    sku = commands.add_parser("sku", help="the threshold files").add_subparsers(dest="action", required=True)
    sku.add_parser("list", help="the SKUs that are shipped, and what their files are worth")
    show = sku.add_parser("show", help="one SKU: datasheet, platforms, limits, and the source of every figure")
    show.add_argument("name", metavar="NAME|FILE")
    show.add_argument("--format", choices=("text", "md"), default="text", help="md: as the annex of a contract")
    check = sku.add_parser("lint", help="are the figures of threshold files plausible?")
    check.add_argument("files", metavar="FILE", nargs="*", help="a file or the name of a SKU; all shipped ones without")
    check.add_argument("--list", action="store_true", dest="rules", help="show the rules")
    check.add_argument("--all", action="store_true", help="also what is explained, and what is in extended files")
    check.add_argument("--format", choices=("text", "json"), default="text")
    simulate = commands.add_parser("simulate", help="what --accel-simulate can do")
    simulate.add_argument("--list", action="store_true", required=True, help="the faults that a node file may name")
    judge.arguments(
        commands.add_parser("judge", help="judge a saved record again, or figures of another tool", description=JUDGE)
    )
    files = commands.add_parser("schema", help="the JSON Schema of threshold files or of records")
    files.add_argument("of", choices=schema.FILES)
    chosen = parser.parse_args(arguments)
    if chosen.command == "simulate":
        return list_faults()
    if chosen.command == "discover":
        return discover()
    try:
        status = _run(chosen)
        sys.stdout.flush()
    except BadFile as bad:
        print(bad, file=sys.stderr)
        return 4
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _versions() -> str:
    return f"{pytest_accel.__version__}, thresholds {releases.version()}"


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "judge":
        return judge.judge(chosen)
    return print_schema(chosen.of) if chosen.command == "schema" else _sku(chosen)


def _sku(chosen: argparse.Namespace) -> int:
    if chosen.action == "list":
        return list_skus()
    if chosen.action == "show":
        return show_sku(chosen.name, chosen.format)
    return list_rules() if chosen.rules else lint_skus(chosen.files, everything=chosen.all, form=chosen.format)


def discover() -> int:
    """Print what an acceptance run would find here, the host included; 1 if a device that is there cannot be used."""
    setup = Setup(Options(sku="auto"))
    pool = WorkerPool(SensorClient(setup.options.patience), lambda what, spent, expected: None)
    try:
        setup.prepare()
        setup.look(pool)
        host = pool.sensor.host()
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 4
    finally:
        pool.stop()
    print(f"SKU: {setup.sku.name if setup.sku else 'none'}, platform: {setup.platform.name}")
    print("\n".join(devices.lines(setup.devices)))
    print("\n".join(host_view.lines(host)))
    problem = setup.found.unreachable(setup.sku.vendor if setup.sku else None)
    if problem:
        print(f"not reachable: {problem.reason}", file=sys.stderr)
    return 1 if problem else 0


def print_schema(name: str) -> int:
    """Print a shipped JSON Schema."""
    print(schema.text(name), end="")
    return 0


def list_faults() -> int:
    """Print the faults of a simulated node: what each does, its parameters, what should catch it."""
    print("\n".join(faults.listing()))
    return 0


def list_skus() -> int:
    """Print the shipped SKUs, one a line, and the version of their thresholds. Raises BadFile."""
    print(sheet.text([sheet.listing(loader.load_shipped())]))
    print(f"\nthresholds {releases.version()}")
    return 0


def show_sku(name: str, form: str) -> int:
    """Print everything that is known of one SKU. Raises BadFile."""
    sku = loader.load(name)
    tables = sheet.sheet(sku)
    if form == "md":
        print(sheet.markdown(sku, tables), end="")
    else:
        print(f"{sku.name}: {sku.title} ({sku.vendor}{', ' + sku.architecture if sku.architecture else ''})\n")
        print(sheet.text(tables))
    return 0


def list_rules() -> int:
    """Print the rules of the lint, one a line."""
    rules = lint.explanations()
    width = max(map(len, rules))
    print("\n".join(f"{name:{width}}  {explained}" for name, explained in rules.items()))
    return 0


def lint_skus(files: list[str], *, everything: bool, form: str) -> int:
    """Print what is not plausible in threshold files; 1 if anything is left unexplained. Raises BadFile."""
    report = lint.lint(files, today=date.today().isoformat())  # noqa: DTZ011  the day where the reader is
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    shown = lint_report.text(report, everything=everything, colour=colour)
    print(lint_report.as_json(report) if form == "json" else shown)
    return 0 if report.clean else 1
