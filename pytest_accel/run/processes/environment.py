"""The environment of child processes: which settings of the user reach them, and which would change what is measured.

environment.yaml has them. The variables that choose among devices are set by `drivers/visibility.py`, whatever the
user has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_accel.core.data_file import read

_SETTINGS = read(__file__)
KEPT: Mapping[str, str] = _SETTINGS["kept"]
"""Settings that reach the workers although they may change what is measured, and why. The record names them."""
CLEARED: Mapping[str, str] = _SETTINGS["cleared"]
"""Settings that would change what is measured, and how. Child processes do not inherit them, except those of KEPT."""
LAUNCHER: Sequence[str] = _SETTINGS["launcher"]
"""The variables by which torch joins the process group of a job, and an agent its network run. Child processes do not
inherit them: their group is that of the node."""


def user_settings(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the user's settings that are cleared, and those that are kept and may matter; each by name."""
    kept = {name: text for name, text in environment.items() if _matches(name, KEPT)}
    cleared = {name: text for name, text in environment.items() if name not in kept and _matches(name, CLEARED)}
    return cleared, kept


def notes(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for the record on the settings that are cleared, and one on those that are kept."""
    titles = "settings of the user that the workers do not inherit", "settings of the user in force"
    lists = [", ".join(f"{name}={text}" for name, text in group.items()) for group in user_settings(environment)]
    return [f"{title}: {text}" for title, text in zip(titles, lists, strict=True) if text]


def of_child(extra: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of a child: that of this process without what would change measurements, and `extra`.

    A variable that is None in `extra` is not inherited. PYTHONPATH begins with the folder that holds this package if
    that is not installed.
    """
    home = str(Path(__file__).parents[3])
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # without empty entries, which mean the current folder
    path = os.pathsep.join(filter(None, ["" if home.endswith("-packages") else home, *entries]))
    of_launcher = (name for name in os.environ if _matches(name, LAUNCHER))
    left_out = {*user_settings(os.environ)[0], *of_launcher, *extra}
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    defined = {name: value for name, value in extra.items() if value is not None}
    return {**inherited, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **defined}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Return True if one of the patterns matches the name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
