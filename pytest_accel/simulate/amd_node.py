"""The libamd_smi.so of a simulated AMD node, which reports what the workers do to the devices."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pytest_accel.core import simulated
from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.simulate.board import SharedState
from pytest_accel.simulate.faults import LINK_ERRORS, Symptoms
from pytest_accel.simulate.libraries import amdsmi as smi
from pytest_accel.simulate.libraries import answers_of, never, status
from pytest_accel.simulate.model import COOLANT_C, KELVIN_AT_LIMIT, LOAD, Model

FRESH_SECONDS = 0.005
"""Age up to which an answer is used again, in seconds. One reading of a device takes several calls."""

NOT_LOADED, NO_PERMISSION = 34, 10
"""AMDSMI_STATUS_DRIVER_NOT_LOADED and AMDSMI_STATUS_NO_PERM (amdsmi.h)."""
GUEST = "guest"
"""The kind of a device that is a virtual function."""
TWO_DIES = ("mi250", "mi250x")
"""Products of two devices in a module, the second of which states a power limit of 0 W (aldebaran_get_power_limit)."""
NEW = ("amdsmi_get_violation_status",)
"""Functions that the libamd_smi.so of an older ROCm lacks."""
DENIED = ("amdsmi_get_gpu_total_ecc_count", "amdsmi_get_gpu_bad_page_info")
"""Functions that a user without permission may not call."""
DRIVER, HIVE = "6.12.12", 0x5A3C00001111

PCI_DOMAIN, FIRST_BUS = 0x51AB, 0x1A
"""A PCI domain that no machine has, so that no device in the real /sys is mistaken for it, and its first bus."""

RESERVED_BYTES = 300 << 20
"""Assumed: bytes that the driver keeps for itself."""

LOOKS_PER_SECOND = 1000
"""Assumed: how often per second the firmware counts what limits the clock. Only shares are computed from it."""

MTS = {1: 2_500, 2: 5_000, 3: 8_000, 4: 16_000, 5: 32_000, 6: 64_000}
"""Transfer rate in MT/s by PCIe generation."""


class AmdNode(smi.SmiLibrary):
    """The library of a node, whose answers are updated before they are given."""

    def __init__(self, model: Model, init: int = smi.SUCCESS) -> None:
        self._model, self._board = model, SharedState(Path(model.board), model.devices)
        self._slots = [slot for slot in range(model.devices) if self._symptoms(slot).event != "missing"]
        self._renewed_at = [0.0] * len(self._slots)
        super().__init__([smi.mi300x(slot) for slot in self._slots], init)

    def _symptoms(self, slot: int) -> Symptoms:
        """Return the symptoms of a device now."""
        return self._model.symptoms(slot, self._board.row(slot))

    def gpu(self, index: int) -> smi.SmiGpu:
        """Return a GPU whose answers are at most `FRESH_SECONDS` old."""
        if time.monotonic() - self._renewed_at[index] > FRESH_SECONDS:
            self.renew(index)
        return super().gpu(index)

    def renew(self, index: int) -> None:
        """Update the answers of one GPU from the board."""
        slot, gpu = self._slots[index], self.gpus[index]
        symptoms = self._symptoms(slot)
        gpu.lost = symptoms.event == "lost"
        gpu.answers.update(answers(self._model, slot, self._board.row(slot), symptoms))
        self._renewed_at[index] = time.monotonic()


def install(model: Model) -> None:
    """Install the node's library below amdsmi."""
    state = model.of_node().library
    if state == "missing":
        smi.install(None)
    elif state == "blocked":
        smi.install(smi.SmiLibrary([], never))
    else:
        library = AmdNode(model, NOT_LOADED if state == "not loaded" else smi.SUCCESS)
        smi.install(library, lacks=NEW if state == "mismatched" else ())


def address(slot: int) -> int:
    """Return domain, bus, device and function of a device in one number."""
    return PCI_DOMAIN << 16 | (FIRST_BUS + slot) << 8


def answers(model: Model, slot: int, row: dict[str, float], symptoms: Symptoms) -> dict[str, Any]:
    """Return the answers of the functions of libamd_smi for one device now."""
    combined = {
        **_identity(model, slot, symptoms),
        **_errors(symptoms),
        **_links(model, symptoms),
        **_power(model, slot, row, symptoms),
    }
    virtual = bool(symptoms.shows.get("virtual")) or GUEST in model.kinds
    combined.update(smi.texts(answers_of("amdsmi", *model.kinds, *([GUEST] if virtual else []))))
    if symptoms.shows.get("denied"):
        combined.update(dict.fromkeys(DENIED, status(NO_PERMISSION)))
    return combined


