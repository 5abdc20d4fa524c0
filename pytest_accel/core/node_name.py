"""The name of this node: the one that its launcher uses, else that of the host; and which names are of one node."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable


def node_name(environment: Mapping[str, str] | None = None) -> str:
    """Return the name of this node.

    Slurm may call a node otherwise than it calls itself, and the host name of a pod is that of the pod. Other programs
    set NODE_NAME too, so it counts on Kubernetes alone.
    """
    environment = os.environ if environment is None else environment
    of_pod = environment.get("NODE_NAME", "") if "KUBERNETES_SERVICE_HOST" in environment else ""
    return printable((environment.get("SLURMD_NODENAME") or of_pod).strip(), 200) or os.uname().nodename


def other_name(environment: Mapping[str, str] | None = None) -> str:
    """Return the name of this node if its launcher calls it otherwise than the host calls itself, else an empty text.

    A domain behind the name makes no difference.
    """
    named, host = node_name(environment), os.uname().nodename
    return "" if named.partition(".")[0] == host.partition(".")[0] else named


# -- hosts that are one node


def names_among(hosts: Collection[str]) -> set[str]:
    """Return the names of the nodes that these hosts are, without a second name of the same node.

    A host's name with its domain is that of the node of its short name, unless several domains have such a host.
    """
    full = _with_domain(hosts)
    return {host for host in hosts if not ((short := host.partition(".")[0]) in hosts and full.get(short) == {host})}


def nodes_of(hosts: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Return which node each host is, by the names of the nodes. A name may lack the domain, or the host's may.

    A host that is none of them, or may be several, is left out; so is one that only lacks the domain, or alone has it,
    if several domains have such a host.
    """
    alike = grouped(names, lambda name: name.partition(".")[0])
    full = _with_domain({*hosts, *names})
    found = {}
    for host in hosts:
        short = host.partition(".")[0]
        same = [name for name in alike.get(short, ()) if _is_one(host, name)]
        if host in same:
            found[host] = host
        elif len(same) == 1 and len(full.get(short, ())) < 2:
            found[host] = same[0]
    return found


def several(name: str, hosts: Collection[str]) -> list[str]:
    """Return the hosts that may be this node, if they are several machines: those of its name in other domains."""
    full = _with_domain({*hosts, name}).get(name.partition(".")[0], set())
    return sorted(host for host in hosts if _is_one(host, name)) if len(full) > 1 and name not in hosts else []


def _with_domain(hosts: Iterable[str]) -> dict[str, set[str]]:
    """Return the hosts whose names have a domain, by their short names."""
    full: dict[str, set[str]] = {}
    for host in hosts:
        short, dot, _ = host.partition(".")
        if dot:
            full.setdefault(short, set()).add(host)
    return full


def _is_one(host: str, name: str) -> bool:
    """Return True if two names are equal, or differ in that one lacks the domain."""
    return host == name or host.partition(".")[0] == name or name.partition(".")[0] == host
