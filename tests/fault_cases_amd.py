"""What the simulated AMD node can have, and the checks that have to catch it: over the real amdsmi and our driver.

What needs all eight of a board (a majority, a mesh of links) is tried on one, the rest on two devices or one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fault_case import FACTS, Case, advice, refused


def _on(fault: str, place: int) -> str:
    """The device stands behind the name of the fault."""
    name, comma, more = fault.partition(",")
    return f"{name}, device: {place}{comma}{more}"


def board(fault: str, *caught_by: str, blames: str = "gpu1", measured: tuple[str, ...] = FACTS) -> Case:
    """A fault on a board of eight."""
    return Case(fault, caught_by, blames, sku="ours", platform="oam8", measured=measured)


def two(fault: str, *caught_by: str, measured: tuple[str, ...] | None = None, words: tuple[str, ...] = ()) -> Case:
    """A fault of the second of two devices."""
    return Case(_on(fault, 1), caught_by, sku="few", platform="two", measured=measured, words=words)


def three(fault: str, *caught_by: str, measured: tuple[str, ...]) -> Case:
    """A fault of the second of three devices, of which the others are the majority."""
    return replace(two(fault, *caught_by, measured=measured), platform="three")


def alone(fault: str, *caught_by: str, measured: tuple[str, ...] = FACTS) -> Case:
    """A fault of the only device of a node."""
    return Case(_on(fault, 0), caught_by, "gpu0", sku="ours", platform="single", measured=measured)


def warned(case: Case) -> Case:
    """The same as advice."""
    return replace(case, status="MARGINAL", closing="HELD", exit=6)


def of_host(fault: str, metric: str, sku: str = "ours") -> Case:
    return replace(advice(fault, metric, measured=("stream",)), sku=sku, platform="single")


def lost(fault: str, metric: str) -> Case:
    """What rejects the node."""
    return replace(of_host(fault, metric), status="FAIL", closing="REJECTED", exit=1)


RAS = ("umc", "sdma", "gfx", "mmhub", "xgmi_wafl")
SOAK = ("soak",)

IN_PROCESS: Sequence[Case] = (
    # -- what should be there
    board("device-missing, device: 1", "inventory.driver", "inventory.count", blames="node"),
    board("device-lost, device: 1", "inventory.driver", "inventory.count", blames="node"),
    board("driver-not-loaded", "inventory.driver", "inventory.count", blames="node"),
    board("driver-mismatch", "inventory.driver", "inventory.count", blames="node"),
    board("library-missing", "inventory.driver", "inventory.count", blames="node"),
    board("wrong-product, device: 1, model: AMD Instinct MI308X", "inventory.sku"),
    board("wrong-pci-id, device: 1", "inventory.sku"),
    board("fewer-units, device: 1", "inventory.sku"),
    board("memory-missing, device: 1", "inventory.sku", "inventory.memory"),
    board("memory-differs, device: 1", "inventory.memory"),
    refused("virtual-function, device: 1", sku="ours", platform="oam8"),
    warned(board("wrong-vbios, device: 1, version: 022.040.003.041.000001", "inventory.vbios", measured=("stream",))),
    warned(board("firmware-differs, device: 1", "inventory.firmware", measured=("stream",))),
    warned(board("bundle-differs, device: 1", "inventory.firmware_bundle", "inventory.firmware", measured=("stream",))),
    board("clock-max-differs, device: 1", "inventory.clock_max"),
    board("slot-of-older-generation, device: 1", "inventory.pcie_gen_max"),
    board("other-hive, device: 1", "inventory.xgmi_hive"),
    refused("mig-on, device: 1", sku="ours", platform="oam8"),
    refused("memory-partitioned, device: 1", sku="ours", platform="oam8"),
    board("ecc-off, device: 1", "inventory.ecc"),
    replace(two("wrong-driver, version: 6.8.5", "inventory.driver_version"), fault="wrong-driver, version: 6.8.5",
            blames="gpu0", spares=False, measured=FACTS),
    # -- what the devices say of their health
    *(board(f"ras-errors, device: 1, block: {block}", "health.ecc_uncorrectable_volatile") for block in RAS),
    alone("ecc-counted", "health.ecc_uncorrectable_volatile"),
    alone("remap-pending", "health.bad_pages_pending"),
    alone("remap-failure", "health.bad_pages_unreservable"),
    alone("bad-pages", "health.bad_pages_of_threshold"),
    warned(alone("deferred-errors", "health.ecc_deferred_volatile", measured=("stream",))),
    alone("slow-at-rest", "health.slowdown"),
    alone("link-errors", "health.xgmi_uncorrectable"),
    replace(alone("reading-denied", "health.ecc_uncorrectable_volatile", "health.bad_pages_pending",
                  "health.bad_pages_unreservable"), status="UNMEASURED", closing="NOT JUDGED", exit=6),
    replace(two("foreign-process", "health.foreign_processes", measured=FACTS), status="INCONCLUSIVE",
            closing="NOT JUDGED", exit=6),
    # -- slower than it should be
    two("slow-compute", "matmul.bf16", "soak.rate"),
    board("slow-compute, device: 5", "matmul.*", "soak.rate", blames="gpu5", measured=("matmul", "soak")),
    *(alone(f"slow-dtype, dtype: {dtype}", f"matmul.{dtype}", measured=("matmul",))
      for dtype in ("fp64", "fp32", "bf16")),
    *(alone(f"slow-dtype, dtype: {dtype}, by: 0.2", f"matmul.{dtype}", measured=("matmul",))
      for dtype in ("fp16", "fp8")),
    alone("slow-memory", "stream.copy_kernel", "stream.triad", "stream.read", measured=("stream",)),
    alone("slow-writes", "stream.copy_kernel", "stream.triad", measured=("stream",)),
    two("narrow-pcie", "health.pcie_width", "host_copy.h2d", "host_copy.d2h"),
    two("pcie-gen", "host_copy.h2d", "host_copy.d2h", measured=("host_copy",)),
    two("slow-uploads", "host_copy.h2d", measured=("host_copy",)),
    two("slow-downloads", "host_copy.d2h", measured=("host_copy",)),
    board("slow-link, device: 1", "peer_copy.one_way", measured=("peer_copy",)),
    three("peers-staged", "peer_copy.one_way", "peer_copy.both", measured=("peer_copy",)),
    board("nvlink-down, device: 1", "health.xgmi_up", "peer_copy.one_way", measured=("peer_copy",)),
    two("nvlink-down, at: soak", "counters.xgmi_down", measured=("soak",)),
    # -- heat, power, clocks
    two("thermal-slowdown", "soak.throttle.hw_thermal", "matmul.*", "soak.rate"),
    two("thermal-slowdown, kind: sw", "soak.throttle.sw_thermal", measured=SOAK),
    two("thermal-slowdown, kind: memory", "soak.throttle.sw_thermal", measured=SOAK),
    two("thermal-slowdown, kind: regulators", "soak.throttle.hw_thermal", measured=SOAK),
    three("power-brake", "soak.throttle.hw_thermal", measured=SOAK),
    two("cooling-fades", "soak.droop_slow", measured=SOAK),
    three("power-cap-lowered", "health.power_limit_lowered", "inventory.power_limit", "matmul.*", measured=("matmul",)),
    two("clock-locked", "health.perf_level", "matmul.*"),
    two("clock-limited", "matmul.*", "soak.rate", measured=("matmul", "soak")),
    replace(two("capped", measured=SOAK), closing="HELD", exit=6),
    # -- lost in the middle
    two("device-lost, at: matmul", "matmul.*", "soak.*"),
    three("device-lost, at: peer_copy+1", "peer_copy.*", measured=("peer_copy", "soak")),
    two("device-lost, at: soak+10", "soak.*"),
    two("ecc-uncorrectable, at: stream", "stream.*"),
    # -- counted while it is loaded
    two("ras-errors, at: soak", "counters.ecc_uncorrectable", measured=SOAK),
    two("remap-pending, at: soak", "counters.bad_pages", measured=SOAK),
    two("bad-pages, at: stream", "counters.bad_pages", measured=("stream",)),
    two("link-errors, at: peer_copy", "counters.xgmi_uncorrectable", measured=("peer_copy",)),
    two("pcie-replays, at: host_copy", "counters.pcie_replays", measured=("host_copy",)),
    warned(two("ecc-corrected, at: stream", "counters.ecc_corrected", measured=("stream",))),
    warned(two("deferred-errors, at: stream", "counters.ecc_deferred", measured=("stream",))),
    # -- wrong
    three("wrong-result", "matmul.*", "exact_matmul.bf16", "exact_matmul.fp32", measured=("matmul", "exact_matmul")),
    three("wrong-result, what: always", "exact_matmul.bf16", "exact_matmul.fp32", measured=("exact_matmul",)),
    three("wrong-result, what: copy", "stream.copy", "host_copy.*", "peer_copy.one_way",
        measured=("stream", "host_copy", "peer_copy")),
    two("wrong-result, what: memory", "memory_pattern.cold", "memory_pattern.hot", measured=("memory_pattern",)),
    # -- the host: advice
    of_host("numa-balancing", "host.numa_balancing"),
    of_host("narrow-riser", "host.pcie_width"),
    of_host("far-processors", "host.accelerator_numa"),
    of_host("iommu-translates", "host.iommu"),
    of_host("huge-pages-off", "host.huge_pages", "mi300a"),
    of_host("host-memory-lost-before", "host.ecc_uncorrected"),
    of_host("machine-checked-before", "host.machine_checks"),
    # -- what the host counts meanwhile
    lost("host-memory-uncorrected", "host_counters.ecc_uncorrected"),
    lost("machine-check", "host_counters.machine_checks"),
    lost("pcie-error-of-a-bridge", "host_counters.pcie_fatal"),
    Case("nic-down", ("host.nics_active",), "node", sku="few", platform="two", measured=FACTS),
    Case("nic-slow", ("host.nics_active",), "node", sku="few", platform="two", measured=FACTS),
    lost("nic-link-lost", "host_counters.nic_link_downed"),
    lost("nic-link-recovers", "host_counters.nic_link_recovery"),
    lost("nic-carrier-lost", "host_counters.nic_carrier_lost"),
    of_host("host-memory-corrected", "host_counters.ecc_corrected"),
    of_host("pcie-transaction-lost", "host_counters.pcie_nonfatal"),
    of_host("nic-errors", "host_counters.nic_errors"),
    of_host("ethernet-carrier-lost", "host_counters.ethernet_carrier_lost"),
)  # fmt: skip

PATIENCE = "--accel-patience=5"
END_TO_END: Sequence[Case] = (
    two("hang, at: stream", "stream.copy", words=(PATIENCE, "-k", "stream and copy and not kernel")),
    two("crash, at: matmul", "matmul.*", words=("-k", "bf16 and matmul")),
    replace(two("wrong-result, what: collective", "all_reduce.*", words=("-k", "all_reduce")), blames="node"),
    replace(two("library-blocked", "inventory.driver", words=(PATIENCE, "-k", "inventory")),
            fault="library-blocked", blames="node"),
)  # fmt: skip
