"""`pytest-accel sku`: lists, shows and checks the limits of SKUs."""

from __future__ import annotations

import argparse
from datetime import date

from pytest_accel.cli import screen
from pytest_accel.cli.parser import Actions, Subcommand, declare, run_chosen
from pytest_accel.core import exits
from pytest_accel.skus import lint, loader, resolved
from pytest_accel.views import lint_report, sheet, terminal

DESCRIPTION = """A SKU is one product in one form factor. Its threshold file holds how to recognise it, its datasheet,
its platforms and the limits that a node has to hold."""
LINT = """Check the values in threshold files for plausibility: units, order of magnitude, sources, agreement with the
datasheet. The exit status is 4 for an error or a warning that the file does not explain."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `sku`."""
    declare(parser, ACTIONS)


def _add_show(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sku show`."""
    parser.add_argument("name", metavar="NAME|FILE", help="a shipped SKU, or a threshold file of your own")
    text = "print one threshold file with everything that it extends, which needs no other: --accel-sku=FILE reads it"
    parser.add_argument("--resolved", action="store_true", help=text)
    text = "show all of the datasheet, every limit, the sources and the files too"
    parser.add_argument("-v", "--verbose", action="store_true", help=text)


def _add_lint(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sku lint`."""
    text = "a threshold file, or the name of a shipped SKU (default: all shipped files)"
    parser.add_argument("files", metavar="FILE", nargs="*", help=text)
    parser.add_argument("--list", action="store_true", dest="rules", help="list the rules instead")
    text = "show also messages that the file explains, and those in the files that it extends"
    parser.add_argument("--all", action="store_true", help=text)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")


def _list(_: argparse.Namespace) -> int:
    """Print the shipped SKUs, one per line. Raises BadFile."""
    print(sheet.text([sheet.listing(loader.load_shipped())]))
    print("\naccepts: the level from which on a node can be accepted; GB, GB/s: memory and its bandwidth; TFLOPS: peak")
    print("of bf16, or else of fp16; platform: the usual one ('pytest-accel sku show NAME' has all, and all floors)")
    return 0


def _show(args: argparse.Namespace) -> int:
    """Print the data sheet of a SKU, or its resolved threshold file. Raises BadFile."""
    sku = loader.load(args.name)
    if args.resolved:
        print(resolved.text_of(*loader.read(args.name)), end="")
    else:
        print(f"{sku.name}: {sku.title} ({sku.vendor}{', ' + sku.architecture if sku.architecture else ''})")
        lines = ["", *sheet.text(sheet.sheet(sku, full=args.verbose)).splitlines()]
        lines += [] if args.verbose else ["", "-v shows the whole datasheet, every limit, the sources and the files"]
        screen.show(terminal.folded([(line, "") for line in lines], screen.width()))
    return 0


def _lint(args: argparse.Namespace) -> int:
    """Print implausible values in threshold files, or the rules; return 4 for an unexplained error or warning.

    Raises BadFile.
    """
    if args.rules:
        rules = lint.explanations()
        width = max(map(len, rules))
        print("\n".join(f"{name:{width}}  {explained}" for name, explained in rules.items()))
        return 0
    report = lint.lint(args.files, today=date.today().isoformat())  # noqa: DTZ011  today in the reader's time zone
    text = lint_report.text(report, everything=args.all, colour=screen.coloured())
    print(lint_report.as_json(report) if args.format == "json" else text)
    return exits.HOLDS if report.clean else exits.WRONG


ACTIONS: Actions = {
    "list": Subcommand("list the shipped SKUs, with the level from which on a node can be accepted", None, None, _list),
    "show": Subcommand("show datasheet, platforms and floors of one SKU, or all of its file", None, _add_show, _show),
    "lint": Subcommand("check threshold files for implausible values", LINT, _add_lint, _lint),
}
run = run_chosen
