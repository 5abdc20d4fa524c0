"""Reads the tables that lie beside modules of the package as YAML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read(module: str) -> Any:
    """Return the content of the YAML file of a module's name beside it; `module` is its `__file__`."""
    text = Path(module).with_suffix(".yaml").read_text(encoding="utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
