"""Every fault that the simulated node can have, and the checks that have to catch it.

One table for the tests (simulate/test_fault_matrix.py) and for what they saw (tests/data/fault-matrix.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import fault_cases_amd as amd
from fault_case import FACTS, Case, advice, refused, stated, unmeasured

from pytest_accel.probes.collectives import OPERATIONS

LITTLE = ("stream",)
"""Counters are judged only where a probe ran that could have moved them."""

IN_PROCESS: Sequence[Case] = (
    # -- what should be there
    Case("device-missing, device: 1", ("inventory.driver", "inventory.count"), "node", measured=FACTS),
    Case("device-lost, device: 1", ("inventory.driver", "inventory.count"), "node", measured=FACTS),
    Case("driver-not-loaded", ("inventory.driver",), "node", measured=FACTS),
    Case("driver-mismatch", ("inventory.driver",), "node", measured=FACTS),
    Case("library-missing", ("inventory.driver",), "node", measured=FACTS),
    Case("wrong-product, device: 1", ("inventory.sku",), measured=FACTS),
    *stated(
        ("wrong-pci-id", "inventory.sku"),
        ("fewer-units", "inventory.sku"),
        ("memory-missing", "inventory.sku"),
        ("memory-differs", "inventory.memory"),
        ("clock-max-differs", "inventory.clock_max"),
        ("slower-memory-clock", "inventory.memory_clock_max"),
        ("narrower-memory", "inventory.memory_bus"),
        ("slower-links", "inventory.nvlink_speed"),
        ("other-fabric-cluster", "inventory.fabric_cluster"),
        ("other-fabric-clique", "inventory.fabric_clique"),
        ("ecc-off", "inventory.ecc"),
        # -- what the devices say of their health
        ("ecc-change-pending", "health.ecc_pending_change"),
        ("slow-at-rest", "health.slowdown"),
        ("hot-at-rest", "health.thermal_margin"),
        ("ecc-counted", "health.ecc_uncorrectable_volatile"),
        ("remap-pending", "health.remap_pending"),
        ("remap-failure", "health.remap_failure"),
        ("rows-remapped", "health.remapped_uncorrectable"),
        ("channel-repair-pending", "health.channel_repair_pending"),
        ("tpc-repair-pending", "health.tpc_repair_pending"),
        ("memory-unrepairable", "health.memory_unrepairable"),
        ("sram-errors", "health.ecc_sram_uncorrectable_aggregate"),
        ("sram-threshold", "health.ecc_sram_threshold"),
        ("recovery-needed", "health.recovery_action"),
        ("fabric-not-ready", "health.fabric"),
        ("fabric-error", "health.fabric"),
        ("fabric-degraded", "health.fabric_faults"),
        ("fabric-misconfigured", "health.fabric_faults"),
    ),
    Case(
        "lesser-board, device: [0, 1, 2, 3]",
        ("inventory.power_limit_default", "inventory.power_limit_max", "inventory.clock_max"),
        "gpu0",
        spares=False,
        measured=FACTS,
    ),
    refused("mig-on, device: 1"),
    refused("mig-change-pending, device: 1"),
    refused("vgpu, device: 1"),
    Case("slot-of-older-generation, device: 1", ("inventory.pcie_gen_max",), measured=("host_copy",)),
    Case("retired-pages, device: [0, 1]", ("health.retired_pages",), "gpu0", sku="old", spares=False, measured=FACTS),
    Case("retired-pages-pending, device: 1", ("health.retired_pages_pending",), sku="old", measured=FACTS),
    Case("wrong-driver", ("inventory.driver_version",), "gpu0", spares=False, measured=FACTS),
    unmeasured("compute-prohibited, device: 1", "matmul.*", "stream.*", "host_copy.*", "peer_copy.*", "soak.*"),
    unmeasured("reading-denied, device: 1", "health.ecc_uncorrectable_volatile", "health.remap_*", measured=FACTS),
    Case(
        "foreign-process, device: 1",
        ("health.foreign_processes",),
        "gpu1",
        "INCONCLUSIVE",
        "NOT JUDGED",
        6,
        measured=FACTS,
    ),
    # -- slower than it should be
    Case("slow-compute, device: 1", ("matmul.bf16", "soak.rate")),
    Case("slow-compute, device: 5", ("matmul.bf16", "soak.rate"), "gpu5", sku="eight", platform="hgx8"),
    Case("slow-compute, device: 1, at: soak+8", ("soak.rate",)),
    Case("slow-dtype, device: 1", ("matmul.fp8",), measured=("matmul",)),
    *(
        Case(
            f"slow-dtype, device: 0, dtype: {dtype}",
            (f"matmul.{dtype}",),
            "gpu0",
            sku="older",
            platform="single",
            measured=("matmul",),
        )
        for dtype in ("fp64", "fp32", "tf32", "fp16")
    ),
    Case("slow-memory, device: 1", ("stream.copy_kernel", "stream.triad", "stream.read")),
    Case("slow-writes, device: 1", ("stream.copy_kernel", "stream.triad")),
    Case("narrow-pcie, device: 1", ("health.pcie_width", "host_copy.h2d", "host_copy.d2h")),
    Case("pcie-gen, device: 1", ("host_copy.h2d", "host_copy.d2h")),
    Case("slow-uploads, device: 1", ("host_copy.h2d",)),
    Case("slow-downloads, device: 1", ("host_copy.d2h",)),
    Case("slow-link, device: 1", ("peer_copy.one_way",)),
    Case("nvlink-down, device: 1", ("health.nvlink_up", "peer_copy.one_way")),
    Case("nvlink-down, device: 1, at: soak", ("counters.nvlink_down",)),
    Case("peers-staged, device: 1", ("peer_copy.one_way", "peer_copy.both")),
    # -- heat, power, clocks
    Case("thermal-slowdown, device: 1", ("soak.throttle.hw_thermal", "matmul.*", "soak.rate")),
    Case("thermal-slowdown, device: 1, kind: sw", ("soak.throttle.sw_thermal", "matmul.*")),
    Case("thermal-slowdown, device: 1, by: 0.01, share: 0.05, at: soak+5", ("soak.throttle.hw_thermal",)),
    Case("cooling-fades, device: 1", ("soak.droop_slow", "matmul.*")),
    Case("power-brake, device: 1", ("soak.throttle.power_brake", "matmul.*")),
    Case("power-cap-lowered, device: 1", ("health.power_limit_lowered", "inventory.power_limit", "matmul.*")),
    Case("clock-locked, device: 1", ("health.clock_lock", "matmul.*")),
    Case("clock-limited, device: 1", ("matmul.*", "soak.rate"), measured=("matmul", "soak")),
    Case("clock-oscillates, device: 1", ("matmul.*", "soak.rate"), measured=("matmul", "soak")),
    Case("sync-boost, device: 1", ("health.clock_lock", "matmul.*", "soak.rate"), measured=("matmul", "soak")),
    Case("low-power, device: 1", ("soak.power",)),
    Case("low-power, device: 5, by: 0.6", ("soak.power",), "gpu5", sku="eight", platform="hgx8", measured=("soak",)),
    # -- changed in the middle
    Case(
        "power-cap-lowered, device: 1, by: 0.1, at: stream",
        ("health.power_limit_lowered", "inventory.power_limit"),
        measured=LITTLE,
    ),
    Case("clock-locked, device: 1, by: 0.05, at: stream", ("health.clock_lock",), measured=LITTLE),
    Case("clock-max-differs, device: 1, at: stream", ("inventory.clock_max",), measured=LITTLE),
    Case("slot-of-older-generation, device: 1, at: stream", ("inventory.pcie_gen_max",), measured=LITTLE),
    # -- lost in the middle
    Case("device-lost, device: 1, at: matmul", ("matmul.*", "soak.*")),
    Case("device-lost, device: 1, at: peer_copy+1", ("peer_copy.*", "memory_pattern.hot")),
    Case("device-lost, device: 1, at: soak+10", ("soak.*", "memory_pattern.hot")),
    Case("ecc-uncorrectable, device: 1, at: stream", ("stream.*",)),
    # -- counted while it is loaded
    Case("ecc-counted, device: 1, at: soak", ("counters.ecc_uncorrectable",)),
    Case("remap-failure, device: 1, at: stream", ("counters.remap_failure",)),
    Case("rows-remapped, device: 1, at: soak", ("counters.rows_remapped",)),
    Case("remap-pending, device: 1, at: soak", ("counters.remap_pending",)),
    Case("recovery-needed, device: 1, at: soak", ("counters.recovery_asked",)),
    Case("fabric-degraded, device: 1, at: peer_copy", ("counters.fabric",)),
    Case("pcie-fatal, device: 1, at: host_copy", ("counters.pcie_fatal",)),
    Case("pcie-replays, device: 1, at: host_copy", ("counters.pcie_replays",)),
    Case("link-errors, device: 1, at: peer_copy", ("counters.nvlink_recovery",)),
    Case("link-errors, device: 1, at: peer_copy, of: replay", ("counters.nvlink_replay",)),
    Case("link-errors, device: 1, at: peer_copy, of: crc, count: 2000", ("counters.nvlink_crc",)),
    replace(
        advice("link-errors, device: 1, at: peer_copy, of: effective", "counters.nvlink_effective", "gpu1"),
        sku="five",
        platform="two",
        measured=("peer_copy",),
    ),
    advice("ecc-corrected, device: 1, at: stream", "counters.ecc_corrected", "gpu1"),
    advice("rows-remapped-corrected, device: 1, at: soak", "counters.rows_remapped_corrected", "gpu1"),
    # -- wrong
    Case("wrong-result, device: 1", ("matmul.*", "exact_matmul.bf16", "exact_matmul.fp32")),
    Case("wrong-result, device: 1, what: always", ("exact_matmul.bf16", "exact_matmul.fp32")),
    Case("wrong-result, device: 1, what: copy", ("stream.copy", "host_copy.*", "peer_copy.one_way")),
    Case("wrong-result, device: 1, what: memory", ("memory_pattern.cold", "memory_pattern.hot")),
    # -- the host: advice
    advice("wrong-vbios, device: 1", "inventory.vbios", "gpu1", measured=LITTLE),
    advice("wrong-inforom, device: 1", "inventory.inforom", "gpu1", measured=LITTLE),
    advice("numa-balancing", "host.numa_balancing", measured=LITTLE),
    advice("acs-on", "host.acs", measured=LITTLE),
    advice("narrow-riser", "host.pcie_width", measured=LITTLE),
    advice("far-processors", "host.accelerator_numa", measured=LITTLE),
    advice("host-memory-lost-before", "host.ecc_uncorrected", measured=LITTLE),
    advice("machine-checked-before", "host.machine_checks", measured=LITTLE),
    # -- what the host counts meanwhile
    Case("host-memory-uncorrected", ("host_counters.ecc_uncorrected",), "node", measured=LITTLE),
    Case("machine-check", ("host_counters.machine_checks",), "node", measured=LITTLE),
    Case("pcie-error-of-a-bridge", ("host_counters.pcie_fatal",), "node", measured=LITTLE),
    Case("nic-down", ("host.nics_active",), "node", platform="two", measured=FACTS),
    Case("nic-slow", ("host.nics_active",), "node", platform="two", measured=FACTS),
    Case("nic-link-lost", ("host_counters.nic_link_downed",), "node", measured=LITTLE),
    Case("nic-link-recovers", ("host_counters.nic_link_recovery",), "node", measured=LITTLE),
    Case("nic-carrier-lost", ("host_counters.nic_carrier_lost",), "node", measured=LITTLE),
    advice("host-memory-corrected", "host_counters.ecc_corrected", measured=LITTLE),
    advice("pcie-transaction-lost", "host_counters.pcie_nonfatal", measured=LITTLE),
    advice("nic-errors", "host_counters.nic_errors", measured=LITTLE),
    advice("ethernet-carrier-lost", "host_counters.ethernet_carrier_lost", measured=LITTLE),
    # -- seen, and no reason to reject
    Case("hot, device: 1", (), closing="HELD", exit=6),
    Case("hot, device: 1, degrees: 130", ("soak.thermal_margin",)),
    Case("hw-slowdown, device: 1", ("soak.throttle.hw_slowdown", "matmul.*")),
)
"""Run without a process of their own: the whole quick level but its collectives, unless a case says which probes."""

COLLECTIVES = tuple(f"{each}.*" for each in OPERATIONS)
PATIENCE = "--accel-patience=5"
END_TO_END: Sequence[Case] = (
    Case("hang, device: 1, at: stream", ("stream.*",), platform="two", words=(PATIENCE, "-k", "stream")),
    Case("crash, device: 1, at: matmul", ("matmul.*",), platform="two", words=("-k", "bf16 and matmul")),
    Case("rank-never-arrives, device: 1", ("all_reduce.*",), "node", platform="two",
         words=(PATIENCE, "-k", "all_reduce")),
    Case("wrong-result, device: 1, what: collective", COLLECTIVES, "node", platform="two", words=("-k", "collective")),
    Case("slow-collective, device: 1", COLLECTIVES, "node", platform="two", words=("-k", "collective")),
    Case("slow-link, device: 1", COLLECTIVES, "node", platform="two", words=("-k", "collective")),
    Case("library-blocked", ("inventory.driver",), "node", platform="two", words=(PATIENCE, "-k", "inventory")),
    Case("driver-not-loaded", ("inventory.driver",), "node", platform="two", words=("-k", "inventory")),
    Case("thermal-slowdown, device: 1, at: soak", ("soak.throttle.hw_thermal",), platform="two",
         words=("-k", "soak and not memory")),
    Case("ecc-counted, device: 1", ("health.ecc_uncorrectable_volatile",), platform="two",
         words=("-k", "inventory or health")),
    Case("xid, device: 1, at: matmul", ("counters.xid_hardware",), platform="two",
         words=("-k", "bf16 or counters")),
    Case("xid, device: 1, at: matmul, number: 31", ("counters.xid_application",), "gpu1", "MARGINAL", "HELD", 6,
         platform="two", words=("-k", "bf16 or counters")),
)  # fmt: skip
"""Run as a user's pytest, with processes that really hang, die and reduce together."""

