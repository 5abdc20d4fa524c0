"""The launcher that started this run on one of many nodes, by the variables that it sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_accel.core.node_name import node_name
from pytest_accel.core.printable import printable

SLURM, TORCHRUN, MPI, KUBERNETES = "slurm", "torchrun", "mpi", "kubernetes"


@dataclass(frozen=True)
class Launch:
    """What a launcher says about this task. `rank` and `nodes` are None where it does not say them."""

    launcher: str
    node: str
    rank: int | None = None
    """The number of this task among all tasks."""
    local_rank: int = 0
    """The number of this task among those of this node."""
    local_rank_from: str = ""
    """The variable that states it."""
    nodes: int | None = None
    job: str = ""
    """The id of the job; empty if it has none."""

    @property
    def shared(self) -> bool:
        """True if several nodes may write into one folder: each needs one of its own in it."""
        return bool(self.job) or self.nodes is None or self.nodes > 1

    @property
    def refused(self) -> str | None:
        """The reason why this task must not measure: another task of the node does; None for the first of a node."""
        if not self.local_rank:
            return None
        return (
            f"{self.local_rank_from}={self.local_rank}: this is task {self.local_rank + 1} of {self.node}, and one run "
            "measures all devices of a node; start one task per node (srun --ntasks-per-node=1, mpirun -N 1, torchrun "
            "--nproc-per-node=1)"
        )


def launch_of(environment: Mapping[str, str]) -> Launch | None:
    """Return what the launcher says, None without one. The launcher that started this process itself counts.

    Where it is torchrun or MPI within a job of Slurm, the job is that of Slurm. A variable whose value makes no sense
    counts as not set.
    """
    node, job = node_name(environment), _word(environment, "SLURM_JOB_ID")
    number = _Numbers(environment)
    if _has(number, "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        nodes = number.of("GROUP_WORLD_SIZE") or _share(number, "WORLD_SIZE", "LOCAL_WORLD_SIZE")
        return Launch(TORCHRUN, node, number.of("RANK"), *number.named("LOCAL_RANK"), nodes, job)
    if _has(number, "OMPI_COMM_WORLD_RANK"):
        nodes = _share(number, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
        local = number.named("OMPI_COMM_WORLD_LOCAL_RANK")
        return Launch(MPI, node, number.of("OMPI_COMM_WORLD_RANK"), *local, nodes, job)
    if job:
        nodes = number.of("SLURM_STEP_NUM_NODES") or number.of("SLURM_JOB_NUM_NODES")
        return Launch(SLURM, node, number.of("SLURM_PROCID"), *number.named("SLURM_LOCALID"), nodes, job)
    if _has(number, "PMI_RANK", "PMI_SIZE"):
        nodes = _share(number, "PMI_SIZE", "MPI_LOCALNRANKS")
        return Launch(MPI, node, number.of("PMI_RANK"), *number.named("MPI_LOCALRANKID"), nodes)
    if _has(number, "JOB_COMPLETION_INDEX"):
        return Launch(KUBERNETES, node, number.of("JOB_COMPLETION_INDEX"))
    return None


class _Numbers:
    """The whole numbers from 0 on in an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def of(self, name: str) -> int | None:
        """Return a variable as a number, None if it is not set or none."""
        text = self._environment.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def named(self, name: str) -> tuple[int, str]:
        """Return a variable as a number, 0 if it is not set or none, and its name."""
        return self.of(name) or 0, name


def _has(number: _Numbers, *names: str) -> bool:
    """Return True if every one of these variables is a number."""
    return all(number.of(name) is not None for name in names)


def _share(number: _Numbers, tasks: str, of_node: str) -> int | None:
    """Return the number of nodes, from those of all tasks and of the tasks of this node; None if one is not known."""
    every, here = number.of(tasks), number.of(of_node)
    return -(-every // here) if every and here else None


def _word(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable, made printable."""
    return printable(environment.get(name, "").strip(), 100)
