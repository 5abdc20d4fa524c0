"""Loads `amdsmi` and the library below it, or explains what is missing."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any

from pytest_accel.drivers.interface import DriverProblem, NoLibrary

INSTALL = "install ROCm's amd-smi-lib, or give the container /opt/rocm"
GROUPS = "add it to the groups of the device nodes (video, render), or give the container /dev/kfd and /dev/dri"

NO_PERMISSION, NOT_LOADED = 10, 34
"""AMDSMI_STATUS_NO_PERM and AMDSMI_STATUS_DRIVER_NOT_LOADED (amdsmi.h)."""


def load() -> Any:
    """Return the module `amdsmi`: ROCm's own copy if there is one, since it fits the library, else the installed one.

    Raises DriverProblem if neither can be imported.
    """
    shipped = Path(os.environ.get("ROCM_HOME") or os.environ.get("ROCM_PATH") or "/opt/rocm") / "share" / "amd_smi"
    if "amdsmi" not in sys.modules and (shipped / "amdsmi").is_dir():
        sys.path.insert(0, str(shipped))
        try:
            return _import()
        except DriverProblem:
            pass  # for instance a copy for another Python version: the installed one may work
        finally:
            sys.path.remove(str(shipped))
    return _import()


def _import() -> Any:
    """Import amdsmi. Raises DriverProblem."""
    with contextlib.redirect_stdout(io.StringIO()):  # without its library it prints and raises a KeyError
        try:
            return importlib.import_module("amdsmi")
        except Exception as error:  # noqa: BLE001  with a library of another version it may raise anything
            reason = problem(error)
    for name in [module for module in sys.modules if module == "amdsmi" or module.startswith("amdsmi.")]:
        del sys.modules[name]
    raise NoLibrary(reason)


def problem(error: Exception) -> str:
    """Return why amdsmi cannot be imported, or its library not be called, with the remedy."""
    if isinstance(error, ModuleNotFoundError) and error.name == "amdsmi":
        return f"amdsmi cannot be imported: {INSTALL}; or pip install amdsmi of the version of this ROCm"
    if isinstance(error, (KeyError, OSError)):
        return f"no AMD library (libamd_smi.so is missing or cannot be loaded: {INSTALL}, or set ROCM_PATH)"
    if isinstance(error, AttributeError):
        return (
            f"amdsmi and libamd_smi.so are of different versions ({error}): "
            "use the amdsmi of this ROCm (/opt/rocm/share/amd_smi), or pip install the version that fits"
        )
    return f"amdsmi cannot be imported: {type(error).__name__}: {error}"


def remedy(code: int | None, root: Path = Path("/")) -> str:
    """Return the remedy if the library cannot be used or finds no device. `code` is the status it returned, if any."""
    if code == NOT_LOADED or not (root / "sys/module/amdgpu").is_dir():
        return "the kernel module is not loaded: modprobe amdgpu, then check dmesg"
    if node := _closed(root):
        return f"this user may not open {node}: {GROUPS}"
    if code == NO_PERMISSION:
        return f"this user has no permission: {GROUPS}"
    return "amd-smi should fail in the same way; check dmesg"


def _closed(root: Path) -> str | None:
    """Return the first device node that this user cannot open, or None."""
    nodes = [root / "dev/kfd", *sorted((root / "dev/dri").glob("renderD*"))]
    return next((f"/{node.relative_to(root)}" for node in nodes if not os.access(node, os.R_OK | os.W_OK)), None)
