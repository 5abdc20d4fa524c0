"""Finds processes of this host that profile or diagnose accelerators and so distort measurements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tool:
    """A profiling or diagnostic program: what it does, and what to do about it.

    `words` restricts it to processes with one of these arguments. `disturbs` is False for a program that only monitors
    the devices, as one does on most nodes all the time.
    """

    does: str
    do: str
    disturbs: bool = True
    words: tuple[str, ...] = ()


_ENDS = "wait until it has ended, or stop it: `kill {pid}`"
_DCGM = "`dcgmi profiling --pause` for the time of the run, then `--resume`"
TOOLS = {
    "dcgmi": Tool("runs a diagnostic", _ENDS, words=("diag", "mndiag")),
    "nvvs": Tool("runs a diagnostic", _ENDS),
    "dcgmproftester": Tool("loads the devices", _ENDS),
    "nsys": Tool("profiles", "`nsys sessions list`, then `nsys stop --session=NAME`", words=("profile", "start")),
    "ncu": Tool("profiles", _ENDS),
    "nv-nsight-cu-cli": Tool("profiles", _ENDS),
    "nvprof": Tool("profiles", _ENDS),
    "rocprof": Tool("profiles", _ENDS),
    "rocprof-compute": Tool("profiles", _ENDS),
    "omniperf": Tool("profiles", _ENDS),
    "omnitrace": Tool("profiles", _ENDS),
    "rvs": Tool("runs a diagnostic", _ENDS),
    "agfhc": Tool("runs a diagnostic", _ENDS),
    "dcgm-exporter": Tool("reads profiling counters", _DCGM, disturbs=False),
    "nv-hostengine": Tool("reads counters for DCGM", _DCGM, disturbs=False),
}
"""The programs by name; a version may follow the name ("dcgmproftester12", "rocprofv3")."""
_VERSION = re.compile(r"v?\d+$")
_INTERPRETER = re.compile(r"python[\d.]*|perl|bash|sh")


def running(root: Path = Path("/")) -> list[dict[str, Any]]:
    """Return the running tools that are visible from here: pid, name, a sentence (`says`), and `disturbs`."""
    tools = []
    for folder in sorted((root / "proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # the process has ended, or this user may not read it
        if each := _recognised(int(folder.name), [word for word in words if word]):
            tools.append(each)
    return tools


def _recognised(pid: int, words: list[str]) -> dict[str, Any] | None:
    if words and _INTERPRETER.fullmatch(Path(words[0]).name):
        words = words[1:]  # the program is its script
    name = Path(words[0]).name if words else ""
    tool = TOOLS.get(name) or TOOLS.get(_VERSION.sub("", name))
    if tool is None or (tool.words and not any(word in tool.words for word in words[1:])):
        return None
    says = f"pid {pid} ({name}) {tool.does}: {tool.do.format(pid=pid)}"
    return {"pid": pid, "name": name, "says": says, "disturbs": tool.disturbs}
