"""How long does `pytest-accel health` take, beside a Python that does nothing?

    python benchmarks/health.py [--runs 20]

Three checks and an empty Python take turns, so that other work on the machine meets all of them: of this machine, of a
simulated node of eight GPUs, and of this machine with a folder that holds the results of 2,000 nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

COMMAND = [str(Path(sys.executable).parent / "pytest-accel"), "health", "--no-kernel-log", "--timeout", "60s"]
NODES = 2000


def results(folder: Path) -> None:
    """Write what a run on many nodes has left."""
    for number in range(NODES):
        place = folder / f"node{number:04d}"
        place.mkdir()
        summary = {
            "schema": 1, "started": datetime.now(timezone.utc).isoformat(), "host": place.name, "state": "finished",
            "line": "ACCEPTED", "result": "ACCEPTED", "exit": 0, "sku": "cpu", "simulated": False,
            "judged_again": False, "devices": [], "rejected": [],
        }  # fmt: skip
        (place / "summary.json").write_text(json.dumps(summary), encoding="utf-8")


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command; return its seconds on the clock and of the processor, with those of its children."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "SLURMD_NODENAME": "node0017"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        results(Path(folder))
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "this machine": COMMAND,
            "a simulated node": [*COMMAND, "--simulate=h100-sxm"],
            f"results of {NODES} nodes": [*COMMAND, "--record", folder],
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                found[name].append(timed(command))
    bare = statistics.median(wall for wall, _ in found["python -c pass"])
    print(f"{runs} runs each, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for name, times in found.items():
        walls = sorted(wall for wall, _ in times)
        median, cpu = statistics.median(walls), statistics.median(cpu for _, cpu in times)
        print(f"{name:22} median {median:.2f} s ({median / bare:.0f} x), slowest {walls[-1]:.2f} s, CPU {cpu:.2f} s")


if __name__ == "__main__":
    main()
