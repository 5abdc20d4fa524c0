"""The management library of a simulated node, below the drivers: it reports what the workers do to the devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pynvml

from pytest_accel.core import simulated
from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.drivers import Hint
from pytest_accel.simulate import amd_node, stated
from pytest_accel.simulate.board import SharedState
from pytest_accel.simulate.faults import LINK_ERRORS, Symptoms
from pytest_accel.simulate.libraries import answers_of, never, nvml, status
from pytest_accel.simulate.model import COOLANT_C, KELVIN_AT_LIMIT, LOAD, Model

FRESH_SECONDS = 0.005
"""Age up to which an answer is used again, in seconds. One reading of a device takes a dozen calls."""

ABSOLUTE = ("Volta", "Turing", "Ampere")
"""Architectures that state temperatures where the others state margins (dumps in tests/real/inventories)."""
VBIOS, INFOROM = "96.00.A5.00.03", "G520.0200.00.05"
CORRECTED_VOLATILE = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC)
UNCORRECTED_VOLATILE = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
UNCORRECTED_OF_LIFE_SRAM = (
    pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    pynvml.NVML_AGGREGATE_ECC,
    pynvml.NVML_MEMORY_LOCATION_SRAM,
)
DENIED = ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetRemappedRows")
"""Functions that a user without permission may not call under some drivers."""
APPLICATION_NOW = (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_ID_APP_CLOCK_TARGET)
APPLICATION_DEFAULT = (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_ID_APP_CLOCK_DEFAULT)

LINK_FIELDS = {
    name: getattr(pynvml, f"NVML_FI_DEV_NVLINK_ERROR_DL_{name.upper()}") for name in ("replay", "recovery", "crc")
}
"""Fields of the errors that every NVLink counts."""

REFUSALS = {
    "not loaded": pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    "mismatched": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
}
"""Status of nvmlInit by the state of the library."""

FABRIC = "nvmlDeviceGetGpuFabricInfoV"
CORES_PER_UNIT = 128
"""Cores of a compute unit at the compute capability that the simulated library reports (9.0)."""

RESERVED_BYTES = 600 << 20
"""Assumed: bytes that the driver keeps for itself."""


class NvidiaNode(nvml.NvmlLibrary):
    """The library of a node, whose answers are updated before they are given."""

    def __init__(self, model: Model, **options: Any) -> None:
        self._model, self._board = model, SharedState(Path(model.board), model.devices)
        self._reported: set[int] = set()
        rows = {slot: self._board.row(slot) for slot in range(model.devices)}
        self._slots = [slot for slot, row in rows.items() if model.symptoms(slot, row).event != "missing"]
        self._renewed_at = [0.0] * len(self._slots)
        super().__init__([nvml.h200(slot) for slot in self._slots], **options)

    def gpu(self, index: int) -> nvml.NvmlGpu:
        """Return a GPU whose answers are at most `FRESH_SECONDS` old."""
        if time.monotonic() - self._renewed_at[index] > FRESH_SECONDS:
            # by itself: the sensor reads it in a thread of its own, so no older answer follows a newer one
            self.renew(index)
        return super().gpu(index)

    def renew(self, index: int) -> None:
        """Update the answers of one GPU from the board, and report a new Xid."""
        slot, gpu = self._slots[index], self.gpus[index]
        row = self._board.row(slot)
        symptoms = self._model.symptoms(slot, row)
        gpu.lost = symptoms.event == "lost"
        gpu.answers.update(answers(self._model, slot, row, symptoms))
        gpu.fields.update(fields(self._model, row, symptoms) | link_errors(self._model, symptoms.shows))
        if "xid" in symptoms.shows and slot not in self._reported:
            self._reported.add(slot)
            self.xids.append((index, symptoms.shows["xid"]))
        self._renewed_at[index] = time.monotonic()


def clock(model: Model) -> Callable[[str], float]:
    """Return a function that gives the current time of each device, in seconds since the epoch, by UUID."""
    board = SharedState(Path(model.board), model.devices)
    slots = {model.uuid(slot): slot for slot in range(model.devices)}
    return lambda uuid: model.epoch + board.read(slots[uuid], "now")


def install(model: Model) -> None:
    """Install the node's library below its wrapper."""
    if model.vendor == "amd":
        amd_node.install(model)
        return
    node = model.of_node()
    if node.library == "missing":
        pynvml.CDLL = _no_library
        nvml.install(None)
    elif node.library == "blocked":
        nvml.install(nvml.NvmlLibrary([], init=never))
    else:
        driver = {"driver": node.shows["driver"]} if "driver" in node.shows else {}
        nvml.install(NvidiaNode(model, init=REFUSALS.get(node.library, 0), **driver))


