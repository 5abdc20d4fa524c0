"""The worker process of a simulated node.

`run/processes/supervisor.py` starts it with PARENT_PID and EPOCH. The first message holds the model of the node.
Afterwards it is an ordinary worker whose device is simulated.
"""

from __future__ import annotations

from functools import partial

from pytest_accel.core.pipe import begin
from pytest_accel.probes.device import worker
from pytest_accel.simulate.device import SimulatedDevice
from pytest_accel.simulate.model import Model


def main() -> None:
    """Run the worker until its process ends."""
    pipe = begin()
    hello = next(pipe.receive())
    worker.serve(pipe, partial(SimulatedDevice, model=Model.read(hello["model"])))


if __name__ == "__main__":
    main()
