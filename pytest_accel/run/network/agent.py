"""The agent of one node in a network run: its workers are ranks of the groups that rank 0 plans; it reports each."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from pytest_accel.core import clock
from pytest_accel.core.details import NetworkPart, RoundKind
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.messages import Outcome
from pytest_accel.core.network_run import SCORED, Report, Task
from pytest_accel.core.verdict import show
from pytest_accel.judging.facts import results
from pytest_accel.probes.device.rank import HERE
from pytest_accel.probes.request import GroupRank, Request
from pytest_accel.run.network.message_store import MessageStore
from pytest_accel.run.processes.worker_pool import UNTIL_READY, WorkerPool
from pytest_accel.run.rendezvous import interface_to

RequestOf = Callable[[str], Request]
"""A function that returns the request of a kind of round, without its ranks."""

OPENING_SECONDS = 120.0
"""Seconds that a node may need in a round beside its measuring: a worker that was killed is started again."""


TOGETHER: tuple[RoundKind, ...] = ("domain", "all")
"""The rounds in which all devices of all nodes of a group are ranks of one process group."""


class Agent:
    """The agent of this node, which measures its groups on all `devices` of the node."""

    def __init__(self, store: MessageStore, pool: WorkerPool, devices: Sequence[Device], request_of: RequestOf) -> None:
        self._store, self._pool, self._devices, self._request_of = store, pool, devices, request_of
        self._rendezvous = store.rendezvous
        self._interface = interface_to(self._rendezvous.host)
        self.connections: Counter[str] = Counter()
        """The connections that the ranks of this node had to other nodes in pairs, by kind."""
        self.best = 0.0
        """GB/s: the best value that this node measured in pairs; 0 without one."""

    @property
    def longest(self) -> float:
        """The seconds after which a round is over on every node, also where a rank hangs."""
        return self._request_of("pairs").seconds + (UNTIL_READY + 1) * self._pool.patience + OPENING_SECONDS

    def follow(self) -> NetworkPart | None:
        """Do the tasks of rank 0 until it ends the run, and return its finding on this node.

        None if it sends nothing for as long as four rounds of others may take. Raises StoreLost.
        """
        number = 0
        while task := self._store.take(Task, f"task/{self._rendezvous.rank}/{number}", 4 * self.longest, self._tell):
            if task.kind == "end":
                with contextlib.suppress(Exception):  # rank 0 may have gone already
                    self._store.put(f"left/{self._rendezvous.rank}/0", {})
                return task.part
            self._store.put(f"report/{self._rendezvous.rank}/{task.number}", self.measure(task))
            number += 1
        return None

    def _tell(self, elapsed: float) -> None:
        self._pool.progress.step(f"network: waiting for the other nodes, {elapsed:.0f} s")

    def measure(self, task: Task) -> Report:
        """Measure with the group of a task, and return what this node saw."""
        request = replace(self._request_of(task.kind), ranks=self._ranks(task), started=clock.now())
        outcomes: list[Outcome] = []
        self._pool.measure(request, self._devices, outcomes.append)
        measurement = results.per_node(outcomes, replace(request, ended=clock.now()), lambda metric: None)[0]
        if task.kind not in TOGETHER:
            for result in (entry for outcome in outcomes for entry in outcome.results):
                self.connections.update(result["details"].get("account", {}).get("connections", {}))
        report = report_of(outcomes, measurement)
        if task.kind in SCORED:
            self.best = max(self.best, report.value or 0.0)
        return report

    def _ranks(self, task: Task) -> list[GroupRank]:
        """Return the rank of each device in its process group; in a pair it meets its equal one alone."""
        count = len(self._devices)
        key = self._store.seal.key(f"group/{task.number}/{task.group}")
        name = f"tcp://{self._rendezvous.host}:{self._rendezvous.port}/{key}"
        account = str(self._pool.meeting / "network.rank")
        options = {"interface": self._interface or HERE}
        return [
            GroupRank(f"{name}/{rail}", task.position, task.nodes, f"{account}{rail}", **options)
            if task.kind not in TOGETHER
            else GroupRank(name, task.position * count + rail, task.nodes * count, f"{account}{rail}", **options)
            for rail in range(count)
        ]


def verified(part: NetworkPart, best: float) -> NetworkPart:
    """Return the finding of rank 0 on a node; unmeasured if it does not follow from the node's own value `best`."""
    if (best or part.found != "good") and (part.score or 0.0) <= best:
        return part
    claimed, actual = show(part.score, "GB/s"), show(best or None, "GB/s")
    return NetworkPart("unmeasured", text=f"rank 0 states {part.found} with {claimed}, and this node measured {actual}")


def report_of(outcomes: Sequence[Outcome], measurement: Measurement) -> Report:
    """Return the report of a node, from what its workers sent and the measurement that was made of it.

    A worker that waited in a collective, or whose library raised an error there, may do so because of another node.
    """
    trouble = measurement.trouble
    if trouble is None:
        ranks = [rate for rate in measurement.details["ranks"] if isinstance(rate, float)]
        return Report("measured", cast(float, measurement.value), ranks)
    sent = [outcome.trouble for outcome in outcomes if outcome.trouble and not outcome.trouble.secondary]
    if trouble.wrong:
        return Report("wrong", text=trouble.reason)
    if sent and all(cause.waited_in_torch for cause in sent):
        return Report("waited", text=trouble.reason)
    # raised by a library of collectives that does not attribute it to this device
    if sent and all(cause.collective and cause.kind != "device" for cause in sent):
        return Report("failed", text=trouble.reason)
    # an error of software says nothing of the node
    kind = trouble.kind if trouble.kind in ("device", "external") else "need"
    return Report("not reached", text=trouble.reason, kind=kind)
