"""The network run of this node, from its own checks to the measurement that its record holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.core import clock
from pytest_accel.core.details import NetworkPart
from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.measurement import NODE, Measurement, Trouble
from pytest_accel.core.network_run import NetworkNode, NetworkRun
from pytest_accel.core.paths import refusal
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.structured import lines, plain
from pytest_accel.judging.network.conclude import node_parts
from pytest_accel.judging.network.transport import wrong_transport
from pytest_accel.probes import collective, network_pairs
from pytest_accel.probes.request import Request
from pytest_accel.run import record, simulation
from pytest_accel.run.network.agent import TOGETHER, Agent, verified
from pytest_accel.run.network.lead import Lead
from pytest_accel.run.network.message_store import MessageStore, StoreLost
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.rendezvous import Rendezvous
from pytest_accel.run.request_completion import request_of
from pytest_accel.run.setup import Inputs, Target
from pytest_accel.run.verdict_ledger import Ledger
from pytest_accel.skus.budgets import budget

if TYPE_CHECKING:
    from pytest_accel.simulate.cluster import SimulatedCluster

FILE = "network.json"
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
"""The UUID that the driver states for a device whose NVLinks do not leave its node."""
ARRIVING_SECONDS = 300.0
"""Seconds within which every node has to reach the store of rank 0."""
ALL = "network.all_reduce"
"""The metric of the limit for all nodes together: busbw in GB/s."""


class NetworkSession:
    """The part of this node in a network run. That of rank 0 also leads it, and writes network.json."""

    def __init__(self, inputs: Inputs, target: Target, pool: WorkerPool, ledger: Ledger) -> None:
        self._inputs, self._target, self._pool, self._ledger = inputs, target, pool, ledger
        self.result: NetworkRun | None = None
        """The whole run, which rank 0 alone knows."""
        self._store: MessageStore | None = None

    def meet(self) -> None:
        """Run the store, or connect to it, before anything is measured. Raises Refused if that is not possible."""
        if self._inputs.rendezvous:
            self._store = MessageStore(self._inputs.rendezvous, self._shared, ARRIVING_SECONDS)
            self._ledger.record.notes += filter(None, [self._store.note])

    def stop(self) -> None:
        """Leave the store, if this node has met the others."""
        if self._store:
            self._store.stop()

    @property
    def _shared(self) -> Path | None:
        """The output folder of all nodes, None if that of this one is its own."""
        options = self._inputs.options
        return options.output if options.shares_folder else None

    def measure(self, request: Request) -> Measurement:
        """Take part in the run, and return its finding on this node as a measurement of the metric of `request`."""
        start = clock.now()
        try:
            part = self._simulated(self._inputs.cluster) if self._inputs.cluster else self._part()
        except StoreLost as error:
            part = NetworkPart("unmeasured", text=f"rank 0 cannot be reached any more: {error}")
        return measurement_of(part, request, start, clock.now())

    def _part(self) -> NetworkPart:
        rendezvous, store, pool = self._inputs.rendezvous, self._store, self._pool
        assert rendezvous
        assert store
        agent = Agent(store, pool, self._target.devices, self._request)
        node = NetworkNode(
            self._inputs.options.launch.node if self._inputs.options.launch else rendezvous.name_of(rendezvous.rank),
            len(self._target.devices),
            self._inputs.leaf,
            self._domain(),
            self._failed(),
        )
        if rendezvous.rank:
            store.put(f"node/{rendezvous.rank}/0", node)  # this node is ready, or says why it takes no part
            silent = NetworkPart("unmeasured", text=f"{rendezvous.name_of(0)}, rank 0, sent nothing more")
            return self._by(agent, agent.follow() or silent)
        lead = Lead(store, agent, pool.progress.step)
        network = lead.run(self._without_nodes(rendezvous), node)
        lead.dismiss(network)  # before the file is written, which may fail
        self._keep(network)
        return self._by(agent, node_parts(network)[0])

    def _simulated(self, cluster: SimulatedCluster) -> NetworkPart:
        network = simulation.network(cluster, self._without_nodes(None))
        self._keep(network)
        return node_parts(network)[0]

    def _by(self, agent: Agent, part: NetworkPart) -> NetworkPart:
        """Return the finding on this node, if its own agent supports it, with the fault of its transport."""
        platform, devices = self._target.terms.platform, len(self._target.devices)
        return replace(verified(part, agent.best), transport=wrong_transport(agent.connections, platform, devices))

    def _keep(self, network: NetworkRun) -> None:
        """Keep the whole run, and write it beside the folders of the nodes, or into that of a node by itself."""
        self.result = network
        folder = self._shared or self._ledger.folder.path
        try:
            if folder:
                record.replace_file(folder / FILE, lines(plain(network)))
        except OSError as error:
            self._ledger.record.notes.append(f"{FILE} could not be written: {refusal(error)}")

    def _without_nodes(self, rendezvous: Rendezvous | None) -> NetworkRun:
        """Return the run as it was asked for: its seed, terms and floors that may reject, without nodes."""
        terms, request = self._target.terms, self._request("pairs")
        software = self._ledger.record.software
        limits = (terms.limits.get(name) for name in (request.metric, ALL))
        floors = {limit.metric: floor_in_force(limit, software).bound.floor for limit in limits if limit}
        run_terms: dict[str, Any] = {
            "sku": terms.sku.name if terms.sku else "",
            "platform": terms.platform.name,
            **request.conditions,
        }
        return NetworkRun(
            (),
            seed=int(clock.now()) if rendezvous else 0,
            terms=run_terms,
            floor=floors.get(request.metric),
            together_floor=floors.get(ALL),
        )

    def _request(self, kind: str) -> Request:
        """Return the request of a kind of round: an all-reduce of all ranks, or of pairs of them."""
        sku, level = self._target.terms.sku, self._target.terms.level
        function = collective if kind in TOGETHER else network_pairs
        request = request_of(function, {}, None, sku)
        return replace(request, seconds=budget(request.declaration, request.metric, level, sku), precision=0.01)

    def _failed(self) -> str:
        """Return the reason why this node takes no part: the worst of its failing checks; empty if none fails."""
        failures = worst_first([verdict for verdict in self._ledger.verdicts if verdict.rejects])
        if not failures:
            return ""
        worst = failures[0]
        return printable(f"{self._target.discovery.names[worst.culprit]} {worst.metric}: {sentence_of(worst)}", SHOWN)

    def _domain(self) -> str:
        """Return the NVLink domain of the devices, empty without one or if they are in several."""
        facts = [device.facts for device in self._target.devices]
        domains = {f"{entry.get('fabric_cluster', '')}.{entry.get('fabric_clique', '')}" for entry in facts}
        domain = domains.pop() if len(domains) == 1 else "."
        return "" if domain.startswith((".", NO_CLUSTER)) else domain


def measurement_of(part: NetworkPart, request: Request, start: float, end: float) -> Measurement:
    """Return the finding of a network run on a node as a measurement: its score, and its trouble, if any."""
    troubles = {
        "wrong": Trouble("device", part.text, wrong=True),
        "not reached": Trouble("device", part.text),
        "unmeasured": Trouble("need", part.text),
        "left out": Trouble("need", part.text),
    }
    return Measurement(
        request.metric,
        NODE,
        request.declaration.unit,
        value=part.score,
        conditions=request.conditions,
        trouble=troubles.get(part.found) or (Trouble("device", part.transport) if part.transport else None),
        started=start,
        ended=end,
        details={"network": part},
    )
