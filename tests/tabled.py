"""Tables of cases that stand beside the tests, in tests/data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read(name: str) -> Any:
    """Return what a file below tests/data holds."""
    return yaml.safe_load((Path(__file__).parent / "data" / f"{name}.yaml").read_text(encoding="utf-8"))
