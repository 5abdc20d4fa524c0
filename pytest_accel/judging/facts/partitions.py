"""Devices that are not whole: partitions of a GPU, and GPUs that several machines share. Pure.

The limits of a product are those of a whole device. A part of one is no finding on it: the run is refused, with the
partition and the remedy, unless the platform states how its devices are partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import WHOLE, Platform, Sku
from pytest_accel.core.words import listed

Facts = Mapping[str, Any]

SHARED = ("vgpu", "host vgpu", "host vsga", "guest")
"""Kinds of virtualization (the fact) in which a hypervisor shares the device out, in whole or in part."""
SHOWN = 4
"""Names of devices that a sentence lists."""


@dataclass(frozen=True)
class Division:
    """One way in which a device is not as the platform states: its condition, sentence and remedy."""

    holds: Callable[[Facts, Platform], bool]
    says: str
    """The sentence, with facts of the device and `wanted_compute`, `wanted_memory` of the platform in braces."""
    do: str
    """The remedy; {index} and {listed} stand for the indices of the devices, as nvidia-smi and amd-smi take them."""


def _differs(fact: str) -> Callable[[Facts, Platform], bool]:
    return lambda facts, platform: fact in facts and facts[fact] != platform.modes[fact]


DIVISIONS = (
    Division(
        lambda facts, _platform: bool(facts.get("mig")),
        "MIG mode is on, which divides the GPU into instances; neither these nor the GPU are measured",
        "drain the node and turn it off: nvidia-smi -i {index} -mig 0",
    ),
    Division(
        lambda facts, _platform: bool(facts.get("mig_pending")),
        "MIG mode is on from the next reset",
        "turn it off: nvidia-smi -i {index} -mig 0",
    ),
    Division(
        lambda facts, platform: facts.get("virtualization") in SHARED and not platform.virtual,
        "a hypervisor shares the GPU out ({virtualization}), and the platform is for whole devices",
        "run on a machine that has the whole GPU, or name a platform that states `virtual: true`",
    ),
    Division(
        lambda facts, platform: (
            bool(facts.get("partition_id")) and platform.modes["compute_partition"] == WHOLE["compute_partition"]
        ),
        "it is partition {partition_id} of a GPU, and the platform is for whole devices",
        "drain the node and run amd-smi set --gpu all --compute-partition {wanted_compute}",
    ),
    Division(
        _differs("compute_partition"),
        "its compute dies are in {compute_partition} mode; the platform states {wanted_compute}",
        "drain the node and run amd-smi set --gpu {listed} --compute-partition {wanted_compute}, or name a platform "
        "that states `partition: {{compute: {compute_partition}}}`",
    ),
    Division(
        _differs("memory_partition"),
        "its memory is in {memory_partition} mode; the platform states {wanted_memory}",
        "drain the node and run amd-smi set --gpu {listed} --memory-partition {wanted_memory}, or name a platform that "
        "states `partition: {{memory: {memory_partition}}}`",
    ),
)


def whole_devices(devices: Iterable[Device], sku: Sku) -> list[Device]:
    """Return the devices that have the PCI id of the whole product, and that no hypervisor shares out."""
    ids = sku.match.get("pci_ids", ())
    return [device for device in devices if device.pci_id in ids and device.facts.get("virtualization") not in SHARED]


def refusal(devices: Iterable[Device], platform: Platform) -> str | None:
    """Return one sentence on the devices that are not partitioned as the platform states, or None.

    It names the first kind of division that holds, the devices that are divided like that, and the remedy.
    """
    devices = list(devices)
    for division in DIVISIONS:
        divided = [device for device in devices if division.holds(device.facts, platform)]
        if divided:
            words = _words(divided, platform)
            names = listed([device.name for device in divided], SHOWN)
            return f"{names}: {division.says.format_map(words)}; {division.do.format_map(words)}"
    return None


def _words(divided: list[Device], platform: Platform) -> dict[str, Any]:
    """Return the words of a sentence: the facts of the first device, the platform's modes, the devices' indices."""
    indices = [str(device.index) for device in divided]
    return {
        **divided[0].facts,
        "wanted_compute": platform.modes["compute_partition"],
        "wanted_memory": platform.modes["memory_partition"],
        "index": ",".join(indices),
        "listed": " ".join(indices) if len(divided) <= SHOWN else "all",
    }
