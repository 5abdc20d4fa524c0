"""The folder of the shipped threshold files."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parents[1]
FOLDER = next((home for home in (_HERE / "thresholds", _HERE.parent / "thresholds") if home.is_dir()), _HERE)