def _no_library(name: str) -> None:
    """Raise the error of a missing library."""
    raise OSError(f"{name}: not found")


def host(model: Model) -> Path | None:
    """Write the host's files as they are now and return their root; None if it has no NICs and no fault."""
    healthy = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": f"{model.nic_gbit_per_s:g} Gb/sec (4X)"}
    ports = [stated.PORT.replace("mlx5_0", f"mlx5_{number}") for number in range(model.nics)]
    files = {f"{port}/{file}": text for port in ports for file, text in healthy.items()} | model.of_node().host
    root = Path(model.board).parent / "host"
    worked = any(SharedState(Path(model.board), model.devices).read(slot, "now") for slot in range(model.devices))
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # of two texts the second appears once a device has worked
        text = content[worked] if isinstance(content, tuple) else content
        if isinstance(text, bytes):
            path.write_bytes(text)
        elif not text.startswith("-> "):
            path.write_text(text.format(**stated.BUS[model.vendor]), encoding="utf-8")
        elif not path.is_symlink():
            path.symlink_to(root / text.removeprefix("-> "))
    return root if files else None


def hints(model: Model) -> list[Hint]:
    """Return the devices on the PCI bus of the node, including those that are lost."""
    return [Hint(model.vendor, pci=_address(slot)) for slot in range(model.devices)]


def _address(slot: int) -> str:
    """Return the PCI address of a device."""
    # in a domain that no machine has, so that no device in the real /sys is mistaken for it
    return f"51ab:{0x1A + slot:02x}:00.0"


