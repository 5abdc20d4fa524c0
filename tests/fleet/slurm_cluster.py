"""A real Slurm cluster of pretend nodes on this machine, from Debian's packages: slurm-wlm and munge.

The daemons are children of the process that starts them, and are ended by their process ids.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from string import Template

from support import data_files

SBIN = "/usr/sbin:/sbin"
"""Where Debian has the daemons; the PATH of an ordinary user lacks it."""
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol")
READY, QUIET = 60.0, 15.0
"""Seconds within which all nodes have to be idle, and jobs have to end."""


def missing() -> str:
    """Return why no cluster can be started here; empty if one can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=_path())]
    return f"not installed: {', '.join(absent)} (packages slurm-wlm and munge)" if absent else ""


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:{SBIN}"


class SlurmCluster:
    """Pretend nodes node1, node2 ... of one machine, or of another `name`.

    `gpus` is the number of pretend GPUs of each, for GRES alone.
    """

    def __init__(self, root: Path, nodes: int, gpus: int = 0, extra: str = "", name: str = "node") -> None:
        self.root, self.count, self.name = root, nodes, name
        self.names = [f"{name}{number}" for number in range(1, nodes + 1)]
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, str] = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))},
            "PATH": _path(),
            "SLURM_CONF": str(root / "slurm.conf"),
        }
        for folder in ("ctld", "log", "munge", "dev", *self.names):
            (root / folder).mkdir(parents=True)
        (root / "munge").chmod(0o700)
        key = root / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._configure(gpus, extra)

    def _configure(self, gpus: int, extra: str) -> None:
        """Write the three files of Slurm's configuration; cgroup.conf must exist and not be empty."""
        root, host = self.root, socket.gethostname().split(".")[0]
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        ports = _free_ports(self.count + 1)
        gres = f"Gres=gpu:h100:{gpus} " if gpus else ""
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Boards=1 SocketsPerBoard=2 "
            f"CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000 {gres}State=UNKNOWN"
            for name, port in zip(self.names, ports[1:], strict=True)
        )
        more = "\n".join(["GresTypes=gpu"] * bool(gpus) + [extra])
        settings = {"host": host, "port": ports[0], "user": user, "root": root, "more": more, "nodes": nodes}
        template = Template((data_files.DATA / "fleet/slurm.conf").read_text())
        (root / "slurm.conf").write_text(template.substitute(settings))
        (root / "cgroup.conf").write_text("CgroupAutomount=no\n")
        if gpus:
            files = _pretend_gpus(root / "dev", gpus)
            line = f"AutoDetect=off\nNodeName={self.name}[1-{self.count}] Name=gpu Type=h100 File={files}\n"
            (root / "gres.conf").write_text(line)

    def __enter__(self) -> SlurmCluster:  # noqa: PYI034
        """Start the daemons and wait until all nodes are idle."""
        munge = self.root / "munge"
        options = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        try:
            files = [f"--{option}={munge / name}" for option, name in options.items()]
            self._start("munged", "munged", "--foreground", "--force", *files)
            self.until((munge / "sock").exists, "munged has no socket")
            self._start("slurmctld", "slurmctld", "-D")
            for name in self.names:
                self.start_node(name)
            self.until(self._all_idle, "not all nodes are idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all jobs and daemons. A slurmd that is killed while a step completes would leave a process behind."""
        user = str(os.geteuid())
        end = time.monotonic() + QUIET
        while "slurmctld" in self.daemons and time.monotonic() < end:
            self.run("scancel", "-f", "--user", user, check=False)
            if not self.run("squeue", "-h", check=False).stdout.strip():
                break
            time.sleep(0.2)
        for name in [*reversed(self.daemons)]:
            self.kill(name)

    def start_node(self, name: str) -> None:
        """Start the daemon of a node."""
        self._start(name, "slurmd", "-D", "-N", name)

    def kill(self, name: str) -> None:
        """Kill a daemon, as if its node had lost power, but for the jobs on it."""
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def kill_jobs(self, name: str) -> int:
        """Kill all processes of the jobs on a node at once; return their number."""
        processes = self._processes(name)
        _kill(processes)
        return len(processes)

    def lose(self, name: str) -> None:
        """Kill the daemon of a node and all that belongs to its jobs, as a loss of power would."""
        processes = self._processes(name)
        parents = {_parent(each) for each in processes}
        self.kill(name)
        _kill([*(each for each in parents if _name(each) == "slurmstepd"), *processes])

    def _processes(self, name: str) -> list[int]:
        """Return the ids of the processes of the jobs on a node."""
        wanted = {f"SLURM_CONF={self.environment['SLURM_CONF']}".encode(), f"SLURMD_NODENAME={name}".encode()}
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted <= set((place / "environ").read_bytes().split(b"\0")):
                    found.append(int(place.name))
        return found

    def _start(self, name: str, *command: str) -> None:
        with open(self.root / f"log/{name}.log", "ab") as log:
            self.daemons[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def _all_idle(self) -> bool:
        return self.run("sinfo", "-h", "-o", "%T %D", check=False).stdout.strip() == f"idle {self.count}"

    def until(self, true: Callable[[], object], why: str, seconds: float = READY) -> None:
        """Wait until something is true. Raises AssertionError after `seconds`."""
        end = time.monotonic() + seconds
        while not true():
            log = self.root / "log/slurmctld.log"
            assert time.monotonic() < end, f"{why}: {log.read_text()[-2000:] if log.exists() else ''}"
            time.sleep(0.1)

    def run(
        self, *command: str, check: bool = True, more: Mapping[str, str] | None = None, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this cluster."""
        environment = {**self.environment, **(more or {})}
        return subprocess.run(command, env=environment, text=True, capture_output=True, check=check, timeout=seconds)

    def states(self) -> dict[str, str]:
        """Return the state of each node, as sinfo names it, without the mark of one that answers late."""
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.splitlines()
        return dict(line.rstrip("*").split() for line in lines)


def _kill(processes: Sequence[int]) -> None:
    """Kill processes, as far as they have not ended."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def _parent(process: int) -> int:
    """Return the id of the parent of a process, 0 if it has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _name(process: int) -> str:
    """Return the name of the program of a process, empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def _pretend_gpus(folder: Path, count: int) -> str:
    """Return the device files of pretend GPUs. Root can make some; for others any character devices do."""
    if os.geteuid() != 0:
        return f"/dev/tty[0-{count - 1}]"
    for number in range(count):
        os.mknod(folder / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(195, number))
    return f"{folder}/nvidia[0-{count - 1}]"


def _free_ports(count: int) -> Sequence[int]:
    """Return ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def cluster(nodes: int, gpus: int = 0, extra: str = "", name: str = "node") -> Iterator[SlurmCluster]:
    """Start a cluster in a temporary folder with a short name: a socket's path has at most 107 characters."""
    root = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with SlurmCluster(root / "c", nodes, gpus, extra, name) as started:
            yield started
    finally:
        shutil.rmtree(root, ignore_errors=True)


SUITE = """
import os
import time
from pathlib import Path

from pytest_accel import accel_limit

PLACE = Path(__file__).parent
NODE = os.environ["SLURMD_NODENAME"]


def product(device, *, n=64):
    a = device.torch.randn(n, n, device=device.torch_device)
    slow = (PLACE / f"slow-{NODE}").exists()

    def multiply():
        time.sleep(0.2 * slow)
        return a @ a

    return device.sample(multiply, amount=1, unit="ms")


@accel_limit(unit="ms", ceiling=100)
def test_product(accel_check):
    (PLACE / f"begun-{NODE}").touch()
    while (PLACE / f"wait-{NODE}").exists():
        time.sleep(0.1)
    accel_check(product)
"""
"""A test of a user, of a second. A file `slow-NODE` beside it makes a node slow, and `wait-NODE` holds it up."""
