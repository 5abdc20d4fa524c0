"""The subcommand `pytest-accel report`: writes a saved record in another format."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_accel.cli import result_file
from pytest_accel.core.run import Run
from pytest_accel.run import record
from pytest_accel.views.exports import markdown, prometheus
from pytest_accel.views.html import page


def _as_json(found: Run) -> str:
    """Return a record as one JSON object, as today's version writes it."""
    plain = record.content(found)
    return json.dumps({**plain, "sha256": record.seal(plain)}, indent=1) + "\n"


FORMATS: Mapping[str, Callable[[Run], str]] = {
    "json": _as_json,
    "md": markdown.text,
    "prometheus": prometheus.text,
}
"""The function that writes a record, by the name of the format."""
HTML = "html"
"""The format that also shows the readings of the file beside the record."""

DESCRIPTION = """Write a saved record in another format. The verdicts are those of the record; one that is not
believed is NOT JUDGED. The exit status is 0, or 4 for a file that is no record or
cannot be written."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    option = parser.add_argument
    option("file", metavar="RECORD", help="a record.json, or the folder that holds it")
    option("--format", choices=(*FORMATS, HTML), required=True, help="the format to write")
    option("--output", metavar="FILE", type=Path, help="the file to replace, in one step (default: standard output)")


def run(chosen: argparse.Namespace) -> int:
    """Write a record in the chosen format; return 0. Raises WrongUse."""
    saved = record.read(record.find(Path(chosen.file)))
    html = chosen.format == HTML
    text = page.report(saved, saved.path.absolute().parent) if html else FORMATS[chosen.format](saved)
    result_file.write(chosen.output, text)
    return 0
