"""The subcommand `pytest-accel report`: writes a saved record in another format."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_accel.cli.consistency import contradictions
from pytest_accel.cli.exit_status import WRONG
from pytest_accel.core.printable import printable_lines
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import record, record_reader
from pytest_accel.run.record import Record
from pytest_accel.run.record_reader import SavedRecord
from pytest_accel.views.html import page


def _as_json(found: Record) -> str:
    """Return a record as one JSON object, as today's version writes it."""
    plain = record.content(found)
    return json.dumps({**plain, "sha256": record.seal(plain)}, indent=1) + "\n"


def _as_html(saved: SavedRecord) -> str:
    """Return a record as a page, with the readings of the file beside it and the contradictions in both."""
    return page.report(saved.record, saved.path.absolute().parent, contradictions(saved))


FORMATS: Mapping[str, Callable[[Record], str]] = {"json": _as_json}
"""The function that writes a record, by the name of the format."""
HTML = "html"
"""The format that also shows the readings of the file beside the record."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    add = parser.add_argument
    add("file", metavar="RECORD", help="a record.json, or the folder that holds it")
    add("--format", choices=(*FORMATS, HTML), required=True, help="the format to write")
    add("--output", metavar="FILE", type=Path, help="the file to write (default: standard output)")


def report(chosen: argparse.Namespace) -> int:
    """Write a record in the chosen format; return 0, or 4 for a wrong file."""
    try:
        saved = record_reader.read(record_reader.find(Path(chosen.file)))
        text = _as_html(saved) if chosen.format == HTML else FORMATS[chosen.format](saved.record)
        if chosen.output:
            record.replace_file(chosen.output, text)
        else:
            print(text, end="")
    except (BadFile, page.MissingExtra) as error:
        print(printable_lines(str(error)), file=sys.stderr)
        return WRONG
    except OSError as error:
        print(f"--output: cannot write {chosen.output}: {error.strerror}", file=sys.stderr)
        return WRONG
    return 0
