"""The launcher that started this run on one of many nodes, by the variables that it sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.core.node_name import node_name
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Launch

SLURM, TORCHRUN, MPI, KUBERNETES = "slurm", "torchrun", "mpi", "kubernetes"


def launch_of(environment: Mapping[str, str]) -> Launch | None:
    """Return the launcher, node, rank and job of this process, None without a launcher. The innermost launcher counts.

    Where it is torchrun or MPI within a job of Slurm, the job is that of Slurm. A variable whose value makes no sense
    counts as not set.
    """
    node, job = node_name(environment), printable(environment.get("SLURM_JOB_ID", "").strip(), 100)
    numeric = {name: text for name, text in environment.items() if text.isascii() and text.isdigit() and len(text) < 10}
    number = {name: int(text) for name, text in numeric.items()}

    def local(name: str) -> tuple[int, str]:
        """Return the number of the task among those of the node, and the variable that states it."""
        return number.get(name, 0), name

    def share(tasks: str, of_node: str) -> int | None:
        """Return the number of nodes, from those of all tasks and of the tasks of this node; None if one is unknown."""
        total, per_node = number.get(tasks), number.get(of_node)
        return -(-total // per_node) if total and per_node else None

    # torchrun and MPI before Slurm, within whose job they may run
    if {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= number.keys():
        nodes = number.get("GROUP_WORLD_SIZE") or share("WORLD_SIZE", "LOCAL_WORLD_SIZE")
        return Launch(TORCHRUN, node, number["RANK"], *local("LOCAL_RANK"), nodes, job)
    if "OMPI_COMM_WORLD_RANK" in number:
        nodes = share("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
        return Launch(MPI, node, number["OMPI_COMM_WORLD_RANK"], *local("OMPI_COMM_WORLD_LOCAL_RANK"), nodes, job)
    if job:
        nodes = number.get("SLURM_STEP_NUM_NODES") or number.get("SLURM_JOB_NUM_NODES")
        return Launch(SLURM, node, number.get("SLURM_PROCID"), *local("SLURM_LOCALID"), nodes, job)
    if {"PMI_RANK", "PMI_SIZE"} <= number.keys():
        return Launch(MPI, node, number["PMI_RANK"], *local("MPI_LOCALRANKID"), share("PMI_SIZE", "MPI_LOCALNRANKS"))
    if "JOB_COMPLETION_INDEX" in number:
        return Launch(KUBERNETES, node, number["JOB_COMPLETION_INDEX"])
    return None
