"""The subcommand `pytest-accel report`: writes the page of a saved record."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_accel.cli import result_file
from pytest_accel.run import record
from pytest_accel.views.html import page

DESCRIPTION = """Write a saved record as one HTML page, as pytest --accel-report does at the end of a run. The verdicts
are those of the record; one that is not believed is NOT JUDGED. The exit status is 0, or 4 for a file that is no
record or cannot be written."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    option = parser.add_argument
    option("file", metavar="RECORD", help="a record.json, or the folder that holds it")
    option("--output", metavar="FILE", type=Path, help="the file to replace, in one step (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Write the page of a record; return 0. Raises WrongUse."""
    run = record.read(record.find(Path(args.file)))
    result_file.write(args.output, page.report(run, run.path.absolute().parent))
    return 0
