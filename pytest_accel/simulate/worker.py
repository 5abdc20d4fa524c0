"""The worker process of a simulated node. Started by run/processes/supervisor.py with PARENT_PID and EPOCH.

The first message holds the model of the node; afterwards it is the worker of any run, whose device is simulated.
"""

from __future__ import annotations

from functools import partial

from pytest_accel.core.pipe import begin
from pytest_accel.probes.device import worker
from pytest_accel.simulate.device import SimulatedDevice
from pytest_accel.simulate.model import Model


def main() -> None:
    pipe = begin()
    hello = next(pipe.receive())
    worker.serve(pipe, partial(SimulatedDevice, model=Model.read(hello["model"])))


if __name__ == "__main__":
    main()
