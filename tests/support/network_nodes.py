"""Nodes for network runs on one machine: network namespaces on a bridge, each with a link of a stated rate. Needs root.

Every link is shaped: without that the processor is the bottleneck, and healthy pairs are 10 % apart.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core.network_run import NetworkRun
from pytest_accel.core.structured import structure
from support.data_files import content

RATE = 100
"""Mbit/s of a healthy link, which two busy cores carry for all nodes at once."""
ADDRESS, PORT = "10.79.0.1", 29771
"""Those of rank 0."""
FIRST_PAIRS = 50_000_000
"""Bytes of a node in a pair or two, of 4 s at RATE."""


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def refused() -> str:
    """Return why namespaces cannot be made here; empty if they can."""
    if os.geteuid():
        return "network namespaces need root"
    if missing := [name for name in ("ip", "tc", "nsenter") if not shutil.which(name)]:
        return f"{missing[0]} is not installed (iproute2, util-linux)"
    name = f"probe{os.getpid()}"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "netns", "del", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made: {error.stderr.decode().strip()}"
    return ""


PATCH = content("network/all_reduce.py.in")
BODIES = {
    "wrong sum": "tensor.view(-1)[17:18] += float(tensor.numel() > 1000)",
    "hangs": "time.sleep(1000 * (tensor.numel() > 1000))",
}
"""The line that a worker runs after each all-reduce of a payload, below our code."""


def patched(folder: Path, what: str) -> dict[str, str]:
    """Return the environment of a node whose workers do one of BODIES; the patch is written below `folder`."""
    place = folder / what.replace(" ", "-")
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(PATCH.replace("{body}", BODIES[what]))
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH", "")]))}


class Nodes:
    """Nodes on one bridge. `start` begins the run of pytest on each; `wait` returns their exit statuses.

    There are `spare` namespaces beside them, for what is on the same network and no node of the run.
    """

    def __init__(self, count: int, folder: Path, rates: Mapping[int, int], spare: int = 0) -> None:
        self.count, self.folder = count, folder
        self._rates = {node: rates.get(node, RATE) for node in range(count + spare)}
        self._mark = f"f{os.getpid() % 10000}x"
        self._runs: dict[int, subprocess.Popen[bytes]] = {}

    def build(self) -> None:
        """Make the bridge and the namespaces, and shape the links."""
        _run("ip", "link", "add", f"{self._mark}b", "type", "bridge")
        _run("ip", "link", "set", f"{self._mark}b", "up")
        for node, rate in self._rates.items():
            name, inner = self._name(node), ("ip", "-n", self._name(node))
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", f"{name}v", "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", f"{name}v", "master", f"{self._mark}b", "up")
            _run(*inner, "link", "set", "lo", "up")
            _run(*inner, "addr", "add", f"10.79.0.{node + 1}/24", "dev", "eth0")
            _run(*inner, "link", "set", "eth0", "up")
            _run(*self._in(node), "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf",
                 "rate", f"{rate}mbit", "burst", "64kb", "latency", "30ms")  # fmt: skip

    def remove(self) -> None:
        """End the runs that are left, and remove the namespaces and the bridge."""
        for run in self._runs.values():
            run.kill()
            run.wait()
        links = [["link", "del", f"{self._name(node)}v"] for node in self._rates]  # a namespace in use would keep it
        spaces = [["netns", "del", self._name(node)] for node in self._rates]
        for words in (*links, *spaces, ["link", "del", f"{self._mark}b"]):
            subprocess.run(["ip", *words], check=False, capture_output=True)

    def _name(self, node: int) -> str:
        return f"{self._mark}{node}"

    def _in(self, node: int) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self._name(node)}"]

    def start(self, *options: str, absent: tuple[int, ...] = (), extra: Mapping[int, Mapping[str, str]] = {}) -> None:
        """Begin a network run on every node that is not `absent`. `extra` are environment variables by node."""
        for node in set(range(self.count)) - set(absent):
            self.start_one(node, *options, extra=extra.get(node, {}))

    def start_one(self, node: int, *options: str, extra: Mapping[str, str] = {}) -> None:
        """Begin a network run on one node, or in a spare namespace."""
        environment = {
            "SLURMD_NODENAME": f"node{node}",
            "RANK": str(node),
            "WORLD_SIZE": str(self.count),
            "PYTHONUNBUFFERED": "1",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": ADDRESS,
            "MASTER_PORT": str(PORT),
            **extra,
        }
        command = [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly",
            "--accel-sku=auto", "--accel-network", "--accel-level=quick", "--accel-devices=0",
            f"--accel-output={self.folder / 'out'}", *options,
        ]  # fmt: skip
        self._runs[node] = self.program(node, command, environment)

    def program(self, node: int, command: Sequence[str], more: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        """Start a program on a node, or in a spare namespace. It writes into the log of the node."""
        with open(self.log(node), "wb") as log:
            return subprocess.Popen(
                [*self._in(node), *command],
                cwd=self.folder,
                env={**os.environ, **more},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log(self, node: int) -> Path:
        """Return the file that the run of a node writes into."""
        return self.folder / f"node{node}.log"

    def wait(self, seconds: float = 300.0) -> dict[int, int]:
        """Return the exit status of each run."""
        return {node: run.wait(seconds) for node, run in self._runs.items()}

    def running(self, node: int) -> bool:
        """Return whether the run of a node goes on."""
        return self._runs[node].poll() is None

    def kill(self, node: int) -> None:
        """Kill the run of a node."""
        self._runs[node].kill()

    def sever(self, node: int) -> None:
        """Take the link of a node down."""
        _run("ip", "-n", self._name(node), "link", "set", "eth0", "down")

    def wait_for_pairs(self, node: int, seconds: float = 300.0) -> None:
        """Wait until the link of a node has carried what it carries in the first pairs."""
        until, sent = time.monotonic() + seconds, Path(f"/sys/class/net/{self._name(node)}v/statistics/rx_bytes")
        while int(sent.read_text()) < FIRST_PAIRS:
            assert time.monotonic() < until, f"node{node} has sent {sent.read_text().strip()} bytes"
            time.sleep(0.2)

    def network(self) -> NetworkRun:
        """Return the run as rank 0 wrote it."""
        return structure(NetworkRun, json.loads((self.folder / "out" / "network.json").read_text()))

    def record(self, node: int) -> dict[str, Any]:
        """Return the record of a node."""
        found: dict[str, Any] = json.loads((self.folder / "out" / f"node{node}" / "record.json").read_text())
        return found


@contextlib.contextmanager
def nodes(count: int, folder: Path, rates: Mapping[int, int] | None = None, spare: int = 0) -> Iterator[Nodes]:
    """Make nodes, of which some have a link of another rate in Mbit/s, and remove them at the end."""
    made = Nodes(count, folder, rates or {}, spare)
    try:
        made.build()
        yield made
    finally:
        made.remove()