def answers(model: Model, slot: int, row: dict[str, float], symptoms: Symptoms) -> dict[str, Any]:
    """Return the answers of the functions of NVML for one device now."""
    shows, serial = symptoms.shows, f"{simulated.SERIAL}{model.seed:06d}{slot:02d}"
    memory = int(model.memory_bytes * shows.get("memory_share", 1.0))
    locked = symptoms.reasons & ClockEvent.APPLICATION_CLOCKS
    mig, ecc, at_rest = shows.get("mig", False), shows.get("ecc", True), shows.get("reasons", 0)
    used = int(shows.get("used_gb", 0) * 1e9)
    temperature = (row["temperature_c"] or COOLANT_C + KELVIN_AT_LIMIT * LOAD[""]) + shows.get("degrees_at_rest", 0.0)
    gen, width = shows.get("pcie_gen", model.pcie_gen), shows.get("pcie_width", model.pcie_lanes)
    board, bus = shows.get("power_share", 1.0), int(model.memory_bus_bits * shows.get("memory_bus_share", 1.0))
    return {
        "nvmlDeviceGetUUID": model.uuid(slot).encode(),
        "nvmlDeviceGetName": str(shows.get("model", model.product)).encode(),
        "nvmlDeviceGetSerial": serial.encode(),
        "nvmlDeviceGetPciInfo_v3": nvml.fills(
            busId=f"0000{_address(slot)}".encode(),
            pciDeviceId=_number(model.part(shows)),
            pciSubSystemId=_number(model.pci_subsystem),
        ),
        "nvmlDeviceGetNumGpuCores": int(model.compute_units * shows.get("units_share", 1.0)) * CORES_PER_UNIT,
        "nvmlDeviceGetMemoryInfo": nvml.fills(total=memory, used=RESERVED_BYTES + used),
        "nvmlDeviceGetMemoryInfo_v2": nvml.fills(total=memory, reserved=RESERVED_BYTES, used=used),
        "nvmlDeviceGetMigMode": (int(mig), int(shows.get("mig_pending", mig))),
        "nvmlDeviceGetVirtualizationMode": shows.get("virtualization", 0),
        "nvmlDeviceGetComputeMode": shows.get("compute_mode", pynvml.NVML_COMPUTEMODE_DEFAULT),
        "nvmlDeviceGetEnforcedPowerLimit": round(board * model.watts * symptoms.power * 1000),
        "nvmlDeviceGetPowerManagementLimit": round(board * model.watts * symptoms.power * 1000),
        "nvmlDeviceGetPowerManagementDefaultLimit": round(board * model.watts * 1000),
        "nvmlDeviceGetPowerManagementLimitConstraints": (
            round(board * model.watts_min * 1000),
            round(board * model.watts_max * 1000),
        ),
        "nvmlDeviceGetMemoryBusWidth": bus or status(pynvml.NVML_ERROR_NOT_SUPPORTED),
        "nvmlDeviceGetMaxPcieLinkGeneration": shows.get("pcie_gen_max", model.pcie_gen),
        "nvmlDeviceGetMaxPcieLinkWidth": model.pcie_lanes,
        "nvmlDeviceGetMaxClockInfo": nvml.clocks(
            int(model.clock_mhz * shows.get("clock_share", 1.0)),
            int(model.memory_clock_mhz * shows.get("memory_clock_share", 1.0)),
        ),
        "nvmlDeviceGetClockInfo": nvml.clocks(int(row["clock_mhz"] or model.clock_mhz), int(model.memory_clock_mhz)),
        "nvmlDeviceGetPowerUsage": int(1000 * (row["power_w"] or model.watts * LOAD[""])),
        "nvmlDeviceGetTotalEnergyConsumption": int(1000 * row["energy_j"]),
        "nvmlDeviceGetTemperature": round(temperature),
        "nvmlDeviceGetMarginTemperature": nvml.fills(marginTemperature=round(model.slowdown_c - temperature)),
        "nvmlDeviceGetCurrentClocksEventReasons": int(row["reasons"]) | locked | at_rest,
        "nvmlDeviceGetClock": {
            APPLICATION_NOW: int(model.clock_mhz * (symptoms.clock if locked else 1.0)),
            APPLICATION_DEFAULT: int(model.clock_mhz),
        },
        "nvmlDeviceGetCurrPcieLinkGeneration": gen,
        "nvmlDeviceGetCurrPcieLinkWidth": width,
        "nvmlDeviceGetPcieReplayCounter": int(shows.get("pcie_replays", 0)),
        "nvmlDeviceGetUtilizationRates": nvml.fills(gpu=int(shows.get("busy", 0)), memory=0),
        "nvmlDeviceGetComputeRunningProcesses_v3": nvml.processes(*shows.get("pids", ())),
        "nvmlDeviceGetVbiosVersion": str(shows.get("vbios", VBIOS)).encode(),
        "nvmlDeviceGetInforomImageVersion": str(shows.get("inforom", INFOROM)).encode(),
        "nvmlDeviceGetGpuFabricInfoV": nvml.fabric(state=shows.get("fabric_state", 3), **shows.get("fabric", {})),
        "nvmlDeviceGetEccMode": (int(ecc), int(shows.get("ecc_pending", ecc))),
        **({"nvmlDeviceGetTemperatureThreshold": _thresholds(model)} if {*model.kinds} & {*ABSOLUTE} else {}),
        **repairs(shows),
        **_published(model),
        **(dict.fromkeys(DENIED, status(pynvml.NVML_ERROR_NO_PERMISSION)) if shows.get("denied") else {}),
    }


