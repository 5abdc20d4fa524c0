"""Tables of tests that stand as YAML in tests/data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"


def read(name: str) -> Any:
    """Return the content of the table with this name, such as `cli/health`."""
    return yaml.safe_load((DATA / f"{name}.yaml").read_text(encoding="utf-8"))
