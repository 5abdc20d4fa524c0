"""The command line of `pytest-accel`: its subcommands and their output."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from datetime import date

import pytest_accel
from pytest_accel.cli import calibrate, compare, discover, fleet, freeze, health, judge, report, schema, store
from pytest_accel.cli.exit_status import WRONG
from pytest_accel.cli.parser import Parser, guarded
from pytest_accel.core import output
from pytest_accel.simulate import faults
from pytest_accel.skus import lint, loader, releases
from pytest_accel.views import lint_report, sheet, terminal
from pytest_accel.views.exports import prometheus

MAIN = """Companion of the pytest plugin: shows devices and limits, and judges records. The acceptance tests themselves
are run by 'pytest --accel-sku=NAME'."""
DISCOVER = """Show devices, matching SKU and host facts as a run would see them, and list the facts that this user
cannot read. Where no shipped SKU matches, show every device with its ids, the nearest SKU, what differs from it, and a
threshold file to fill in. Measures nothing. The exit status is 1 if a device itself cannot be used, 6 if its driver,
library or torch is missing here, 4 if the devices are not of one SKU."""
LINT = """Check the values in threshold files for plausibility: units, order of magnitude, sources, agreement with the
datasheet. The exit status is 4 for an error or a warning that the file does not explain; notes do not count."""
JUDGE = """Judge earlier results without measuring: a saved record by today's limits or those of another file, or
another tool's results by the limits of a SKU. Those are a CSV table with the columns device, metric, value and unit;
further columns are conditions. A record is never accepted more easily than its run was: if the run was filtered,
interrupted or simulated, that still counts. A table is never accepted. The exit statuses are those of a run: 0
accepted, 1 rejected, 4 wrong file or option, 6 not judged, or held where an accelerator's SKU is named. Where none is
named, a record whose limits hold ends as its run did."""

COMPARE = """Show what changed between the first and the last of some records, most important first: devices, verdicts,
facts, software, limits, and figures that changed by more than two runs differ. Of more than two, or a folder of
records, also the trend of every figure. A figure is compared with one of the same method and conditions alone. The exit
status is 0 if nothing is worse, 1 if a figure or a state of the hardware is, 4 for a wrong file, 6 if the records are
not comparable, or the oldest or the newest of several is not."""
CALIBRATE = """Make a threshold file from records of known-good nodes of one SKU. Outliers are left out and named; each
limit states how many healthy devices it rejects and which loss it finds. The file is for review (docs/calibrate.md).
The exit status is 0 if the file is clean and holds for the records that it came from, 6 if not, 4 for wrong inputs and
for too few devices."""
REPORT = """Write a saved record in another format. Nothing is judged again: the verdicts are those of the record. What
contradicts itself in the record is told on standard error. The exit status is 0, or 4 for a file that is no record or
cannot be written."""
MONITORING = """Print alert rules for Prometheus, or a dashboard for Grafana. Both go by the metrics that 'pytest-accel
report RECORD --format prometheus' writes."""
SCHEMA = """Print a JSON Schema (2020-12), for editors that check a file while it is written and for programs that read
records."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line `arguments` (default: sys.argv), and return the exit status.

    It is 4 instead of 0 if a part of the output was lost, since a redirected file is incomplete then.
    """
    status = guarded(lambda: _run(_parser().parse_args(arguments)))
    why = output.lost()
    if why:
        print(f"standard output: {why}", file=sys.stderr)
    return WRONG if why and not status else status


def _versions() -> str:
    """Return the versions of the package and of the shipped thresholds: "0.1.0, thresholds 2026.11.1"."""
    return f"{pytest_accel.__version__}, thresholds {releases.version()}"


def _run(chosen: argparse.Namespace) -> int:
    """Run a subcommand, and return the exit status. Raises BadFile."""
    if chosen.command == "simulate":
        return list_faults()
    if chosen.command == "discover":
        return discover.discover(only_skeleton=chosen.skeleton)
    if chosen.command == "judge":
        return judge.judge(chosen)
    if chosen.command == "compare":
        return compare.run(chosen)
    if chosen.command == "calibrate":
        return calibrate.calibrate(chosen)
    if chosen.command == "report":
        return report.report(chosen)
    if chosen.command == health.NAME:
        return health.health(chosen)
    if chosen.command == "fleet":
        return fleet.run(chosen)
    if chosen.command == "store":
        return store.run(chosen)
    if chosen.command == "monitoring":
        return print_text(prometheus.FILES[chosen.of].read_text(encoding="utf-8"))
    return print_text(schema.text(chosen.of)) if chosen.command == "schema" else _sku(chosen)