def _thresholds(model: Model) -> dict[int, int]:
    """Return the temperatures at which a device slows itself down and shuts itself down, in degrees Celsius."""
    kinds = (pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    return dict(zip(kinds, (round(model.slowdown_c), round(model.slowdown_c) + 3), strict=True))


def _published(model: Model) -> dict[str, Any]:
    """Return the published answers of devices of the product, as NVML's functions take them."""
    return {name: _as_taken(name, answer) for name, answer in answers_of("nvml", *model.kinds).items()}


def _as_taken(name: str, answer: Any) -> Any:
    """Return an answer of the table as a function of NVML takes it: a struct is filled in."""
    if isinstance(answer, dict):
        return nvml.fabric(**answer) if name == FABRIC else nvml.fills(**answer)
    return tuple(answer) if isinstance(answer, list) else answer


def repairs(shows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers about counted errors, and about repairs that were made or are pending."""
    corrected, uncorrected = shows.get("remapped_corrected", 0), shows.get("remapped", 0)
    counts = (corrected, uncorrected, shows.get("remap_pending", 0), shows.get("remap_failure", 0))
    return {
        "nvmlDeviceGetTotalEccErrors": {
            **dict.fromkeys(product((0, 1), (0, 1)), 0),
            CORRECTED_VOLATILE: shows.get("ecc_corrected", 0),
            UNCORRECTED_VOLATILE: shows.get("ecc_uncorrectable", 0),
        },
        "nvmlDeviceGetMemoryErrorCounter": {
            **dict.fromkeys(product((0, 1), (0, 1), (2, 7)), 0),
            UNCORRECTED_OF_LIFE_SRAM: shows.get("sram_errors", 0),
        },
        "nvmlDeviceGetSramEccErrorStatus": nvml.fills(bThresholdExceeded=shows.get("sram_flag", 0)),
        "nvmlDeviceGetRemappedRows": counts,
        "nvmlDeviceGetRetiredPagesPendingStatus": shows.get("pages_pending", 0),
        "nvmlDeviceGetRepairStatus": nvml.fills(
            bChannelRepairPending=shows.get("channel_pending", 0), bTpcRepairPending=shows.get("tpc_pending", 0)
        ),
        "nvmlDeviceGetUnrepairableMemoryFlag_v1": nvml.fills(unrepairableMemory=shows.get("unrepairable", 0)),
    }


def _number(ids: str) -> int:
    """Return NVML's number for a PCI id: 0x233010DE for "10de:2330"."""
    vendor, part = (int(text, 16) for text in ids.split(":"))
    return part << 16 | vendor


def fields(model: Model, row: dict[str, float], symptoms: Symptoms) -> dict[Any, tuple[int, float]]:
    """Return the NVML fields: throttle counters in nanoseconds, memory temperature, the state of each link."""
    slow = (
        row["sw_thermal_s"] + row["memory_thermal_s"],
        row["hw_thermal_s"] + row["regulators_thermal_s"],
        row["hw_power_brake_s"],
    )
    links_up = model.links - symptoms.shows.get("links_down", 0)
    return {
        **{number: (3, 1e9 * seconds) for number, seconds in zip(nvml.NEW_IDS, slow, strict=True)},
        pynvml.NVML_FI_DEV_PERF_POLICY_POWER: (3, 1e9 * row["sw_power_cap_s"]),
        pynvml.NVML_FI_DEV_MEMORY_TEMP: (1, round(row["temperature_c"] or COOLANT_C) + 8),
        pynvml.NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR: (1, symptoms.shows.get("pcie_fatal", 0)),
        pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: (1, symptoms.shows.get("recovery", 0)),
        **_retired(symptoms.shows),
        pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT: (1, model.links),
        pynvml.NVML_FI_DEV_NVLINK_GET_SPEED: (1, 1000 * model.link_gb_per_s * symptoms.shows.get("link_rate", 1.0)),
        **{(pynvml.NVML_FI_DEV_NVLINK_GET_STATE, link): (1, int(link < links_up)) for link in range(model.links)},
    }


def _retired(shows: Mapping[str, Any]) -> dict[Any, tuple[int, float]]:
    """Return the fields of retired pages; only parts from before Ampere have them, and here a faulty device."""
    if "retired_pages" not in shows:
        return {}
    return {pynvml.NVML_FI_DEV_RETIRED_SBE: (1, shows["retired_pages"]), pynvml.NVML_FI_DEV_RETIRED_DBE: (1, 0)}


def link_errors(model: Model, shows: Mapping[str, Any]) -> dict[Any, tuple[int, int]]:
    """Return the NVML fields that count link errors: those of the first NVLink, and an NVLink 5 field of every link."""
    counts = {name: (1, int(shows.get(f"nvlink_{name}", 0))) for name in LINK_ERRORS}
    link_fields = {
        (pynvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, link): (1, 0) if link else counts["effective"]
        for link in range(model.links if model.link_type == "nvlink5" else 0)
    }
    first_link = {(number, 0): counts[name] for name, number in LINK_FIELDS.items()}
    return {**first_link, **link_fields}
