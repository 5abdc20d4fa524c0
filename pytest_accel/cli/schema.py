"""`pytest-accel schema`: the JSON Schemas of threshold files and records, for editors and for programs."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """Print a JSON Schema (2020-12), for editors that check a file while it is written and for programs that
read records."""

ROOMS = Path(__file__).parents[1]
FILES = {
    "thresholds": ROOMS / "skus" / "threshold-file.schema.json",
    "record": ROOMS / "run" / "record.schema.json",
}
"""The shipped schemas by what they describe. scripts/schemas.py writes them."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of `schema`."""
    parser.add_argument("of", choices=FILES, help="the kind of file that the schema describes")


def run(chosen: argparse.Namespace) -> int:
    """Print one of the shipped schemas; return 0."""
    print(FILES[chosen.of].read_text(encoding="utf-8"), end="")
    return 0
