"""The things that are measured. Each probe is a plain function `probe(device, **conditions)`.

Importing this package imports no torch: probes run in the worker processes.
"""

from pytest_accel.probes.all_reduce import all_reduce
from pytest_accel.probes.ddp_step import ddp_step
from pytest_accel.probes.exact_matmul import exact_matmul
from pytest_accel.probes.facts import HOST_COUNTERS, HOST_FACTS, counters, health, host, host_counters, inventory
from pytest_accel.probes.host_copy import host_copy, host_copy_all, host_latency
from pytest_accel.probes.matmul import matmul, matmul_burst
from pytest_accel.probes.matmul_best import matmul_best
from pytest_accel.probes.memory_pattern import memory_pattern
from pytest_accel.probes.peer_copy import peer_copy, peer_copy_all
from pytest_accel.probes.soak import soak
from pytest_accel.probes.stream import stream, stream_windows

__all__ = [
    "HOST_COUNTERS",
    "HOST_FACTS",
    "all_reduce",
    "counters",
    "ddp_step",
    "exact_matmul",
    "health",
    "host",
    "host_copy",
    "host_copy_all",
    "host_counters",
    "host_latency",
    "inventory",
    "matmul",
    "matmul_best",
    "matmul_burst",
    "memory_pattern",
    "peer_copy",
    "peer_copy_all",
    "soak",
    "stream",
    "stream_windows",
]
