"""A simulated libamd_smi.so below the real amdsmi, so that the driver runs unchanged.

The answers of a GPU are data that may change while it runs, since a fault that begins later changes them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_accel.simulate.libraries import status, write

SUCCESS, INVAL, NOT_SUPPORTED, NOT_FOUND = 0, 1, 2, 31
"""AMDSMI_STATUS_* (amdsmi.h)."""

MI300X = Path(__file__).with_name("mi300x.yaml")
"""Answers of an idle MI300X of which nothing depends on its place in the node."""
UP, DISABLED = 1, 2
BLOCKS = {"UMC": 1, "SDMA": 2, "GFX": 4, "MMHUB": 8, "PCIE_BIF": 32, "XGMI_WAFL": 128}
FIRMWARE = {"pm": (77, 0x00556900), "ta_xgmi": (74, 0x20000012), "pldm_bundle": (79, 0x01190400)}
AUTO, DETERMINISM = 0, 8
BARE_METAL, GUEST = 1, 3
HOTSPOT, VRAM = 1, 2
CURRENT, CRITICAL, EMERGENCY = 0, 5, 7
GFX, MEM = 0, 4
"""Numbers of amdsmi.h: states of a link, blocks, firmware with its version, performance levels, virtualization modes,
sensors with their limits, clocks."""


@dataclass
class SmiGpu:
    """One GPU of the simulated library, with the answers of its functions.

    An answer is a number or a text (bytes), several numbers, a dictionary of a struct's fields, a `By` of the arguments
    between the GPU and the output, or a function that is called with all arguments and returns a status. A function
    without an answer is not supported.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    lost: bool = False


class By(dict[Any, Any]):
    """Answers by the arguments that follow the GPU."""


class SmiLibrary:
    """The object that amdsmi uses as the loaded library. `init` is the status of amdsmi_init, or gives it."""

    def __init__(self, gpus: list[SmiGpu], init: int | Callable[[], int] = SUCCESS) -> None:
        self.gpus, self.init = gpus, init

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        """Run the function of this name and return its status."""
        if name == "amdsmi_init":
            return self.init() if callable(self.init) else self.init
        if name == "amdsmi_get_socket_handles":
            return _handles(arguments, list(range(1, len(self.gpus) + 1)))
        if name == "amdsmi_get_processor_handles":
            return _handles(arguments[1:], [_number(arguments[0])])
        if name == "amdsmi_get_lib_version":
            return _version(arguments[0]._obj)
        gpu = self.gpu(_number(arguments[0]) - 1)
        if gpu.lost:
            return NOT_FOUND
        return _answer(gpu.answers.get(name), arguments)

    def gpu(self, index: int) -> SmiGpu:
        """Return the GPU with this index."""
        return self.gpus[index]


class _Loaded:
    """Stands for the loaded file, whose functions are those of the current library."""

    library: SmiLibrary | None = None
    lacks: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.lacks:
            raise AttributeError(f"undefined symbol: {name}")

        def function(*arguments: Any) -> int:
            # the current library at each call, since amdsmi looks up its functions once
            return _LOADED.library.call(name, arguments) if _LOADED.library else 32

        setattr(self, name, function)
        return function


_LOADED = _Loaded()
_REAL = ctypes.CDLL


class _Opening(_REAL):
    """Returns the simulated library when amdsmi loads its own, and loads every other library as usual."""

    def __new__(cls, name: Any, *arguments: Any, **options: Any) -> Any:
        return _LOADED if "amd_smi" in str(name) else _REAL(name, *arguments, **options)


def install(library: SmiLibrary | None, lacks: tuple[str, ...] = ()) -> None:
    """Make `library` the one that amdsmi loads; None for a missing file. `lacks` are functions that it lacks."""
    if library is None or lacks or _LOADED.lacks:
        for name in [module for module in sys.modules if module == "amdsmi" or module.startswith("amdsmi.")]:
            del sys.modules[name]
        vars(_LOADED).clear()
    _LOADED.library, _LOADED.lacks = library, lacks
    ctypes.CDLL = _Opening if library else _REAL  # type: ignore[misc]


def installed() -> SmiLibrary | None:
    """Return the library that amdsmi uses now, or None."""
    return _LOADED.library


def _version(struct: Any) -> int:
    """Fill in the version of amdsmi that comes with ROCm 7.0.2."""
    struct.major, struct.minor, struct.release = 26, 0, 2
    struct.build = type(struct.build)(ctypes.c_char(b"0"))
    return SUCCESS


