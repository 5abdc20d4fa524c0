"""The choice of a simulated node for a run: only by --accel-simulate, and never on a machine with accelerators."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import time
from pathlib import Path
from typing import Any

from pytest_accel.core.network_run import NetworkRun
from pytest_accel.core.run import Launch
from pytest_accel.drivers import registry
from pytest_accel.drivers.host.hints import hints
from pytest_accel.run.options import Refused
from pytest_accel.run.processes.programs import Processes, without_gpus
from pytest_accel.run.terms import refusing
from pytest_accel.simulate import node as nodes
from pytest_accel.simulate.board import SharedState
from pytest_accel.simulate.cluster import SimulatedCluster, load_cluster, run_simulated
from pytest_accel.simulate.model import model_of, rates
from pytest_accel.simulate.node import SimulatedNode

HZ = 20.0
"""Readings per second; more than on a real node, since simulated time runs faster."""

SETTLE_STEP = 0.2
"""Seconds between two readings of temperatures while devices cool down; short, for the same reason."""


def node(
    value: str | None, launch: Launch | None = None, root: Path = Path("/"), option: str = "--accel-simulate"
) -> SimulatedNode | None:
    """Return the simulated node that the value of an option asks for, None without one.

    Raises Refused for a wrong node file, a missing library, or a machine that has accelerators.
    """
    if value is None:
        return None
    _demand_no_accelerator(option, root)
    with refusing(option):
        simulated = nodes.load(value)
    vendor = registry.vendor(simulated.sku.vendor)
    if not importlib.util.find_spec(vendor.library):
        raise Refused(f"{option}: a simulated {vendor.title} node needs {vendor.library}: {vendor.install}")
    if not launch or not launch.shares_folder:
        return simulated
    # The nodes of a job that simulate one file differ as real ones do: in serials, UUIDs, and a part of every figure.
    seed = int.from_bytes(hashlib.sha256(f"{simulated.seed}/{launch.node}".encode()).digest()[:4], "big")
    return dataclasses.replace(simulated, seed=seed)


def cluster(value: str, root: Path = Path("/")) -> tuple[SimulatedCluster, SimulatedNode]:
    """Return the simulated cluster of a network run, and a healthy node of it. Raises Refused as `node` does."""
    option = "--accel-simulate"
    _demand_no_accelerator(option, root)
    with refusing(option):
        loaded = load_cluster(value)
    return loaded, SimulatedNode(loaded.source, loaded.sku, loaded.sku_option, loaded.platform, loaded.seed)


def network(cluster: SimulatedCluster, plan: NetworkRun) -> NetworkRun:
    """Return the network run of a simulated cluster, by the terms and floors that were asked for."""
    return run_simulated(cluster, plan)


def _demand_no_accelerator(option: str, root: Path) -> None:
    """Raise Refused on a machine that has accelerators."""
    if matches := hints(root):
        raise Refused(
            f"{option}: this machine has accelerators ({matches[0].driver} at {matches[0].where}"
            f"{', ...' * (len(matches) > 1)}); simulate on a machine that has none"
        )


def processes(node: SimulatedNode, folder: Path, elapsed: float = 0.0) -> Processes:
    """Return the programs of a simulated node: a sensor and workers that share the state of its model in `folder`.

    `elapsed` are the simulated seconds that it has behind it.
    """
    return Processes(
        sensor_module="pytest_accel.simulate.simulated_sensor",
        worker_module="pytest_accel.simulate.simulated_worker",
        hello={"event": "node", "model": model(node, folder, elapsed)},
        hz=lambda devices: HZ,
        threads=lambda group: 1,
        environment=lambda group: without_gpus(1),
        settle_step=SETTLE_STEP,
    )


def model(node: SimulatedNode, folder: Path, elapsed: float = 0.0) -> dict[str, Any]:
    """Return the model of the node as a message to every process, and create the file in `folder` that they share."""
    node_model = model_of(node, time.time() - elapsed, str(folder / "board"))
    board = SharedState(folder / "board", node_model.devices)
    for index in range(node_model.devices):
        board.write(index, now=elapsed)
    return dataclasses.asdict(node_model)


def for_record(node: SimulatedNode, elapsed: float = 0.0) -> dict[str, Any]:
    """Return the entry of the record that says what was simulated: node file and hash, faults, and healthy rates.

    `elapsed` are the simulated seconds at which it began.
    """
    return {
        "node": node.source,
        "began": elapsed,
        "sha256": node.sha256,
        "sku": node.sku.name,
        "platform": node.platform.name,
        "seed": node.seed,
        "faults": [dataclasses.asdict(fault) for fault in node.faults],
        "rates": {metric: dataclasses.asdict(rate) for metric, rate in rates(node).items()},
        "note": "times of measurements and telemetry are simulated; the clock of the host ran slower",
    }
