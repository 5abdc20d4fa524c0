"""A process with pytest and our modules loaded, which forks for each run that is asked for on its standard input.

A run is a process of its own, as a user's is, but it begins a second of processor time later than one that has to load
everything. The plugin itself is loaded by each run: pytest rewrites the assertions of plugins that it loads.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
from typing import Any

import pytest  # noqa: F401

import pytest_accel.cli.judge
import pytest_accel.run.session
import pytest_accel.views.html.page
import pytest_accel.views.plan
import pytest_accel.views.terminal  # noqa: F401


def begin(asked: dict[str, Any]) -> None:
    """Be the process that the request describes: its folder, its environment, its streams, its command line."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for number, name in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(os.devnull, encoding="utf-8")
    sys.argv = asked["line"]
    sys.path[:] = [path for path in asked["env"].get("PYTHONPATH", "").split(os.pathsep) if path] + sys.path[1:]


def main() -> None:
    """Fork for each request, and answer with the exit status of the run."""
    gc.freeze()
    for request in sys.stdin:
        if not (pid := os.fork()):
            begin(json.loads(request))
            runpy.run_path(sys.argv[0], run_name="__main__")  # exits
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
