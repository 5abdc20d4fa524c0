"""The lead of a network run, which rank 0 takes beside its own part: wait for the nodes, plan the rounds, conclude."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pytest_accel.core import clock
from pytest_accel.core.network_run import GroupResult, NetworkNode, NetworkRun, PlannedRound, Report, Round, Task
from pytest_accel.judging.network.conclude import conclude, node_parts
from pytest_accel.judging.network.rounds import next_round
from pytest_accel.run.network.agent import Agent
from pytest_accel.run.network.message_store import MessageStore

LEAVING_SECONDS = 30.0
"""Seconds that rank 0, which runs the store, waits at the end for the nodes to read what was found of them."""


class Lead:
    """Rank 0, which plans the rounds of a network run and measures its own part of each by its `agent`."""

    def __init__(self, store: MessageStore, agent: Agent, tell: Callable[[str], None]) -> None:
        self._rendezvous, self._store, self._agent, self._tell = store.rendezvous, store, agent, tell
        self._longest = agent.longest
        self._sent = [0] * store.rendezvous.nodes
        """The tasks that each node was sent."""

    def run(self, network: NetworkRun, lead_node: NetworkNode) -> NetworkRun:
        """Return the run as it ended. `network` has its terms, `lead_node` is the node of rank 0. Raises StoreLost."""
        network = replace(network, nodes=self._nodes(lead_node))
        while planned := next_round(network):
            self._tell(f"network round {len(network.rounds)}, {planned.kind}: {len(planned.groups)} groups")
            network = replace(network, rounds=[*network.rounds, self._round(planned, len(network.rounds))])
        return replace(network, conclusion=conclude(network))

    def dismiss(self, network: NetworkRun) -> None:
        """Send every node the finding on it, and wait until they have read it, since the store ends with rank 0."""
        for rank, part in enumerate(node_parts(network)[1:], 1):
            self._send(rank, Task("end", part=part))
        end = time.monotonic() + LEAVING_SECONDS
        for rank in range(1, self._rendezvous.nodes):
            if not network.nodes[rank].left_out:
                self._store.take(dict, f"left/{rank}/0", end - time.monotonic())

    def _nodes(self, lead_node: NetworkNode) -> list[NetworkNode]:
        """Return the nodes once they are ready; one that is late is left out, and so is one of other devices."""
        end = time.monotonic() + self._longest
        nodes = [lead_node]
        for rank in range(1, self._rendezvous.nodes):
            name = self._rendezvous.name_of(rank)
            self._tell(f"network: waiting for {name}")
            node = self._store.take(NetworkNode, f"node/{rank}/0", end - time.monotonic())
            reason = f"nothing that fits came from it within {self._longest:.0f} s of rank 0"
            nodes.append(node or NetworkNode(name, lead_node.devices, left_out=reason))
        counts = [node.devices for node in nodes if not node.left_out]
        common = max(set(counts), key=counts.count, default=lead_node.devices)
        return [_alike(node, common) for node in nodes]

    def _round(self, planned: PlannedRound, number: int) -> Round:
        """Have all groups of a round measured, and return their reports."""
        start, end = clock.now(), time.monotonic() + self._longest
        tasks = {
            rank: Task(planned.kind, number, min(group), len(group), position)
            for group in planned.groups
            for position, rank in enumerate(group)
        }
        lead_task = tasks.pop(0, None)
        # the others begin first: measuring blocks this process until its own group is done
        for rank, task in tasks.items():
            self._send(rank, task)
        reports = {0: self._agent.measure(lead_task)} if lead_task else {}
        for rank in tasks:
            reports[rank] = self._report(number, rank, end)
        results = [GroupResult(group, [reports[rank] for rank in group]) for group in planned.groups]
        return Round(planned.kind, results, start, clock.now())

    def _report(self, number: int, rank: int, end: float) -> Report:
        """Return the report of a node, or that there is none."""
        waiting = f"network round {number}: waiting for {self._rendezvous.name_of(rank)}"
        name, seconds = f"report/{rank}/{number}", end - time.monotonic()
        report = self._store.take(Report, name, seconds, lambda elapsed: self._tell(f"{waiting}, {elapsed:.0f} s"))
        return report or Report("no report", text=f"its agent did not answer within {self._longest:.0f} s")

    def _send(self, rank: int, task: Task) -> None:
        self._store.put(f"task/{rank}/{self._sent[rank]}", task)
        self._sent[rank] += 1


def _alike(node: NetworkNode, devices: int) -> NetworkNode:
    """Return a node, left out if it has another number of devices than most: ranks of a pair are equal ones."""
    if node.left_out or node.devices == devices:
        return node
    return replace(node, left_out=f"it has {node.devices} devices, and most nodes have {devices}")
