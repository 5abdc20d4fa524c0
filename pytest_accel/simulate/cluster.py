"""A cluster that is not there: its file, its faults by name, and what its nodes would report of a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final

from pytest_accel.core import untrusted, yaml_nodes
from pytest_accel.core.data_file import read
from pytest_accel.core.network_run import GroupResult, NetworkNode, NetworkRun, PlannedRound, Report, Round
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.yaml_nodes import BadFile, Check, Located, Mistakes
from pytest_accel.judging.network.conclude import conclude
from pytest_accel.judging.network.rounds import next_round
from pytest_accel.simulate.faults import PARAMETERS
from pytest_accel.simulate.node import DEFAULT_DEVICES, check_kind, fault_name, product_of, whole_number

HEALTHY: Final = (0.92, 0.96)
"""Shares of its wire rate that a port sends, and receives at the same time: 46 to 48 GB/s of 400 Gbit/s (NVIDIA's
maintainer of NCCL in NVIDIA/nccl-tests issue 290), 24 GB/s of 200 Gbit/s (another one in issue 119)."""
SECONDS: Final = 35.0
"""Seconds of a round on a cluster, which nobody measured yet: the design's estimate is 30 to 40 s."""
# the noise of the design's simulations
NODE_NOISE: Final = 0.005
"""Standard deviation from node to node."""
NOISE: Final = 0.02
"""Standard deviation from measurement to measurement."""
CONGESTED: Final = 0.05
CONGESTION: Final = 0.25
"""Share of the pairs that lose to others on their way through the network, and the most that one loses."""


@dataclass(frozen=True)
class ClusterFaultKind:
    """A fault of a cluster: its effect, the checks that should catch it, its parameters, and those with a default."""

    does: str
    caught_by: str
    parameters: Sequence[str]
    defaults: Mapping[str, float] = field(default_factory=dict)


CLUSTER_FAULTS: Final[Mapping[str, ClusterFaultKind]] = {
    name: ClusterFaultKind(**kind) for name, kind in read(__file__).items()
}
"""The faults of cluster.yaml by name."""
_CLUSTER_PARAMETERS: Final[Mapping[str, tuple[Check, str]]] = {
    "by": PARAMETERS["by"],
    "node": (whole_number, "number of the node, from 0 on"),
    "nodes": (yaml_nodes.list_of(whole_number), "numbers of two nodes"),
    "leaf": (whole_number, "number of the leaf switch, from 0 on"),
    "rail": (whole_number, "number of the device, from 0 on"),
    "share": (
        yaml_nodes.number_that(lambda value: 0 < value <= 1, "a share above 0, 1 at most"),
        "share of the rounds",
    ),
}


@dataclass(frozen=True)
class ClusterFault:
    """One fault of a cluster file."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes that it names."""
        return self.parameters.get("nodes") or [self.parameters[key] for key in ("node",) if key in self.parameters]


@dataclass(frozen=True)
class SimulatedCluster:
    """A cluster to simulate. `source` is the path of its file."""

    source: str
    sku: Sku
    sku_option: str
    """Name of the SKU for --accel-sku."""
    platform: Platform
    nodes: int
    gb_per_s: float
    """GB/s that each rank of a healthy pair sends."""
    devices: int = DEFAULT_DEVICES
    leaf: int = 0
    """Nodes of a leaf switch; 0 where the topology is not known."""
    domain: int = 0
    """Nodes of an NVLink domain; 0 without one."""
    seed: int = 0
    noise: float = NOISE
    congestion: float = CONGESTED
    """The share of pairs that lose up to a quarter to others."""
    faults: tuple[ClusterFault, ...] = ()

    @cached_property
    def speeds(self) -> list[float]:
        """The speed of each node as a share of a healthy one's, with its slowness."""
        rng = Random(f"{self.seed} nodes")  # noqa: S311  a model, not a secret
        speeds = [rng.gauss(1, NODE_NOISE) for _ in range(self.nodes)]
        for fault in self.faults:
            loss = 1 / self.devices if fault.name == "dead-rail" else fault.parameters.get("by", 0.0)
            everywhere = range(self.nodes) if fault.name == "slow-network" else ()
            for node in fault.nodes if fault.name in ("slow-node", "dead-rail") else everywhere:
                speeds[node] *= 1 - loss
        return speeds

    @cached_property
    def sick(self) -> dict[str, dict[int, ClusterFault]]:
        """The nodes of each fault that names one, with the fault."""
        nodes_by_fault: dict[str, dict[int, ClusterFault]] = {name: {} for name in CLUSTER_FAULTS}
        for fault in self.faults:
            nodes_by_fault[fault.name].update(dict.fromkeys(fault.nodes, fault))
        return nodes_by_fault