def _parser() -> Parser:
    """Declare the subcommands and their arguments."""
    parser = Parser(prog="pytest-accel", description=MAIN)
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(dest="command", required=True)
    text = "show the devices, their SKU and the host as an acceptance run would find them"
    _declare_discover(commands.add_parser("discover", help=text, description=DISCOVER))
    _declare_sku(commands.add_parser("sku", help="list, show and check the limits of products"))
    text = "list the faults that --accel-simulate can put into a simulated node"
    simulate = commands.add_parser("simulate", help=text, description=f"{text[0].upper()}{text[1:]}.")
    text = "list the faults: effect, parameters, and the metrics that should fail"
    simulate.add_argument("--list", action="store_true", required=True, help=text)
    text = "judge a saved record again, or the results of another tool"
    judge.arguments(commands.add_parser("judge", help=text, description=JUDGE))
    text = "show what changed between two records, or over a folder of them"
    compare.arguments(commands.add_parser("compare", help=text, description=COMPARE))
    text = "make a threshold file from records of known-good nodes"
    calibrate.arguments(commands.add_parser("calibrate", help=text, description=CALIBRATE))
    text = "write a saved record in another format"
    report.arguments(commands.add_parser("report", help=text, description=REPORT))
    text = "check this node without loading it, in one line, for schedulers"
    health.arguments(commands.add_parser(health.NAME, help=text, description=health.DESCRIPTION))
    text = "run on many nodes by their scheduler, and report on all of them"
    fleet.arguments(commands.add_parser("fleet", help=text, description=f"{text[0].upper()}{text[1:]}."))
    text = "keep the results of many nights in few files, and analyse them"
    store.arguments(commands.add_parser("store", help=text, description=f"{text[0].upper()}{text[1:]}."))
    text = "print alert rules for Prometheus or a dashboard for Grafana"
    shipped = commands.add_parser("monitoring", help=text, description=MONITORING)
    shipped.add_argument("of", choices=prometheus.FILES, help="the file to print")
    text = "print the JSON Schema of threshold files or of records"
    files = commands.add_parser("schema", help=text, description=SCHEMA)
    files.add_argument("of", choices=schema.FILES, help="the kind of file that the schema describes")
    return parser


def _declare_discover(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `discover`."""
    text = "print only a threshold file to fill in, for the product that most of the devices are"
    parser.add_argument("--skeleton", action="store_true", help=text)


def _declare_sku(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `sku`."""
    parser.description = (
        "A SKU is one product in one form factor. Its threshold file holds how to recognise it, its datasheet, its "
        "platforms and the limits that a node has to hold."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="list the shipped SKUs, with the level from which on a node can be accepted")
    show = actions.add_parser("show", help="show datasheet, platforms and limits of one SKU, with the sources")
    show.add_argument("name", metavar="NAME|FILE", help="a shipped SKU, or a threshold file of your own")
    show.add_argument(
        "--format", choices=("text", "md"), default="text", help="md: Markdown, such as for the annex of a contract"
    )
    text = "write all limits of a SKU on one platform at one level into one file with one hash"
    freeze.arguments(actions.add_parser("freeze", help=text, description=freeze.DESCRIPTION))
    check = actions.add_parser("lint", help="check threshold files for implausible values", description=LINT)
    text = "a threshold file, or the name of a shipped SKU (default: all shipped files)"
    check.add_argument("files", metavar="FILE", nargs="*", help=text)
    check.add_argument("--list", action="store_true", dest="rules", help="list the rules instead")
    text = "show also findings that the file explains, and those in the files that it extends"
    check.add_argument("--all", action="store_true", help=text)
    check.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")


def _sku(chosen: argparse.Namespace) -> int:
    """Run an action of `sku`, and return the exit status."""
    if chosen.action == "list":
        return list_skus()
    if chosen.action == "freeze":
        return freeze.freeze(chosen)
    if chosen.action == "show":
        return show_sku(chosen.name, chosen.format)
    return list_rules() if chosen.rules else lint_skus(chosen.files, everything=chosen.all, form=chosen.format)


def print_text(text: str) -> int:
    """Print a shipped file; return 0."""
    print(text, end="")
    return 0


def list_faults() -> int:
    """Print the faults of a simulated node: the effect of each, its parameters, and the metrics that should fail."""
    print("\n".join(faults.listing()))
    return 0


def list_skus() -> int:
    """Print the shipped SKUs, one per line, and the version of their thresholds. Raises BadFile."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(sheet.text([sheet.listing(loader.load_shipped(), width)]))
    print("\naccepts: the level from which on a node can be accepted; by: what stands behind its floors with the")
    print(
        "software of their sources ('pytest-accel sku show NAME'); GB, GB/s: memory and its bandwidth; TFLOPS: peak of"
    )
    print("bf16, or else of fp16")
    print(f"thresholds {releases.version()}")
    return 0


def show_sku(name: str, form: str) -> int:
    """Print the data sheet of a SKU in the format `form` ("text" or "md"). Raises BadFile."""
    sku = loader.load(name)
    tables = sheet.sheet(sku)
    if form == "md":
        print(sheet.markdown(sku, tables), end="")
    else:
        print(f"{sku.name}: {sku.title} ({sku.vendor}{', ' + sku.architecture if sku.architecture else ''})")
        print("\n".join([*(line for line, _ in terminal.contract_lines(sku)), ""]))
        print(sheet.text(tables))
    return 0


def list_rules() -> int:
    """Print the rules of the lint, one per line."""
    rules = lint.explanations()
    width = max(map(len, rules))
    print("\n".join(f"{name:{width}}  {explained}" for name, explained in rules.items()))
    return 0


def lint_skus(files: list[str], *, everything: bool, form: str) -> int:
    """Print implausible values in threshold files; return WRONG for an unexplained error or warning, else 0.

    Raises BadFile. `form` is "text" or "json"; with `everything`, explained findings are printed as well.
    """
    report = lint.lint(files, today=date.today().isoformat())  # noqa: DTZ011  today in the reader's time zone
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    shown = lint_report.text(report, everything=everything, colour=colour)
    print(lint_report.as_json(report) if form == "json" else shown)
    return 0 if report.clean else WRONG
