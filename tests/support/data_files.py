"""What lies in tests/data: tables whose rows a test goes through, and files as a user would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data"


def content(name: str) -> str:
    """Return the content of a file."""
    return (DATA / name).read_text(encoding="utf-8")


def tables(name: str) -> Any:
    """Return what a YAML file holds: most hold tables by their names, each as a list of rows."""
    return yaml.safe_load(content(f"{name}.yaml"))
