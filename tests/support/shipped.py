"""The shipped threshold files, read once for all tests of a process."""

from __future__ import annotations

from functools import cache

from pytest_accel.core.sku_types import Sku
from pytest_accel.skus import loader

load = cache(loader.load)


def every() -> list[Sku]:
    """Every shipped SKU, in the order of their names."""
    return [load(name) for name in loader.names()]
