"""`pytest-accel schema`: the JSON Schemas of threshold files and records, for editors and for programs."""

from __future__ import annotations

from pathlib import Path

ROOMS = Path(__file__).parents[1]
FILES = {
    "thresholds": ROOMS / "skus" / "threshold-file.schema.json",
    "record": ROOMS / "run" / "record.schema.json",
}
"""The shipped schemas by what they describe. scripts/schemas.py writes them."""


def text(name: str) -> str:
    """Return one of the shipped schemas."""
    return FILES[name].read_text(encoding="utf-8")