BY_A_USER = (*END_TO_END, *amd.END_TO_END)
CASES = (*IN_PROCESS, *amd.IN_PROCESS, *BY_A_USER)

ELSEWHERE: Sequence[tuple[str, str, str]] = (
    ("a worker process is killed in the middle", "run/test_process_faults.py", "test_killed_worker_fails_its_device"),
    ("a probe never returns", "run/test_process_faults.py", "test_hung_worker"),
    ("a process ignores SIGKILL", "run/test_process_faults.py", "test_unkillable_worker"),
    ("a probe leaves processes behind", "run/test_process_faults.py", "test_grandchildren_die_too"),
    ("the sensor dies or hangs", "run/test_process_faults.py", "test_sensor"),
    ("a rank of a collective dies or hangs", "run/test_process_faults.py", "test_ranks_that_break"),
    ("a rank of a collective raises", "run/test_process_faults.py", "test_rank_that_raises"),
    ("the run is interrupted or terminated", "run/test_process_faults.py", "test_signal"),
    ("pytest itself is killed", "run/test_process_faults.py", "test_killed_pytest_leaves_nothing"),
    ("the disk of the record is full", "run/test_process_faults.py", "test_disk_full"),
    ("the disk of the record is read-only", "run/test_process_faults.py", "test_output_on_a_read_only_disk"),
    ("the bus shows a device that no driver reaches", "run/test_process_faults.py", "test_unreachable_accelerator"),
    ("pynvml is not installed", "drivers/test_nvidia.py", "test_no_pynvml"),
    ("every function of the management library fails in turn", "drivers/test_nvml_errors.py",
     "test_a_function_that_fails_on_one_gpu"),
    ("amdsmi is not installed", "drivers/test_amd.py", "test_no_amdsmi"),
    ("amdsmi and its library are of different versions", "drivers/test_amd.py", "test_a_library_of_another_version"),
    ("every function of libamd_smi fails in turn", "drivers/test_amdsmi_errors.py",
     "test_a_function_that_fails_on_one_gpu"),
    ("one device never answers the management library", "drivers/test_nvml_errors.py",
     "test_a_gpu_that_never_answers_costs_only_itself"),
    ("facts of the host that are wrong, hidden or garbage", "drivers/test_host.py",
     "test_what_cannot_be_read_or_is_garbage_breaks_nothing"),
    ("a slow sender, receiver or pair of the peer matrix", "judging/test_peer_matrix.py",
     "test_a_short_device_is_blamed_and_no_other"),
    ("another run has the devices", "run/test_device_lock.py", "test_a_second_run_is_told_who_holds_the_device"),
)  # fmt: skip
"""Faults of processes, disks and libraries that need no simulated node: what, and the test that shows it."""