@cache
def _healthy(name: str) -> Any:
    """Return an answer of an MI300X. What differs between devices has to be replaced in it."""
    return smi.mi300x().answers[name]


def _identity(model: Model, slot: int, symptoms: Symptoms) -> dict[str, Any]:
    """Return the answers about product, serial number, versions and partitions."""
    shows, serial = symptoms.shows, f"51{model.seed & 0xFFFFFF:06x}{slot:08x}"
    part, subpart = (int(ids.partition(":")[2], 16) for ids in (model.part(shows), model.pci_subsystem))
    asic, board = _healthy("amdsmi_get_gpu_asic_info"), _healthy("amdsmi_get_gpu_board_info")
    return {
        "amdsmi_get_gpu_device_bdf": {"as_uint": address(slot)},
        "amdsmi_get_gpu_device_uuid": model.uuid(slot).encode(),
        "amdsmi_get_gpu_asic_info": {
            **asic,
            "oam_id": slot,
            "market_name": str(shows.get("model", model.product)).encode(),
            "device_id": part,
            "subsystem_id": subpart,
            "asic_serial": serial.encode(),
            "num_of_compute_units": int(model.compute_units * shows.get("units_share", 1.0)),
        },
        "amdsmi_get_gpu_board_info": {
            **board,
            "product_serial": f"{simulated.SERIAL}{model.seed:06d}{slot:02d}".encode(),
        },
        "amdsmi_get_gpu_enumeration_info": {"hip_id": slot, "hip_uuid": f"GPU-{serial}".encode()},
        "amdsmi_get_gpu_driver_info": {"driver_version": str(model.of_node().shows.get("driver", DRIVER)).encode()},
        "amdsmi_get_gpu_vbios_info": {"version": str(shows.get("vbios", "022.040.003.042.000001")).encode()},
        "amdsmi_get_fw_info": smi.firmware(**shows.get("firmware", {})),
        "amdsmi_get_gpu_memory_total": smi.By({0: int(model.memory_bytes * shows.get("memory_share", 1.0))}),
        "amdsmi_get_gpu_virtualization_mode": (
            smi.GUEST if shows.get("virtual") or GUEST in model.kinds else smi.BARE_METAL
        ),
        "amdsmi_get_gpu_compute_partition": b"CPX" if shows.get("mig") else b"SPX",
        "amdsmi_get_gpu_memory_partition": str(shows.get("memory_partition", "NPS1")).encode(),
    }


def _errors(symptoms: Symptoms) -> dict[str, Any]:
    """Return the answers about counted errors, bad pages, and processes that use the memory."""
    shows = symptoms.shows
    memory = {
        "correctable": int(shows.get("ecc_corrected", 0)),
        "uncorrectable": int(shows.get("ecc_uncorrectable", 0)),
        "deferred": int(shows.get("ecc_deferred", 0)),
    }
    blocks = {name: {"uncorrectable": count} for name, count in shows.get("ras", {}).items()}
    reserved, pending = [0] * shows.get("bad_pages", 0), [1] * shows.get("remap_pending", 0)
    return {
        "amdsmi_get_gpu_ecc_enabled": int(shows.get("ecc", True)),
        **smi.errors(**{"UMC": memory, "XGMI_WAFL": {"uncorrectable": _counted_on_links(shows)}, **blocks}),
        "amdsmi_get_gpu_bad_page_info": smi.pages(*reserved, *pending, *[2] * shows.get("remap_failure", 0)),
        "amdsmi_get_gpu_memory_usage": smi.By({0: RESERVED_BYTES + int(shows.get("used_gb", 0) * 1e9)}),
        "amdsmi_get_gpu_activity": {"gfx_activity": int(shows.get("busy", 0))},
        "amdsmi_get_gpu_process_list": smi.processes(*shows.get("pids", ())),
    }


def _counted_on_links(shows: Mapping[str, Any]) -> int:
    """Return the errors of all links, which a device counts in the block of its links."""
    return sum(int(shows.get(f"nvlink_{name}", 0)) for name in LINK_ERRORS)


