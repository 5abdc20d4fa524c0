"""What the host that the accelerators sit in is set to and says of itself: judged like anything measured."""

from __future__ import annotations

from typing import Any

from pytest_accel.drivers.host.reading import FACTS
from pytest_accel.probes.declare import probe

HOST_FACTS = tuple(FACTS)
"""Every fact of the host: numa_balancing, iommu, nic_state ..."""


@probe("host.{fact}", runs="facts")
def host(device: Any, *, fact: str = "machine") -> None:
    """One fact of the host, of HOST_FACTS. Read once by the sensor process, not by a worker."""
    raise NotImplementedError("facts are answered by the run")