def _number(handle: Any) -> int:
    """Return the number of a handle."""
    return int(getattr(handle, "value", handle) or 0)


def _handles(arguments: tuple[Any, ...], numbers: list[int]) -> int:
    """Fill in the number of handles and, if there is room, the handles."""
    count, handles = arguments[-2], arguments[-1]
    count._obj.value = len(numbers)
    for index, number in enumerate(numbers if isinstance(handles, ctypes.Array) else ()):
        handles[index] = number
    return SUCCESS


def _answer(answer: Any, arguments: tuple[Any, ...]) -> int:
    """Write an answer to the output arguments and return the status."""
    if isinstance(answer, By):
        numbers = tuple(_number(item) for item in arguments[1:] if isinstance(item, int) or hasattr(item, "value"))
        return _answer(answer.get(numbers[0] if len(numbers) == 1 else numbers), arguments)
    if answer is None:
        return NOT_SUPPORTED
    if isinstance(answer, dict):
        reference = getattr(arguments[-1], "_obj", arguments[-1])
        ctypes.memset(ctypes.byref(reference), 0, ctypes.sizeof(reference))
        _fill(reference, answer)
        return SUCCESS
    return write(answer, arguments)


def _fill(struct: Any, values: Any) -> None:
    """Set the fields of a struct or the elements of an array, recursively."""
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        if isinstance(value, dict | list):
            _fill(getattr(struct, key) if isinstance(key, str) else struct[key], value)
        elif isinstance(key, str):
            setattr(struct, key, value)
        else:
            struct[key] = value


def records(name: str, *entries: dict[str, Any]) -> Callable[..., None]:
    """Return a function that counts `entries` and fills them into an array. `name` is for the error message."""

    def fill(_handle: Any, count: Any, array: Any) -> None:
        count._obj.value = len(entries)
        for index, entry in enumerate(entries if isinstance(array, ctypes.Array) else ()):
            assert index < len(array), f"{name}: no room"
            _fill(array[index], entry)

    return fill


def pages(*states: int) -> Callable[..., None]:
    """Return a function that lists bad pages with these states."""
    entries = [{"page_address": 4096 * index, "page_size": 4096, "status": state} for index, state in enumerate(states)]
    return records("pages", *entries)


def processes(*pids: int) -> Callable[..., None]:
    """Return a function that lists processes."""
    return records("processes", *({"pid": pid, "name": b"python3"} for pid in pids))


def all_ones(**values: Any) -> Callable[..., None]:
    """Return a function that fills a struct with ones, which the firmware uses for missing values, and these values."""

    def fill(*arguments: Any) -> None:
        struct = arguments[-1]._obj
        ctypes.memset(ctypes.byref(struct), 0xFF, ctypes.sizeof(struct))
        _fill(struct, values)

    return fill


def metrics(**values: Any) -> Callable[..., None]:
    """Return a function that fills in the metrics of an idle MI300X, with these values instead."""
    return all_ones(**{**_METRICS, **values})


_METRICS = {
    "temperature_hotspot": 41,
    "temperature_mem": 35,
    "current_socket_power": 138,
    "current_gfxclks": [132, 133, 131, 132, 134, 132, 133, 132],
    "current_uclk": 900,
    "pcie_link_width": 16,
    "pcie_link_speed": 320,
    "accumulation_counter": 1_000_000,
    "prochot_residency_acc": 0,
    "ppt_residency_acc": 5_000,
    "socket_thm_residency_acc": 0,
    "vr_thm_residency_acc": 0,
    "hbm_thm_residency_acc": 0,
}


