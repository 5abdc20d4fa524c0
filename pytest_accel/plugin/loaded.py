"""Files, plugins and variables beside the command line and the installed distributions that may change a run."""

from __future__ import annotations

import os
import shlex
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_accel
from pytest_accel.core.printable import printable

VARIABLES = ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTEST_ADDOPTS")
"""Environment variables by which other code is loaded, or other options are given."""
INSTALLED = (
    *(*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")),
    Path(pytest.__file__).parents[1],  # a .pth file may have added it
)
"""The folders of installed distributions."""
OF_CHECKOUT = Path(pytest_accel.__file__).parents[1] / "conftest.py"
"""A file of this project, which pytest reads in a run from the checkout."""


def loaded(config: pytest.Config) -> list[tuple[str, str]]:
    """Return each by its name and in full: ("conftest.py", "conftest.py of /shared/nights")."""
    found = [(name, f"{name}={text}") for name in VARIABLES if (text := os.environ.get(name))]
    if config.inipath and (words := config.getini("addopts")):
        found.append(
            (f"addopts of {config.inipath.name}", f"addopts of {config.inipath}: {shlex.join(map(str, words))}")
        )
    return [(printable(name), printable(text)) for name, text in dict.fromkeys([*found, *_plugins(config)])]


def _plugins(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """Yield the conftest.py files and the plugins that are part of no installed distribution."""
    manager = config.pluginmanager
    # An editable install is in a folder of its own, and known by the package of its entry point.
    known = {"_pytest", "pytest_accel", *(_package(plugin) for plugin, _ in manager.list_plugin_distinfo())}
    for _, plugin in manager.list_name_plugin():
        file = getattr(_module(plugin), "__file__", None)
        if not isinstance(file, str) or _package(plugin) in known or Path(file) == OF_CHECKOUT:
            continue
        if Path(file).name == "conftest.py":
            yield "conftest.py", f"conftest.py of {Path(file).parent}"
        elif not any(Path(file).is_relative_to(folder) for folder in INSTALLED):
            yield (name := f"plugin {_module(plugin).__name__}"), f"{name} of {file}"


def _module(plugin: object) -> Any:
    """Return the module of a plugin, which may be a class or an object."""
    return sys.modules.get(getattr(plugin, "__module__", ""), plugin)


def _package(plugin: object) -> str:
    return str(getattr(_module(plugin), "__name__", "")).partition(".")[0]
