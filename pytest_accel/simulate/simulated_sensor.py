"""The sensor process of a simulated node.

`run/processes/supervisor.py` starts it with PARENT_PID and EPOCH. The first message holds the model of the node.
Afterwards it is an ordinary sensor whose drivers use a simulated management library.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pytest_accel.core import simulated
from pytest_accel.core.pipe import begin
from pytest_accel.drivers import sensor
from pytest_accel.drivers.sensor import Machine, host_facts
from pytest_accel.simulate import management
from pytest_accel.simulate.model import Model


def machine(model: Model) -> Machine:
    """Return the machine that the sensor reads, and install the node's management library below its wrapper."""
    management.install(model)
    return Machine(
        hints=partial(management.hints, model),
        container=str,
        now=management.clock(model),
        host=partial(_host_facts, model),
        kernel_reports=None,
        kernel_past=list,
        drives=lambda module: True,
    )


def _host_facts(model: Model, names: Iterable[str]) -> dict[str, Any]:
    """Return these facts of the host, which are simulated only if a fault concerns them."""
    root = management.host(model)
    return host_facts(root, names) if root else {name: {"absent": simulated.HOST} for name in names}


def main() -> None:
    """Run the sensor until its process ends."""
    pipe = begin()
    hello = next(pipe.receive())
    sensor.serve(pipe, machine(Model.read(hello["model"])))


if __name__ == "__main__":
    main()
