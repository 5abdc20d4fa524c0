"""Run probes on the stand-in without pytest, and print a JSON line each: python every_probe.py WHERE [CASE ...]

WHERE is `alone`, `peers` (all devices in this process) or `rank:R:WORLD:FILE`. A CASE is the name of one, or NAME=FLIP
with an operation whose results get a wrong bit meanwhile (see standing.py), or NAME=FLIP*N for its first N results. By
default all run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import standing
from node import uuid
from support.probe_device import AtOnce

from pytest_accel import probes
from pytest_accel.core.measurement import Device
from pytest_accel.core.stats import estimate_rate
from pytest_accel.probes.device.torch_device import Compute

SMALL = {"m": 64, "n": 64, "k": 64}
SHAPE = {"bf16": [64, 64, 64], "fp8": [64, 64, 64]}
# In fp32: of bf16, CUDA keeps the mean of a norm in fp32, and the processor that computes here does not.
BLOCK = {"dtype": "fp32", "width": 64, "heads": 4, "sequence": 16, "batch": 2}
HOPPER = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
ALONE: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"matmul.{dtype}": (probes.matmul, {"dtype": dtype, **SMALL}) for dtype in HOPPER},
    **{f"mamf.{dtype}": (probes.matmul_mamf, {"dtype": dtype, "shapes": SHAPE}) for dtype in SHAPE},
    **{f"exact.{dtype}": (probes.exact_matmul, {"dtype": dtype, **SMALL}) for dtype in ("bf16", "fp16", "fp32")},
    "best": (probes.matmul_best, {"dtype": "bf16", "shapes": [[64, 64, 64], [128, 64, 64]]}),
    "soak": (probes.soak, {"dtype": "bf16", **SMALL}),
    **{
        f"stream.{op}": (probes.stream, {"op": op, "mib": 4, "calls": 2})
        for op in ("copy_kernel", "triad", "dot", "copy", "read")
    },
    **{f"host_copy.{way}": (probes.host_copy, {"direction": way, "mib": 2}) for way in ("d2h", "h2d", "both")},
    "host_copy_all": (probes.host_copy_all, {"direction": "both", "mib": 2}),
    "memory": (probes.memory_pattern, {"mib": 4}),
    "training": (probes.training_step, BLOCK),
}
PEERS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"peer_copy.{way}": (probes.peer_copy, {"direction": way, "mib": 2}) for way in ("one_way", "both")},
    **{f"peer_copy_all.{how}": (probes.peer_copy_all, {"how": how, "mib": 1}) for how in ("rounds", "all")},
}
RANKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "all_reduce": (probes.collective, {"size": "64KiB"}),
    "ddp": (probes.ddp_step, BLOCK),
}
FULL: dict[str, tuple[Any, dict[str, Any]]] = {
    "full.mamf": (probes.matmul_mamf, {"dtype": "bf16", "shapes": {"bf16": [2048, 2048, 13312]}}),
    **{f"full.{dtype}": (probes.matmul, {"dtype": dtype}) for dtype in ("mxfp8", "nvfp4", "fp4")},
}
"""At the size of an acceptance, for a run without numbers; only by name."""
MISTAKEN = "mistaken."
"""Before the name of a case: the scales of its block format are of a kind that torch refuses."""


def opened(places: list[int]) -> Compute:
    """Return the devices as a worker opens them."""
    gate = AtOnce()
    devices = [
        Device(uuid(place), place, "nvidia", "NVIDIA H200", pci_address=f"0000:{0x1A + place:02x}:00.0")
        for place in places
    ]
    compute = Compute(devices, gate)
    compute.seconds = 0.3 if len(places) == 1 else 2.0
    return compute


def figures(found: Any) -> dict[str, float]:
    """Return the value of each metric, and refuse wrong data."""
    every = list(found) if isinstance(found, (list, Iterator)) else [found]
    cells = [cell for each in every for cell in each.details.get("cells", {}).values()]
    wrong = [*filter(None, [*(each.wrong for each in every), *(cell["wrong"] for cell in cells)])]
    if wrong:
        raise ValueError(f"wrong: {wrong[0]}")
    return {each.metric: each.value if each.value is not None else estimate_rate(each.samples).mean for each in every}


def main() -> None:
    """Run the cases."""
    where, *wanted = sys.argv[1:]
    cases = {"alone": ALONE, "peers": PEERS}.get(where, RANKS)
    mode = standing.install()
    if where.startswith("rank:"):
        _, rank, world, meeting = where.split(":")
        device = opened([int(rank)])
        device.gate.compute = device  # type: ignore[attr-defined]
        device.join(rendezvous=meeting, rank=int(rank), world=int(world))
    else:
        import torch

        device = opened(list(range(torch.cuda.device_count() if where == "peers" else 1)))
    for each in wanted or cases:
        name, _, flip = each.partition("=")
        mode.flip(flip)
        probe, conditions = {**cases, **FULL}[name.removeprefix(MISTAKEN)]
        if name.startswith(MISTAKEN):
            functional = device.torch.nn.functional
            functional.ScalingType = SimpleNamespace(BlockWise1x32=functional.ScalingType.BlockWise1x16)
        try:
            said: dict[str, Any] = {"metrics": figures(device.run(probe, conditions))}
        except Exception as error:  # noqa: BLE001  it is what is asked for
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"case": each, **said}), flush=True)  # noqa: T201  it is a program


main()