def _links(model: Model, symptoms: Symptoms) -> dict[str, Any]:
    """Return the answers about the PCIe link and the XGMI links."""
    shows = symptoms.shows
    links_down = int(shows.get("links_down", 0))
    states = [smi.UP] * (model.links - links_down) + [0] * links_down + [smi.DISABLED]
    link = smi.pcie(
        MTS[int(shows.get("pcie_gen", model.pcie_gen))],
        int(shows.get("pcie_width", model.pcie_lanes)),
        pcie_replay_count=int(shows.get("pcie_replays", 0)),
    )
    max_speed = MTS[int(shows.get("pcie_gen_max", model.pcie_gen))]
    link["pcie_static"].update(max_pcie_width=model.pcie_lanes, max_pcie_speed=max_speed)
    return {
        "amdsmi_get_pcie_info": link,
        "amdsmi_get_gpu_xgmi_link_status": {"total_links": len(states), "status": states},
        "amdsmi_gpu_xgmi_error_status": min(_counted_on_links(shows), 2),
        "amdsmi_get_xgmi_info": {"xgmi_hive_id": shows.get("hive", HIVE)},
    }


def _power(model: Model, slot: int, row: dict[str, float], symptoms: Symptoms) -> dict[str, Any]:
    """Return the answers about power, clocks, temperatures and throttling."""
    board = symptoms.shows.get("power_share", 1.0)
    factor = 0 if slot % 2 and model.kinds[0] in TWO_DIES else 1  # the second device of a module states 0 W
    watts, cap = row["power_w"] or model.watts * LOAD[""], factor * round(board * model.watts * 1e6)
    clock, memory_clock = int(row["clock_mhz"] or model.clock_mhz), int(model.memory_clock_mhz)
    degrees = symptoms.shows.get("degrees_at_rest", 0.0)
    heat = round((row["temperature_c"] or COOLANT_C + KELVIN_AT_LIMIT * LOAD[""]) + degrees)
    return {
        "amdsmi_get_power_cap_info": {
            "power_cap": round(cap * symptoms.power),
            "default_power_cap": cap,
            "max_power_cap": round(board * model.watts_max * 1e6),
        },
        "amdsmi_get_gpu_perf_level": smi.DETERMINISM if symptoms.reasons & ClockEvent.APPLICATION_CLOCKS else smi.AUTO,
        "amdsmi_get_clock_info": smi.By(
            {
                smi.GFX: {"max_clk": int(model.clock_mhz * symptoms.shows.get("clock_share", 1.0))},
                smi.MEM: {"max_clk": int(memory_clock * symptoms.shows.get("memory_clock_share", 1.0))},
            }
        ),
        "amdsmi_get_energy_count": (int(row["energy_j"] * 1e6 / 15.259), 15.259, 0),
        "amdsmi_get_gpu_metrics_info": smi.metrics(
            temperature_hotspot=heat,
            temperature_mem=heat + 8,
            current_socket_power=round(watts),
            current_gfxclks=[clock] * 8,
            current_uclk=memory_clock,
            system_clock_counter=int(row["now"] * 1e9),
            **_accumulated(row),
        ),
        "amdsmi_get_violation_status": _violations(int(row["reasons"]) | int(symptoms.shows.get("reasons", 0))),
    }


def _violations(reasons: int) -> Any:
    """Return the violation status for clock event reasons."""
    return smi.violations(
        prochot_thrm=int(bool(reasons & (ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL | ClockEvent.HW_POWER_BRAKE))),
        socket_thrm=int(bool(reasons & ClockEvent.SW_THERMAL)),
    )


def _accumulated(row: dict[str, float]) -> dict[str, int]:
    """Return the throttle counters."""
    seconds = {
        "accumulation_counter": row["now"],
        "ppt_residency_acc": row["sw_power_cap_s"],
        "socket_thm_residency_acc": row["sw_thermal_s"],
        # a power brake from outside the chip reaches an AMD GPU as PROCHOT
        "prochot_residency_acc": row["hw_thermal_s"] + row["hw_power_brake_s"],
        "hbm_thm_residency_acc": row["memory_thermal_s"],
        "vr_thm_residency_acc": row["regulators_thermal_s"],
    }
    return {name: int(LOOKS_PER_SECOND * amount) for name, amount in seconds.items()}
