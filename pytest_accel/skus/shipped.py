"""The folder of the shipped threshold files, and their version."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parents[1]
FOLDER = next((home for home in (_HERE / "thresholds", _HERE.parent / "thresholds") if home.is_dir()), _HERE)
VERSION = "VERSION"


def version() -> str:
    """Return the version of the shipped thresholds, such as 2026.11.1."""
    return (FOLDER / VERSION).read_text(encoding="utf-8").split()[0]
