"""The subcommand `pytest-accel report`: writes a saved record in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_accel.cli import result_file
from pytest_accel.core.words import more
from pytest_accel.run import record
from pytest_accel.views.exports import markdown
from pytest_accel.views.html import page

DESCRIPTION = """Write a saved record in another format. Nothing is judged again: the verdicts are those of the record.
Why a record is not believed is told on standard error. The exit status is 0, or 4 for a file that is no record or
cannot be written."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    option = parser.add_argument
    option("file", metavar="RECORD", help="a record.json, or the folder that holds it")
    option("--format", choices=("html", "md"), required=True, help="the format to write")
    option("--output", metavar="FILE", type=Path, help="the file to replace, in one step (default: standard output)")


def run(chosen: argparse.Namespace) -> int:
    """Write a record in the chosen format; return 0. Raises WrongUse."""
    saved = record.read(record.find(Path(chosen.file)))
    if saved.objections:
        print(f"not believed: {saved.objections[0]}{more(saved.objections)}", file=sys.stderr)
    html = chosen.format == "html"
    text = page.report(saved, saved.path.absolute().parent) if html else markdown.text(saved)
    result_file.write(chosen.output, text)
    return 0
