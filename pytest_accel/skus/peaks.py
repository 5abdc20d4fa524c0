"""Facts about a metric that follow from SKU and platform alone: its peak, and whether it can exist. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import DATASHEET_DTYPE, Platform, Sku
from pytest_accel.probes.declare import declaration_of, finder_of

ALL_NODES: Final = "network.all_reduce"
"""The busbw of all nodes of a network run together, which rings over them hold below the wire rate of a node."""


def peak(sku: Sku, metric: str, platform: Platform) -> tuple[float, str] | None:
    """Return the figure that `metric` is a fraction of, in the metric's unit, and its name; None if there is none.

    The figure is doubled for copies in both directions at once.
    """
    wire, devices = platform.wire_gb_per_s, platform.devices
    if metric == ALL_NODES:
        return (wire, "wire rate of a node") if wire else None
    probe = finder_of(metric) or finder_of(parse(metric).base)
    if probe is None or parse(metric).base in probe.also:
        return None
    variant = parse(metric).variant
    dtype, ways = DATASHEET_DTYPE.get(variant, variant), 2 if variant == "both" else 1
    host: Mapping[str, float] = platform.host_link or platform.pcie
    figures = {
        "tflops": (sku.datasheet.tflops.get(dtype), f"{dtype} datasheet peak"),
        "memory": (sku.datasheet.memory.get("gb_per_s"), "memory datasheet peak"),
        "host_link": (host.get("gb_per_s"), "host link rate"),
        "peer_link": (platform.pair_gb_per_s, "peer link rate"),
        "peer_links": (platform.link.get("gb_per_s"), "rate of all peer links of a device"),
        "port": (wire / devices if wire and devices else None, "wire rate of a device"),
    }
    figure, name = figures.get(probe.peak, (None, ""))
    return (figure * ways, name) if figure else None


def measured_as(sku: Sku, metric: str) -> str:
    """Return the metric whose peak bounds `metric`: for the rate of a soak, the product that it repeats."""
    return f"matmul.{sku.probes.get('soak', {}).get('dtype', 'bf16')}" if metric == "soak.rate" else metric


OF_THE_HOST: Final = ("inventory.ecc", "health.ecc_", "health.bad_pages", "counters.ecc_", "counters.bad_pages")
"""Facts of the memory that only the host of a virtual function knows, by the beginning of their names.

A guest answers 0 or nothing for them (amdgpu_ras_late_init leaves a virtual function without counters; amdsmi.h).
"""


OF_PEER_LINKS: Final = ("fabric", "nvlink_")
"""Facts of the links to other devices, by the beginning of their names behind the group.

A virtual machine with one device alone finds these links off or half set up: completed without a cluster (H200:
thamada/gls), in progress (huggingface/huggingface_hub#4134), or not supported (leptonai/gpud#1140).
"""


def why_not_applicable(sku: Sku, metric: str, platform: Platform) -> str | None:
    """Return the reason why the metric cannot exist on this product and platform, or None if it can.

    The file alone decides this, never the devices of the node.
    """
    if metric in sku.not_applicable:
        return sku.not_applicable[metric]
    if platform.virtual and metric.startswith(OF_THE_HOST):
        return "the memory of a virtual function is the host's to watch: ask its owner for ECC state and bad pages"
    if platform.devices == 1 and not platform.link and metric.partition(".")[2].startswith(OF_PEER_LINKS):
        return f"platform {platform.name} has one device, without a link to another"
    probe, variant = declaration_of(metric), parse(metric).variant
    if probe is None:
        return None
    if probe.peak == "tflops" and {variant, DATASHEET_DTYPE.get(variant)} & set(sku.datasheet.unsupported):
        return f"{sku.name} has no fast path for {variant}"
    if probe.for_several and platform.devices == 1:
        return f"platform {platform.name} has one device"
    return None
