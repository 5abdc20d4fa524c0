"""The libamd_smi.so of a simulated AMD node, showing what the workers do to the devices."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.simulate.board import Board
from pytest_accel.simulate.faults import (
    LINK_ERRORS,
    Symptoms,
)
from pytest_accel.simulate.libraries import amdsmi as smi
from pytest_accel.simulate.model import COOLANT_C, KELVIN_AT_LIMIT, LOAD, Model

FRESH_SECONDS = 0.005
"""How long an answer may be old: one reading of a device takes several calls."""

NOT_LOADED, NO_PERMISSION = 34, 10
"""AMDSMI_STATUS_DRIVER_NOT_LOADED and AMDSMI_STATUS_NO_PERM"""
NEW = ("amdsmi_get_violation_status",)
"""What the libamd_smi.so of an older ROCm has not."""
DENIED = ("amdsmi_get_gpu_total_ecc_count", "amdsmi_get_gpu_bad_page_info")
"""What a user without rights may not read."""
NOT_OF_A_FUNCTION = ("amdsmi_get_gpu_xgmi_link_status", "amdsmi_get_xgmi_info", "amdsmi_get_power_cap_info")
"""What a virtual function does not answer."""
DRIVER, HIVE = "6.12.12", 0x5A3C00001111

PCI_DOMAIN, FIRST_BUS = 0x51AB, 0x1A
"""A PCI domain that no machine has, so that nothing of the real /sys is taken for it."""

RESERVED_BYTES = 300 << 20
"""Assumed: what the driver keeps for itself."""

LOOKS_PER_SECOND = 1000
"""Assumed: how often the firmware counts what holds the clock; only shares are made of it."""

MTS = {1: 2_500, 2: 5_000, 3: 8_000, 4: 16_000, 5: 32_000, 6: 64_000}


class NodeLibrary(smi.Library):
    """Brought up to date before it answers."""

    def __init__(self, model: Model, init: int = smi.SUCCESS) -> None:
        self._model, self._board = model, Board(Path(model.board), model.devices)
        self._places = [place for place in range(model.devices) if self._symptoms(place).event != "missing"]
        self._asked = [0.0] * len(self._places)
        super().__init__([smi.mi300x(place) for place in self._places], init)

    def _symptoms(self, place: int) -> Symptoms:
        return self._model.symptoms(place, self._board.row(place))

    def gpu(self, index: int) -> smi.Gpu:
        if time.monotonic() - self._asked[index] > FRESH_SECONDS:
            self._renew(index)
        return super().gpu(index)

    def refresh(self) -> None:
        """Take over what the devices are like now."""
        for index in range(len(self.gpus)):
            self._renew(index)

    def _renew(self, index: int) -> None:
        place, gpu = self._places[index], self.gpus[index]
        sick = self._symptoms(place)
        gpu.lost = sick.event == "lost"
        gpu.answers.update(answers(self._model, place, self._board.row(place), sick))
        self._asked[index] = time.monotonic()


class Blocked(smi.Library):
    """A library that never answers."""

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:  # noqa: ARG002  the signature of a library
        return smi.never()


def install(model: Model) -> None:
    """Put the node's library below amdsmi."""
    said = model.of_node().library
    if said == "missing":
        smi.install(None)
    elif said == "blocked":
        smi.install(Blocked([]))
    else:
        library = NodeLibrary(model, NOT_LOADED if said == "not loaded" else smi.SUCCESS)
        smi.install(library, lacks=NEW if said == "mismatched" else ())


def address(place: int) -> int:
    """Domain, bus, device and function in one number."""
    return PCI_DOMAIN << 16 | (FIRST_BUS + place) << 8


def answers(model: Model, place: int, row: dict[str, float], sick: Symptoms) -> dict[str, Any]:
    """What the functions of libamd_smi answer for one device now."""
    found = {**_identity(model, place, sick), **_errors(sick), **_links(model, sick), **_power(model, row, sick)}
    if sick.shows.get("virtual"):
        found.update(dict.fromkeys(NOT_OF_A_FUNCTION))
    if sick.shows.get("denied"):
        found.update(dict.fromkeys(DENIED, smi.status(NO_PERMISSION)))
    return found


@cache
def _healthy(name: str) -> Any:
    """What an MI300X answers; what differs from device to device has to be put in its place."""
    return smi.mi300x().answers[name]


def _identity(model: Model, place: int, sick: Symptoms) -> dict[str, Any]:
    shows, serial = sick.shows, f"51{model.seed & 0xFFFFFF:06x}{place:08x}"
    part, subpart = (int(ids.partition(":")[2], 16) for ids in (model.part(shows), model.pci_subsystem))
    asic, board = _healthy("amdsmi_get_gpu_asic_info"), _healthy("amdsmi_get_gpu_board_info")
    return {
        "amdsmi_get_gpu_device_bdf": {"as_uint": address(place)},
        "amdsmi_get_gpu_device_uuid": model.uuid(place).encode(),
        "amdsmi_get_gpu_asic_info": {
            **asic,
            "oam_id": place,
            "market_name": str(shows.get("model", model.product)).encode(),
            "device_id": part,
            "subsystem_id": subpart,
            "asic_serial": serial.encode(),
            "num_of_compute_units": int(model.compute_units * shows.get("units_share", 1.0)),
        },
        "amdsmi_get_gpu_board_info": {**board, "product_serial": f"SIM{model.seed:06d}{place:02d}".encode()},
        "amdsmi_get_gpu_enumeration_info": {"hip_id": place, "hip_uuid": f"GPU-{serial}".encode()},
        "amdsmi_get_gpu_driver_info": {"driver_version": str(model.of_node().shows.get("driver", DRIVER)).encode()},
        "amdsmi_get_gpu_vbios_info": {"version": str(shows.get("vbios", "022.040.003.042.000001")).encode()},
        "amdsmi_get_fw_info": smi.firmware(**shows.get("firmware", {})),
        "amdsmi_get_gpu_memory_total": smi.By({0: int(model.memory_bytes * shows.get("memory_share", 1.0))}),
        "amdsmi_get_gpu_virtualization_mode": smi.GUEST if shows.get("virtual") else smi.BARE_METAL,
        "amdsmi_get_gpu_compute_partition": b"CPX" if shows.get("mig") else b"SPX",
        "amdsmi_get_gpu_memory_partition": str(shows.get("memory_partition", "NPS1")).encode(),
    }


