"""What is read rather than measured, and judged in the same way: of the devices (`inventory`, `health`, `counters`) and
of the host (`host`, `host_counters`)."""

from __future__ import annotations

from typing import Any

from pytest_accel.core import host_facts
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.probes.declare import ANY, probe


@probe("inventory.{fact}", runs="facts", variants={"fact": ANY}, required=True)
def inventory(device: Any, *, fact: str = "driver") -> None:
    """One fact of the inventory: driver, count, sku, vbios ... Answered by the run itself, not by a worker."""
    raise NotImplementedError("facts are answered by the run")


@probe("health.{fact}", runs="facts", variants={"fact": ANY}, required=True)
def health(device: Any, *, fact: str) -> None:
    """One fact of the health, such as remap_pending. Answered by the run itself, not by a worker."""
    raise NotImplementedError("facts are answered by the run")


HOST_FACTS = tuple(host_facts.HOST_FACTS)
"""Every fact of the host: numa_balancing, iommu, nic_state ..."""


@probe("host.{fact}", runs="facts", variants={"fact": ANY}, node=True)
def host(device: Any, *, fact: str = "machine") -> None:
    """One fact of the host, of HOST_FACTS. Read once by the sensor process, not by a worker."""
    raise NotImplementedError("facts are answered by the run")


HOST_COUNTERS = (*host_facts.COUNTED_HOST_FACTS, *LOGGED)
"""Every counter of the host: ecc_corrected, nic_link_downed ...; and what the kernel log says of it."""


@probe("counters.{fact}", runs="facts", variants={"fact": ANY})
def counters(device: Any, *, fact: str) -> None:
    """How far one counter of errors, such as nvlink_crc, moved since the first probe. Answered by the run itself."""
    raise NotImplementedError("facts are answered by the run")


@probe("host_counters.{fact}", runs="facts", variants={"fact": ANY}, node=True)
def host_counters(device: Any, *, fact: str) -> None:
    """How far one counter of the host, of HOST_COUNTERS, moved from the first probe to the last. Answered by the run
    itself."""
    raise NotImplementedError("facts are answered by the run")