def mi300x(slot: int = 0, **answers: Any) -> SmiGpu:
    """Return an idle MI300X of a healthy node of eight, as libamd_smi reports it; its serial number is no real one."""
    serial = 0x5A3C_0000_1111_0000 + slot
    idle: dict[str, Any] = texts(yaml.safe_load(MI300X.read_text(encoding="utf-8")))
    idle["amdsmi_get_gpu_asic_info"].update(asic_serial=f"{serial:x}".encode(), oam_id=slot)
    idle["amdsmi_get_gpu_board_info"]["product_serial"] = f"69224100100{slot}".encode()
    peers = [
        {"bdf": {"as_uint": _bdf(peer)}, "bit_rate": 32, "max_bandwidth": 512, "link_type": 2} for peer in range(8)
    ]
    idle |= {
        "amdsmi_get_gpu_device_bdf": {"as_uint": _bdf(slot)},
        "amdsmi_get_gpu_device_uuid": f"5aff74a1-0000-1000-803c-00001111{slot:04x}".encode(),
        "amdsmi_get_gpu_enumeration_info": {
            "drm_render": 128 + slot,
            "drm_card": slot,
            "hip_id": slot,
            "hip_uuid": f"GPU-{serial:x}".encode(),
        },
        "amdsmi_get_gpu_topo_numa_affinity": slot // 4,
        "amdsmi_get_gpu_kfd_info": {"kfd_id": 1000 + slot, "node_id": 2 + slot, "current_partition_id": 0},
        "amdsmi_get_gpu_memory_total": By({0: 206_141_652_992}),
        "amdsmi_get_gpu_memory_usage": By({0: 297_795_584}),
        "amdsmi_get_fw_info": firmware(),
        **errors(),
        "amdsmi_get_gpu_bad_page_info": pages(),
        "amdsmi_get_gpu_process_list": processes(),
        "amdsmi_get_pcie_info": pcie(),
        "amdsmi_gpu_xgmi_error_status": status(INVAL),
        "amdsmi_get_gpu_xgmi_link_status": {
            "total_links": 8,
            "status": [DISABLED if peer == slot else UP for peer in range(8)],
        },
        "amdsmi_get_link_metrics": {"num_links": 7, "links": [*peers[:slot], *peers[slot + 1 :]]},
        "amdsmi_get_xgmi_info": {"xgmi_lanes": 16, "xgmi_hive_id": 0x5A3C00001111, "xgmi_node_id": slot},
        "amdsmi_get_clock_info": By({GFX: {"clk": 132, "max_clk": 2100}, MEM: {"clk": 900, "max_clk": 1300}}),
        "amdsmi_get_temp_metric": By(
            {
                (HOTSPOT, CURRENT): 41,
                (VRAM, CURRENT): 35,
                (HOTSPOT, CRITICAL): 100,
                (HOTSPOT, EMERGENCY): 110,
                (VRAM, CRITICAL): 95,
                (VRAM, EMERGENCY): 105,
            }
        ),
        "amdsmi_get_energy_count": (100_000_000, 15.259, 1),
        "amdsmi_get_gpu_metrics_info": metrics(),
        "amdsmi_get_violation_status": violations(),
    }
    return SmiGpu({**idle, **answers})


def texts(answer: Any) -> Any:
    """Return an answer whose texts are bytes, as C has them."""
    if isinstance(answer, dict):
        return {name: texts(value) for name, value in answer.items()}
    return answer.encode() if isinstance(answer, str) else answer


def _bdf(slot: int) -> int:
    """Return bus, device and function of a GPU in one number."""
    return (0x0C + slot) << 8


def firmware(**overrides: int) -> dict[str, Any]:
    """Return the firmware version of every block, with these versions instead."""
    versions = {number: overrides.get(name, version) for name, (number, version) in FIRMWARE.items()}
    entries = [{"fw_id": number, "fw_version": version} for number, version in versions.items()]
    return {"num_fw_info": len(entries), "fw_info_list": entries}


def errors(**blocks: Mapping[str, int]) -> dict[str, Any]:
    """Return the error counters by block and kind (correctable, uncorrectable, deferred), and their totals."""
    kinds = ("correctable", "uncorrectable", "deferred")
    counts = {
        number: {f"{kind}_count": blocks.get(name, {}).get(kind, 0) for kind in kinds}
        for name, number in BLOCKS.items()
    }
    total = {f"{kind}_count": sum(block[f"{kind}_count"] for block in counts.values()) for kind in kinds}
    return {"amdsmi_get_gpu_ecc_count": By(counts), "amdsmi_get_gpu_total_ecc_count": total}


def pcie(mts: int = 32_000, width: int = 16, **counters: int) -> dict[str, Any]:
    """Return the state of the link to the host, whose maximum is generation 5 with 16 lanes. `mts` is in MT/s."""
    return {
        "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32_000, "pcie_interface_version": 5, "slot_type": 1},
        "pcie_metric": {"pcie_width": width, "pcie_speed": mts, **counters},
    }


def violations(**active: int) -> Callable[..., None]:
    """Return a function that fills in the violation status.

    `active` are the active limiters: prochot_thrm, ppt_pwr, socket_thrm, vr_thrm, hbm_thrm.
    """
    names = ("prochot_thrm", "ppt_pwr", "socket_thrm", "vr_thrm", "hbm_thrm")
    counts = {"acc_counter": 1_000_000, **{f"acc_{name}": 0 for name in names}}
    return all_ones(**counts, **{f"active_{name}": active.get(name, 0) for name in names})
