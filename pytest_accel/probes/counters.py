"""Errors that the devices, and the host around them, counted while they were measured."""

from __future__ import annotations

from typing import Any

from pytest_accel.drivers.host.reading import COUNTED
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.probes.declare import probe

HOST_COUNTERS = (*COUNTED, *LOGGED)
"""Every counter of the host: ecc_corrected, nic_link_downed ...; and what the kernel log says of it."""


@probe("counters.{fact}", runs="facts")
def counters(device: Any, *, fact: str) -> None:
    """How far one counter of errors, such as nvlink_crc, moved since the first probe. Answered by the run itself."""
    raise NotImplementedError("facts are answered by the run")


@probe("host_counters.{fact}", runs="facts")
def host_counters(device: Any, *, fact: str) -> None:
    """How far one counter of the host, of HOST_COUNTERS, moved from the first probe to the last. Answered by the run
    itself."""
    raise NotImplementedError("facts are answered by the run")
