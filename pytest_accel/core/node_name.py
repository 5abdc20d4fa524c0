"""The name of this node: the one that its launcher uses, else that of the host."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pytest_accel.core.printable import printable


def node_name(environment: Mapping[str, str] | None = None) -> str:
    """Return the name of this node.

    Slurm may call a node otherwise than it calls itself, and the host name of a pod is that of the pod. Other programs
    set NODE_NAME too, so it counts on Kubernetes alone.
    """
    environment = os.environ if environment is None else environment
    named = environment.get("SLURMD_NODENAME") or _of_pod(environment)
    return printable(named.strip(), 200) or os.uname().nodename


def other_name(environment: Mapping[str, str] | None = None) -> str:
    """Return the name of this node if its launcher calls it otherwise than the host calls itself, else an empty text.

    A domain behind the name makes no difference.
    """
    named, host = node_name(environment), os.uname().nodename
    return "" if named.partition(".")[0] == host.partition(".")[0] else named


def _of_pod(environment: Mapping[str, str]) -> str:
    """Return the node of a pod whose manifest states it in NODE_NAME, else an empty text."""
    return environment.get("NODE_NAME", "") if "KUBERNETES_SERVICE_HOST" in environment else ""
