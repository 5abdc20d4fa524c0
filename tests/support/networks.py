"""Clusters that are simulated in tests, and transports that are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

from pytest_accel.core.details import NetworkOutcome, RoundKind
from pytest_accel.core.network_run import GroupResult, NetworkNode, NetworkRun, PlannedRound, Report, Round
from pytest_accel.core.sku_types import Sku
from pytest_accel.judging.network.conclude import conclude
from pytest_accel.judging.network.rounds import next_round
from pytest_accel.simulate.cluster import ClusterFault, SimulatedCluster, run_simulated
from pytest_accel.skus import loader

GB_PER_S = 46.0
Transport = Callable[[PlannedRound, int], Round]


@lru_cache(None)
def sku() -> Sku:
    """The product of every simulated cluster."""
    return loader.load("h100-sxm")


def cluster(nodes: int, *faults: ClusterFault, **more: Any) -> SimulatedCluster:
    """A cluster of nodes of eight devices."""
    platform = sku().platform_named("hgx8")
    assert platform
    return SimulatedCluster(
        "c.yaml", sku(), "h100-sxm", platform, nodes, GB_PER_S, faults=faults, **{"devices": 8, **more}
    )


def fault(name: str, **parameters: Any) -> ClusterFault:
    """A fault of a cluster."""
    return ClusterFault(name, parameters)


def ended(network: NetworkRun, transport: Transport) -> NetworkRun:
    """A network run to its end."""
    while planned := next_round(network):
        network = replace(network, rounds=[*network.rounds, transport(planned, len(network.rounds))])
        assert len(network.rounds) < 60
    return replace(network, conclusion=conclude(network))


def simulated(one: SimulatedCluster, **terms: Any) -> NetworkRun:
    """A run of a simulated cluster, with floors that its platform does not state."""
    return run_simulated(one, NetworkRun((), **terms))


def network(nodes: int, **more: Any) -> NetworkRun:
    """A network before its first round."""
    return NetworkRun([NetworkNode(f"node{place}", 8) for place in range(nodes)], **more)


def transport(value: Callable[[RoundKind, Sequence[int]], float | list[Report]]) -> Transport:
    """A transport that measures what `value` says of a group, or reports it."""

    def measured(planned: PlannedRound, _: int) -> Round:
        results = []
        for nodes in planned.groups:
            found = value(planned.kind, nodes)
            reports = found if isinstance(found, list) else [Report("measured", found) for _ in nodes]
            results.append(GroupResult(nodes, reports))
        return Round(planned.kind, results)

    return measured


def found(network: NetworkRun, what: NetworkOutcome) -> set[int]:
    """The nodes of which this was concluded."""
    return {place for place, each in enumerate(network.conclusion.nodes) if each.found == what}


def kinds(network: NetworkRun) -> list[str]:
    """The kinds of its rounds, each with their number."""
    every = [each.kind for each in network.rounds]
    return [f"{kind} {every.count(kind)}" for kind in dict.fromkeys(every)]


def places(nodes: int, count: int) -> list[tuple[int, tuple[int, ...]]]:
    """Twenty placements: a seed, and so many nodes."""
    return [(seed, tuple(Random(seed).sample(range(nodes), count))) for seed in range(20)]  # noqa: S311
