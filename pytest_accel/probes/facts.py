"""Facts, which are read rather than measured and judged in the same way.

`inventory`, `health` and `counters` are facts of the devices, `host` and `host_counters` facts of the host. The sensor
process reads them, so the functions here only declare them, and no worker runs them.
"""

from __future__ import annotations

from typing import Any

from pytest_accel.core.host_facts import COUNTED_HOST_FACTS
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.probes.declare import ANY, probe


@probe("inventory.{fact}", runs="facts", variants={"fact": ANY}, required="inventory")
def inventory(device: Any, *, fact: str = "driver") -> None:
    """Declare the facts of the inventory: driver, count, sku, vbios ..."""


@probe("health.{fact}", runs="facts", variants={"fact": ANY}, required="health")
def health(device: Any, *, fact: str) -> None:
    """Declare the facts of a device's health, such as remap_pending."""


@probe("host.{fact}", runs="facts", variants={"fact": ANY}, node=True)
def host(device: Any, *, fact: str = "machine") -> None:
    """Declare the facts of the host (numa_balancing, iommu, nic_state ...), which are read once a run."""


HOST_COUNTERS = (*COUNTED_HOST_FACTS, *LOGGED)
"""Counters of the host: ecc_corrected, nic_link_downed ..., and the messages that are counted in the kernel log."""


@probe("counters.{fact}", runs="facts", variants={"fact": ANY})
def counters(device: Any, *, fact: str) -> None:
    """Declare the error counters of a device, such as nvlink_crc: how far they moved since the first probe."""


@probe(
    "host_counters.{fact}",
    runs="facts",
    variants={"fact": ANY},
    suite=[f"host_counters.{name}" for name in HOST_COUNTERS],
    node=True,
)
def host_counters(device: Any, *, fact: str) -> None:
    """Declare the counters of the host (`HOST_COUNTERS`): how far they moved from the first probe to the last."""
