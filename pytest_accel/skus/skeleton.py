"""The skeleton of a threshold file: what devices state of themselves, and TODO for all that somebody has to look up.

What devices state of themselves goes into `match` and comments alone: as a datasheet, it would make a board that is
weaker than it should be its own measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import Sku
from pytest_accel.core.yaml_nodes import Findings, Located

TODO = "TODO"
"""The value that a reader of the file has to replace."""

HEAD = """\
# A threshold file to fill in, made by `pytest-accel discover` from what the devices state of themselves.
# Replace every TODO: the file is refused until then. Take the datasheet from the vendor, and each `reference` from
# healthy devices of several nodes. How to: docs/how-to-sku.md
"""
USUAL_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
"""Dtypes of a datasheet, where no like product is known."""
LINKS = (("nvlink_count", "nvlink_gb_per_s", "NVLinks"), ("xgmi_up", "xgmi_gb_per_s", "xGMI links"))
"""The facts that tell number and rate of the links to the peers, and what the links are."""


def find_unfilled(root: Located, findings: Findings) -> None:
    """Add a finding for every value below `root` that is still to be filled in; one that is aliased counts once."""
    found = {(at.where, key.rpartition(".")[2]): (at, key) for key, at in reversed(list(_unfilled(root, "")))}
    for at, key in sorted(found.values(), key=lambda each: each[0].line):
        findings.add(at, f"{key}: still {TODO}; write the value, or delete the line if there is none")


def _unfilled(at: Located, key: str) -> Iterator[tuple[str, Located]]:
    """Yield the values that are still to be filled in, with their keys."""
    if isinstance(at.data, dict):
        for name, each in at.data.items():
            yield from _unfilled(each, f"{key}.{name}" if key else str(name))
    elif isinstance(at.data, list):
        for each in at.data:
            yield from _unfilled(each, key)
    elif isinstance(at.data, str) and at.data.strip().startswith(TODO):
        yield key, at


def text(devices: Sequence[Device], like: Sku | None) -> str:
    """Return the skeleton of a file for `devices`, which are of one product; `like` is the nearest SKU."""
    first, several = devices[0], len(devices) > 1
    lines = [
        *(f"sku: {TODO}  # a name of your own", f"title: {TODO}", f"vendor: {first.driver}", "", "match:"),
        *([f"  names: [{_quoted(first.model)}]"] if first.model else []),
        *([f"  pci_ids: [{_quoted(first.pci_id)}]"] if first.pci_id else []),
        *("", *_datasheet(first, like), "", *_limits(), "", "platforms:"),
        *("  node:  # where the product sits; one entry for each kind of node", f"    devices: {len(devices)}"),
        *_links(first, several),
        *("    source: *datasheet", "    limits:"),
        *_platform_limits(len(devices)),
    ]
    return HEAD + "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    """Return a text as YAML in double quotes, whatever characters it has."""
    plain = [each if each.isprintable() and each not in '"\\' else f"\\U{ord(each):08x}" for each in value]
    return f'"{"".join(plain)}"'


def _datasheet(device: Device, like: Sku | None) -> list[str]:
    facts = device.facts
    dtypes = tuple(like.datasheet.tflops) if like and like.datasheet.tflops else USUAL_DTYPES
    memory = f"{device.memory_bytes / 1e9:.1f} GB" if device.memory_bytes else None
    return [
        "datasheet:  # dense, never sparse; per direction",
        "  tflops:  # delete what the product does not have, or list it under unsupported: [fp64]",
        *(f"    {dtype}: {TODO}  # {'TOPS' if dtype.startswith('int') else 'TFLOPS'}" for dtype in dtypes),
        "  memory:",
        f"    type: {TODO}  # such as HBM3",
        f"    gb: {TODO}{_says(memory)}",
        f"    gb_per_s: {TODO}",
        "  compute:",
        f"    units: {TODO}{_says(facts.get('compute_units'))}",
        f"    kind: {TODO}  # such as SM or CU",
        f"    max_clock_mhz: {TODO}{_says(facts.get('clock_max_mhz'))}",
        "  power:",
        f"    watts: {TODO}{_says(facts.get('power_limit_default_w') or facts.get('power_limit_w'), 'W')}",
        f"  source: &datasheet {{kind: datasheet, by: {TODO}, date: {TODO}, url: {TODO}}}",
    ]


def _limits() -> list[str]:
    return [
        "limits:  # reference: what healthy devices were measured at, warm and sustained; a floor may be a number, too",
        "  matmul.bf16:",
        "    floor: derived",
        f"    reference: {TODO}",
        "    unit: TFLOPS",
        f"    source: &measured {{kind: measured, by: {TODO}, date: {TODO}, devices: {TODO}, nodes: {TODO}}}",
        *(_limit(metric, unit) for metric, unit in (("stream.copy_kernel", "GB/s"), ("soak.rate", "TFLOPS"))),
    ]


def _links(device: Device, several: bool) -> list[str]:
    """Return the lines on the links of a platform, with what the device states of them."""
    facts = device.facts
    pcie = [f"generation {facts['pcie_gen_max']}"] if "pcie_gen_max" in facts else []
    pcie += [f"{facts['pcie_width_max']} lanes"] if "pcie_width_max" in facts else []
    lines = ["    pcie:" + _says(", ".join(pcie)), *(f"      {key}: {TODO}" for key in ("gen", "lanes", "gb_per_s"))]
    stated = next((each for each in LINKS if facts.get(each[0])), None)
    if not several or not stated:
        return lines
    count, rate, what = stated
    says = f"{facts[count]} {what}" + (f" of {facts[rate]:.4g} GB/s" if rate in facts else "")
    return [
        *lines,
        "    link:" + _says(says),
        f"      type: {TODO}  # such as nvlink4 or xgmi",
        f"      topology: {TODO}  # switch, mesh or bridge",
        f"      count: {TODO}",
        f"      gb_per_s: {TODO}  # all links of a device together",
    ]


def _platform_limits(devices: int) -> list[str]:
    """Return the limits that depend on where the product sits; with several devices also those among them."""
    metrics = ["host_copy.h2d", "host_copy.d2h", *(["peer_copy.one_way"] if devices > 1 else [])]
    lines = [f"    {_limit(metric, 'GB/s')}" for metric in metrics]
    ranks = f"    {_limit('all_reduce.busbw@8GiB', 'GB/s', f'ranks: {devices}, ')}"
    return [*lines, *([ranks] if devices > 1 else [])]


def _limit(metric: str, unit: str, conditions: str = "") -> str:
    return f"  {metric}: {{floor: derived, reference: {TODO}, unit: {unit}, {conditions}source: *measured}}"


def _says(value: object, unit: str = "") -> str:
    """Return a comment on what the devices state, empty if they do not."""
    shown = f"{value:g}" if isinstance(value, float) else value
    return f"  # the devices state {shown}{' ' * bool(unit)}{unit}" if value else ""
