"""Probes, which measure or read metrics: plain functions `probe(device, **conditions)` with a declaration.

Every probe that a module of this folder declares is a public name of this package, so each is imported here:
`probes.matmul` is the function in `matmul.py`. Importing the package imports no torch, since probes run in the worker
processes.
"""

from pytest_accel.probes import declare
from pytest_accel.probes.collectives import collective as collective
from pytest_accel.probes.exact_matmul import exact_matmul as exact_matmul
from pytest_accel.probes.facts import HOST_COUNTERS
from pytest_accel.probes.facts import counters as counters
from pytest_accel.probes.facts import health as health
from pytest_accel.probes.facts import host as host
from pytest_accel.probes.facts import host_counters as host_counters
from pytest_accel.probes.facts import inventory as inventory
from pytest_accel.probes.host_copy import host_copy as host_copy
from pytest_accel.probes.host_copy import host_copy_all as host_copy_all
from pytest_accel.probes.matmul import matmul as matmul
from pytest_accel.probes.matmul_best import matmul_best as matmul_best
from pytest_accel.probes.matmul_mamf import matmul_mamf as matmul_mamf
from pytest_accel.probes.memory_pattern import memory_pattern as memory_pattern
from pytest_accel.probes.network import network_pairs as network_pairs
from pytest_accel.probes.peer_copy import peer_copy as peer_copy
from pytest_accel.probes.peer_copy import peer_copy_all as peer_copy_all
from pytest_accel.probes.soak import soak as soak
from pytest_accel.probes.stream import stream as stream
from pytest_accel.probes.training import ddp_step as ddp_step
from pytest_accel.probes.training import training_step as training_step
from pytest_accel.probes.vendor_diagnostic import vendor_diagnostic as vendor_diagnostic

_names = sorted(declaration.name for declaration in declare.declarations() if declaration.packaged)
__all__ = ["HOST_COUNTERS", *_names]  # noqa: PLE0604  they are strings
