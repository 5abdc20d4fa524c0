"""Acceptance tests for accelerator nodes: `pytest --accel-sku=h100-sxm`.

Public names: the markers `accel_min_tflops`, `accel_min_gbps` and `accel_limit`; the package `probes`, whose functions
measure a device; the module `shapes`, which searches the fastest matrix shapes of a user's own model; `__version__`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_accel import probes
    from pytest_accel.probes.device import shape_search as shapes

    __version__: str
    accel_min_tflops: pytest.MarkDecorator
    accel_min_gbps: pytest.MarkDecorator
    accel_limit: pytest.MarkDecorator


class _Shapes(ModuleType):
    """The module `pytest_accel.shapes`: an alias that imports `probes.device.shape_search` on first use."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [public for public in dir(self) if not public.startswith("_")]
        if name.startswith("__"):  # inspect asks every loaded module for __file__
            raise AttributeError(name)
        return getattr(importlib.import_module("pytest_accel.probes.device.shape_search"), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module("pytest_accel.probes.device.shape_search"))


__all__ = ["accel_limit", "accel_min_gbps", "accel_min_tflops", "probes", "shapes"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use.

    Every pytest process loads this package for its plugin, and most of them need no probe. The sensor and the workers
    load it too, and need no pytest.
    """
    if name == "__version__":
        return _version()
    if name in ("probes", "shapes"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in __all__:
        import pytest

        return getattr(pytest.mark, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version() -> str:
    """Return the version of the installed distribution, "unknown" for a copy of the sources that is not installed."""
    from importlib import metadata

    try:
        return metadata.version("pytest-accel")
    except metadata.PackageNotFoundError:
        return "unknown"


sys.modules[f"{__name__}.shapes"] = _Shapes(f"{__name__}.shapes", _Shapes.__doc__)
