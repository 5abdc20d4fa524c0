"""The rendezvous of a network run's agents: their number, the rank of this one, and the address of rank 0."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_accel.core.run import Launch
from pytest_accel.run.options import Refused

JOB = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_STEP_ID")
"""The variables that name a job. torchrun and mpirun may have another step of Slurm on the first node than elsewhere,
and mpirun no variables of Slurm."""
LOWEST_PORT, PORTS = 20_000, 10_000
"""Ports of the store, below those that Linux gives out by itself (from 32768 on). The id of the job chooses one."""


@dataclass(frozen=True)
class Rendezvous:
    """The agents of a network run, of which one runs on every node."""

    rank: int
    nodes: int
    host: str
    port: int
    hosted: bool = False
    """True if the launcher runs the store itself, as torchrun does."""
    job: str = ""
    """The job in words, the same on all of its nodes: what the launcher calls it, and the number of nodes."""
    names: tuple[str, ...] = ()
    """The names of the nodes by rank; empty where the launcher does not state them."""

    def name_of(self, rank: int) -> str:
        """Return the name of the node of a rank."""
        return self.names[rank] if rank < len(self.names) else f"rank {rank}"


def rendezvous_of(launch: Launch | None, environment: Mapping[str, str]) -> Rendezvous:
    """Return the rendezvous of the agents, by the variables of torch.distributed, or of Slurm without them.

    Raises Refused without a launcher, for a single node, and where the address of rank 0 is not stated.
    """
    if launch is None or launch.rank is None or not launch.nodes or launch.nodes < 2:
        raise Refused(
            "--accel-network measures between nodes: start one task on each of several nodes, such as "
            "srun -N 4 --ntasks-per-node=1 pytest --accel-sku=NAME --accel-network --accel-output=DIR; torchrun "
            "--nproc-per-node=1 and mpirun -N 1 do as well. A rehearsal needs none: --accel-simulate=CLUSTER.yaml"
        )
    node_list = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    host = environment.get("MASTER_ADDR") or first_of(node_list)
    if not host:
        raise Refused(
            f"--accel-network: {launch.name} does not say where rank 0 runs; set MASTER_ADDR to the name of "
            "its node on every node, and MASTER_PORT to a free port of it"
        )
    number = re.sub(r"\D", "", launch.job)
    port = environment.get("MASTER_PORT", str(LOWEST_PORT + int(number or 0) % PORTS))
    if not port.isdigit() or not 0 < int(port) < 2**16:
        raise Refused(f"--accel-network: MASTER_PORT={port!r} is no port, which is a number from 1 to 65535")
    hosted = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    variables = {"slurm": JOB, "torchrun": JOB[:-1]}.get(launch.name, ())
    settings = [f"{name}={environment[name]}" for name in variables if name in environment]
    job = " ".join([*settings, f"of {launch.nodes} nodes"])
    names = tuple(names_of(node_list)) if node_list and launch.name == "slurm" else ()
    names = names if len(names) == launch.nodes else ()
    return Rendezvous(launch.rank, launch.nodes, host, int(port), hosted, job, names)


def first_of(node_list: str) -> str:
    """Return the first node of a list of Slurm: "gpu07" of "gpu[07-09,12],login1"."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", node_list)
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first[0]) if first else ""


def names_of(node_list: str) -> list[str]:
    """Return the nodes of a list of Slurm, by `scontrol`; empty where that does not run, as in a container."""
    try:
        return subprocess.check_output(["scontrol", "show", "hostnames", node_list], text=True, timeout=30).split()
    except (OSError, subprocess.SubprocessError):
        return []


def leaf_of(environment: Mapping[str, str]) -> str:
    """Return the leaf switch of this node, by the topology that Slurm states: "s2" of "s0.s2.gpu07"; may be empty."""
    address = environment.get("SLURM_TOPOLOGY_ADDR", "").split(".")
    pattern = environment.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    return address[-2] if pattern[-2:] == ["switch", "node"] and len(address) == len(pattern) else ""


def interface_to(host: str) -> str:
    """Return the interface of this node by which it reaches a host; empty if it is not known, or the loopback."""
    import psutil  # not in runs of one node

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # a connected UDP socket sends nothing, but has the address of its route
            local = probe.getsockname()[0]
    except OSError:
        return ""
    interfaces = psutil.net_if_addrs()
    return next((name for name, addresses in interfaces.items() if local in (entry.address for entry in addresses)), "")