def load_cluster(name: str) -> SimulatedCluster:
    """Load a cluster by the path of its file. Raises BadFile with all mistakes."""
    path = Path(name)
    if not untrusted.exists(path):
        raise BadFile(f"{name}: there is no such cluster file")
    root, _ = yaml_nodes.read(path, name)
    check_kind(root, name)
    mistakes = Mistakes()
    fields = _CLUSTER(root, "", mistakes) or {}
    mistakes.raise_if_any()
    sku_name, sku, platform = product_of(fields, root, path)
    faults = tuple(fields.pop("faults", ()))
    rate = fields.pop("gb_per_s", None) or healthy_pairs(platform)
    if not rate:
        raise BadFile(f"{name}: 'gb_per_s' is missing: what a healthy pair reaches; {platform.name} states no NICs")
    options = {"devices": platform.devices or DEFAULT_DEVICES, **fields, "sku": sku, "platform": platform}
    cluster = SimulatedCluster(str(path), sku_option=sku_name, gb_per_s=rate, faults=faults, **options)
    for item, fault in zip(root.data["faults"].data if faults else (), faults, strict=True):
        leaves = -(-cluster.nodes // cluster.leaf) if cluster.leaf else 0
        for key, count in (("node", cluster.nodes), ("leaf", leaves), ("rail", cluster.devices)):
            numbers = fault.nodes if key == "node" else [fault.parameters[key]] if key in fault.parameters else []
            if strays := [number for number in numbers if not 0 <= number < count]:
                mistakes.add(item, f"{key}: there is no {key} {strays[0]}; the cluster has {count}, numbered from 0")
        if len(set(fault.parameters.get("nodes", (0, 1)))) != 2:
            mistakes.add(item, f"nodes: expected the numbers of two nodes, found {fault.parameters['nodes']}")
    mistakes.raise_if_any()
    return cluster


def healthy_pairs(platform: Platform) -> float | None:
    """Return the GB/s of a healthy pair: that of the limit, else what healthy ports reach of their wire rate."""
    limit, wire = platform.limits.get("network.pairs"), (platform.wire_gb_per_s or 0.0) / (platform.devices or 1)
    reference = limit.reference if limit else None
    return reference or (wire * fmean(HEALTHY) if wire else None)


def _fault(item: Located, key: str, mistakes: Mistakes) -> ClusterFault | None:
    name = fault_name(item, key, mistakes, CLUSTER_FAULTS, "slow-node, node: 3")
    if name is None:
        return None
    kind = CLUSTER_FAULTS[name]
    keys = {parameter: _CLUSTER_PARAMETERS[parameter][0] for parameter in kind.parameters} | {"fault": yaml_nodes.text}
    required = [parameter for parameter in kind.parameters if parameter not in kind.defaults]
    fields = yaml_nodes.record_of(keys, required)(item, key, mistakes) or {}
    return ClusterFault(name, {**kind.defaults, **{key: value for key, value in fields.items() if key != "fault"}})


_share = yaml_nodes.number_that(lambda value: 0 <= value < 1, "a share from 0 on, below 1")
_KEYS: Final[dict[str, Check]] = {
    **dict.fromkeys(("sku", "platform"), yaml_nodes.text),
    **dict.fromkeys(("nodes", "devices", "leaf", "domain"), yaml_nodes.count),
    "gb_per_s": yaml_nodes.positive,
    "seed": whole_number,
    **dict.fromkeys(("noise", "congestion"), _share),
    "faults": yaml_nodes.list_of(_fault),
}
_CLUSTER: Callable[[Located, str, Mistakes], Any] = yaml_nodes.record_of(_KEYS, required=("sku", "nodes"))


def description(kind: ClusterFaultKind) -> list[str]:
    """Return the description of a fault of a cluster line by line: effect, parameters, checks that should catch it."""
    defaults = {name: f" (default {kind.defaults[name]})" if name in kind.defaults else "" for name in kind.parameters}
    described = [f"{name}: {_CLUSTER_PARAMETERS[name][1]}{default}" for name, default in defaults.items()]
    return [kind.does, *described, f"caught by: {kind.caught_by}"]


# -- what it reports


def network_of(cluster: SimulatedCluster, terms: NetworkRun = NetworkRun(())) -> NetworkRun:  # noqa: B008  it cannot be changed
    """Return the network run of a cluster before its first round; terms and floors are those of `terms`."""
    late_nodes = cluster.sick["late-node"]
    nodes = [
        NetworkNode(
            f"node{number}",
            cluster.devices,
            f"leaf{number // cluster.leaf}" if cluster.leaf else "",
            f"domain{number // cluster.domain}" if cluster.domain else "",
            "it did not arrive in time" if number in late_nodes else "",
        )
        for number in range(cluster.nodes)
    ]
    return replace(terms, nodes=nodes, seed=cluster.seed, simulated=cluster.source)


def measure(cluster: SimulatedCluster, planned: PlannedRound, number: int) -> Round:
    """Return a round as the nodes of a cluster report it; `number` counts the rounds from 0 on."""
    rng = Random(f"{cluster.seed} round {number}")  # noqa: S311  a model, not a secret
    ports = cluster.devices if planned.kind in ("domain", "all") else 1  # that share the busbw of all their ranks
    results = [GroupResult(nodes, _reports(cluster, nodes, rng, ports)) for nodes in planned.groups]
    return Round(planned.kind, results, number * SECONDS, (number + 1) * SECONDS)


def _reports(cluster: SimulatedCluster, nodes: Sequence[int], rng: Random, ports: int) -> list[Report]:
    sick = {name: {node for node in nodes if node in sick_nodes} for name, sick_nodes in cluster.sick.items()}
    value = ports * _value(cluster, nodes, rng)
    if silent := sick["silent-node"]:
        return [
            Report("no report", text="its agent did not answer") if node in silent else Report("waited")
            for node in nodes
        ]
    if hung := sick["hung-node"]:
        unreached = Report("not reached", text="its worker did not reach the call", kind="device")
        return [unreached if node in hung else Report("waited") for node in nodes]
    if sick["dead-link"]:
        return [Report("failed", text="connection closed by the remote rank")] * len(nodes)
    faults = cluster.sick["wrong-data"]
    culprits = [node for node in sick["wrong-data"] if rng.random() < faults[node].parameters["share"]]
    reports = [Report("measured", value, _rails(cluster, node)) for node in nodes]
    if culprits:
        mismatch = Report("wrong", value, text="1 of 1048576 elements differs")
        reports = [mismatch if culprits != [node] else reports[index] for index, node in enumerate(nodes)]
    return reports


def _value(cluster: SimulatedCluster, nodes: Sequence[int], rng: Random) -> float:
    """Return the GB/s of a group: its slowest node, what is slow between them, and noise."""
    value = cluster.gb_per_s * min(cluster.speeds[node] for node in nodes) * (1 - abs(rng.gauss(0, cluster.noise)))
    if len(nodes) == 2 and rng.random() < cluster.congestion:
        value *= 1 - CONGESTION * rng.random()
    for fault in cluster.faults:
        if fault.name == "slow-leaf":
            inside = {node // cluster.leaf == fault.parameters["leaf"] for node in nodes}
            value *= 1 - fault.parameters["by"] * (len(inside) == 2)
        elif fault.name == "slow-pair" and set(fault.nodes) <= set(nodes):
            value *= 1 - fault.parameters["by"]
    return value


def _rails(cluster: SimulatedCluster, node: int) -> list[float]:
    """Return the GB/s of each device of a node in a pair; nothing without its NIC."""
    dead = {fault.parameters["rail"] for fault in cluster.faults if fault.name == "dead-rail" and node in fault.nodes}
    slow = [fault for fault in cluster.faults if fault.name == "slow-node" and node in fault.nodes]
    speed = cluster.gb_per_s
    for fault in slow:
        speed *= 1 - fault.parameters["by"]
    return [speed * (rail not in dead) for rail in range(cluster.devices)]


def run_simulated(cluster: SimulatedCluster, terms: NetworkRun = NetworkRun(())) -> NetworkRun:  # noqa: B008
    """Return the network run of a cluster to its end, with what was concluded."""
    network = network_of(cluster, terms)
    while planned := next_round(network):
        network = replace(network, rounds=[*network.rounds, measure(cluster, planned, len(network.rounds))])
    return replace(network, conclusion=conclude(network))
