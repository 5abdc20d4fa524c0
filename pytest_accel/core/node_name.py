"""The name of this node (its launcher's, else that of the host), and the comparison of names of nodes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable


def node_name(environment: Mapping[str, str] | None = None) -> str:
    """Return the name of this node.

    Slurm may call a node otherwise than it calls itself, and the host name of a pod is that of the pod.
    """
    environment = os.environ if environment is None else environment
    # other programs set NODE_NAME too, so it counts on Kubernetes alone
    of_pod = environment.get("NODE_NAME", "") if "KUBERNETES_SERVICE_HOST" in environment else ""
    return printable((environment.get("SLURMD_NODENAME") or of_pod).strip(), 200) or os.uname().nodename


def other_name(environment: Mapping[str, str] | None = None) -> str:
    """Return the name of this node if its launcher calls it otherwise than the host calls itself, else an empty text.

    A domain behind the name makes no difference.
    """
    name, host = node_name(environment), os.uname().nodename
    return "" if name.partition(".")[0] == host.partition(".")[0] else name


# -- hosts that are one node


def names_among(hosts: Collection[str]) -> set[str]:
    """Return the names of the nodes that these hosts are, without a second name of the same node.

    A host's name with its domain is that of the node of its short name, unless several domains have such a host.
    """
    fqdns = _with_domain(hosts)
    return {host for host in hosts if not ((base := host.partition(".")[0]) in hosts and fqdns.get(base) == {host})}


def nodes_of(hosts: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Return the name of the node by the name of each host. Either may lack the domain.

    A host that is none of them, or may be several, is left out; so is one that only lacks the domain, or alone has it,
    if several domains have such a host.
    """
    by_base = grouped(names, lambda name: name.partition(".")[0])
    fqdns = _with_domain({*hosts, *names})
    nodes = {}
    for host in hosts:
        base = host.partition(".")[0]
        matches = [name for name in by_base.get(base, ()) if _is_one(host, name)]
        if host in matches:
            nodes[host] = host
        elif len(matches) == 1 and len(fqdns.get(base, ())) < 2:
            nodes[host] = matches[0]
    return nodes


def several(name: str, hosts: Collection[str]) -> list[str]:
    """Return the hosts that may be this node, if they are several machines: those of its name in other domains."""
    fqdns = _with_domain({*hosts, name}).get(name.partition(".")[0], set())
    return sorted(host for host in hosts if _is_one(host, name)) if len(fqdns) > 1 and name not in hosts else []


def _with_domain(hosts: Iterable[str]) -> dict[str, set[str]]:
    """Return the hosts whose names have a domain, by their short names."""
    fqdns: dict[str, set[str]] = {}
    for host in hosts:
        base, dot, _ = host.partition(".")
        if dot:
            fqdns.setdefault(base, set()).add(host)
    return fqdns


def _is_one(host: str, name: str) -> bool:
    """Return True if two names are equal, or differ in that one lacks the domain."""
    return host == name or host.partition(".")[0] == name or name.partition(".")[0] == host
