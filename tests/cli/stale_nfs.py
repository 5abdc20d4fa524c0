"""A network file system whose server has forgotten everything: what is below PREFIX raises an error of the system."""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import pathlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

PREFIX = "/stale"
CALLS = ("stat", "lstat", "open", "scandir", "listdir", "mkdir")
CALLED = {os, getattr(pathlib, "_normal_accessor", os)}
"""What has these calls: pathlib keeps references of its own in Python 3.10."""


def install(put: Callable[[Any, str, Any], None] = setattr, number: int = errno.ESTALE) -> None:
    """Let every call that looks for a file or opens one fail there; `put` replaces an attribute of a module."""
    for owner, name in itertools.product(CALLED, CALLS):
        if hasattr(owner, name):
            put(owner, name, _failing(getattr(owner, name), number))
    for module in (builtins, io):
        put(module, "open", _failing(open, number))
    access = os.access
    put(os, "access", lambda path, *args, **more: not _is_below(path) and access(path, *args, **more))


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process in which it is installed; `folder` gets a sitecustomize.py."""
    lines = f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nimport stale_nfs\nstale_nfs.install()\n"
    (folder / "sitecustomize.py").write_text(lines)
    return {"PYTHONPATH": str(folder)}


def _is_below(path: object) -> bool:
    return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(PREFIX)


def _failing(called: Callable[..., Any], number: int) -> Callable[..., Any]:
    def instead(path: Any = ".", *args: Any, **more: Any) -> Any:
        if _is_below(path):
            raise OSError(number, os.strerror(number), os.fsdecode(path))
        return called(path, *args, **more)

    return instead
