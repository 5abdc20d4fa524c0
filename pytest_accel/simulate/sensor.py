"""The sensor process of a simulated node. Started by run/processes/supervisor.py with PARENT_PID and EPOCH.

The first message holds the model of the node; afterwards it is the sensor of any run, whose drivers talk to a
simulated management library.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pytest_accel.core.pipe import begin
from pytest_accel.drivers import sensor
from pytest_accel.drivers.sensor import Machine, host_facts
from pytest_accel.simulate import management
from pytest_accel.simulate.model import Model


def machine(model: Model) -> Machine:
    """What the sensor of this node looks at. Puts the node's management library below its wrapper."""
    management.install(model)
    return Machine(
        shown=partial(management.hints, model),
        now=management.clock(model),
        host=partial(_host_facts, model),
        profiling=list,
        kernel_reports=None,
    )


def _host_facts(model: Model, names: Iterable[str]) -> dict[str, Any]:
    """These facts of the host, where a fault is in them."""
    root = management.host(model)
    return host_facts(root, names) if root else {name: {"absent": "the host is not simulated"} for name in names}


def main() -> None:
    pipe = begin()
    hello = next(pipe.receive())
    sensor.serve(pipe, machine(Model.read(hello["model"])))


if __name__ == "__main__":
    main()
