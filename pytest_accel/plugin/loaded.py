"""Files, plugins and variables beside the command line and the installed distributions that may change a run."""

from __future__ import annotations

import os
import shlex
import site
import sys
from pathlib import Path

import pytest

import pytest_accel
from pytest_accel.core.printable import printable

VARIABLES = ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTEST_ADDOPTS")
"""Environment variables by which other code is loaded, or other options are given."""
SITES = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
OURS = Path(pytest_accel.__file__).parent
INSTALLED = {Path(os.__file__).parent, Path(pytest.__file__).parents[1], OURS, *map(Path, SITES)}
"""The folders of installed distributions: a .pth file may have added that of pytest."""
OF_CHECKOUT = OURS.parent / "conftest.py"
"""A file of this project, which pytest reads in a run from the checkout."""


def loaded(config: pytest.Config) -> list[tuple[str, str]]:
    """Return what may change a run, by name and in full: ("conftest.py", "conftest.py of /shared/nights")."""
    entries = [(name, f"{name}={text}") for name in VARIABLES if (text := os.environ.get(name))]
    if ini := config.inipath:
        options = {key: shlex.join(map(str, config.getini(key))) for key in ("addopts", "pythonpath")}
        entries += [(f"{key} of {ini.name}", f"{key} of {ini}: {words}") for key, words in options.items() if words]
    manager = config.pluginmanager
    # The files of an editable install are in a folder of its own, and its metadata where others are installed.
    by_entry = [(plugin, Path(str(dist.locate_file("")))) for plugin, dist in manager.list_plugin_distinfo()]
    packages = {_module(plugin)[0] for plugin, folder in by_entry if folder in INSTALLED}
    for _, plugin in manager.list_name_plugin():
        package, name, file = _module(plugin)
        if file.suffix and file != OF_CHECKOUT and package not in packages and INSTALLED.isdisjoint(file.parents):
            name = file.name if file.name == "conftest.py" else f"plugin {name}"
            entries.append((name, f"{name} of {file.parent}"))
    return [(printable(name), printable(text)) for name, text in dict.fromkeys(entries)]


def _module(plugin: object) -> tuple[str, str, Path]:
    """Return package, name and file of the module of a plugin, which may be a class or an object; empty for none."""
    module = sys.modules.get(getattr(plugin, "__module__", ""), plugin)
    name = str(getattr(module, "__name__", ""))
    return name.partition(".")[0], name, Path(str(getattr(module, "__file__", None) or ""))