def _errors(sick: Symptoms) -> dict[str, Any]:
    """What the blocks counted, the pages that were taken out of use, and who is in the memory."""
    shows = sick.shows
    memory = {
        "correctable": int(shows.get("ecc_corrected", 0)),
        "uncorrectable": int(shows.get("ecc_uncorrectable", 0)),
        "deferred": int(shows.get("ecc_deferred", 0)),
    }
    others = {name: {"uncorrectable": count} for name, count in shows.get("ras", {}).items()}
    reserved, pending = [0] * shows.get("bad_pages", 0), [1] * shows.get("remap_pending", 0)
    return {
        "amdsmi_get_gpu_ecc_enabled": int(shows.get("ecc", True)),
        **smi.errors(**{"UMC": memory, **others}),
        "amdsmi_get_gpu_bad_page_info": smi.pages(*reserved, *pending, *[2] * shows.get("remap_failure", 0)),
        "amdsmi_get_gpu_memory_usage": smi.By({0: RESERVED_BYTES + int(shows.get("used_gb", 0) * 1e9)}),
        "amdsmi_get_gpu_activity": {"gfx_activity": int(shows.get("busy", 0))},
        "amdsmi_get_gpu_process_list": smi.processes(*shows.get("pids", ())),
    }


def _links(model: Model, sick: Symptoms) -> dict[str, Any]:
    shows = sick.shows
    down = int(shows.get("links_down", 0))
    states = [smi.UP] * (model.links - down) + [0] * down + [smi.DISABLED]
    link = smi.pcie(
        MTS[int(shows.get("pcie_gen", model.pcie_gen))],
        int(shows.get("pcie_width", model.pcie_lanes)),
        pcie_replay_count=int(shows.get("pcie_replays", 0)),
    )
    most = MTS[int(shows.get("pcie_gen_max", model.pcie_gen))]
    link["pcie_static"].update(max_pcie_width=model.pcie_lanes, max_pcie_speed=most)
    counted = sum(int(shows.get(f"nvlink_{name}", 0)) for name in LINK_ERRORS)
    return {
        "amdsmi_get_pcie_info": link,
        "amdsmi_get_gpu_xgmi_link_status": {"total_links": len(states), "status": states},
        "amdsmi_gpu_xgmi_error_status": min(counted, 2),
        "amdsmi_get_xgmi_info": {"xgmi_hive_id": shows.get("hive", HIVE)},
    }


def _power(model: Model, row: dict[str, float], sick: Symptoms) -> dict[str, Any]:
    watts, cap = row["power_w"] or model.watts * LOAD[""], round(model.watts * 1e6)
    clock, memory_clock = int(row["clock_mhz"] or model.clock_mhz), int(model.memory_clock_mhz)
    heat = round(row["temperature_c"] or COOLANT_C + KELVIN_AT_LIMIT * LOAD[""])
    return {
        "amdsmi_get_power_cap_info": {
            "power_cap": round(cap * sick.power),
            "default_power_cap": cap,
            "max_power_cap": cap,
        },
        "amdsmi_get_gpu_perf_level": smi.DETERMINISM if sick.reasons & ClockEvent.APPLICATION_CLOCKS else smi.AUTO,
        "amdsmi_get_clock_info": smi.By(
            {
                smi.GFX: {"max_clk": int(model.clock_mhz * sick.shows.get("clock_share", 1.0))},
                smi.MEM: {"max_clk": memory_clock},
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
        "amdsmi_get_violation_status": _held(int(row["reasons"]) | int(sick.shows.get("reasons", 0))),
    }


def _held(reasons: int) -> Any:
    """What holds the clock now."""
    return smi.violations(
        prochot_thrm=int(bool(reasons & (ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL | ClockEvent.HW_POWER_BRAKE))),
        socket_thrm=int(bool(reasons & ClockEvent.SW_THERMAL)),
    )


def _accumulated(row: dict[str, float]) -> dict[str, int]:
    """The throttle counters; a brake from outside the chip reaches an AMD part as PROCHOT."""
    seconds = {
        "accumulation_counter": row["now"],
        "ppt_residency_acc": row["sw_power_cap_s"],
        "socket_thm_residency_acc": row["sw_thermal_s"],
        "prochot_residency_acc": row["hw_thermal_s"] + row["hw_power_brake_s"],
        "hbm_thm_residency_acc": row["memory_thermal_s"],
        "vr_thm_residency_acc": row["regulators_thermal_s"],
    }
    return {name: int(LOOKS_PER_SECOND * each) for name, each in seconds.items()}
