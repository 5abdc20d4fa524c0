"""The skeleton of a threshold file: the statements of devices on themselves, and TODO for all that needs looking up.

The statements go into `match` and comments alone: as a datasheet, they would make a board that is weaker than it
should be its own measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Sku
from pytest_accel.core.yaml_nodes import Located, Mistakes

TODO = "TODO"
"""The value that a reader of the file has to replace."""

TEMPLATE = Path(__file__).with_name("skeleton.txt")
"""The text of a file, with a place for each thing that devices state. A line after "several| " is for several devices,
one after "name| ", "pci_id| " or "links| " for devices that state these."""
USUAL_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
"""Dtypes of a datasheet, where no like product is known."""
LINKS = (("nvlink_count", "nvlink_gb_per_s", "NVLinks"), ("xgmi_up", "xgmi_gb_per_s", "xGMI links"))
"""The facts that state number and rate of the links to the peers, and the noun for the links."""


def find_unfilled(root: Located, mistakes: Mistakes) -> None:
    """Add a mistake for every value below `root` that is still to be filled in; one that is aliased counts once."""
    unfilled = reversed(list(_unfilled(root, "")))  # so that of aliases the first key stays
    entries = {(entry.where, key.rpartition(".")[2]): (entry, key) for key, entry in unfilled}
    for entry, key in sorted(entries.values(), key=lambda item: item[0].line):
        mistakes.add(entry, f"{key}: still {TODO}; write the value, or delete the line if there is none")


def _unfilled(entry: Located, key: str) -> Iterator[tuple[str, Located]]:
    """Yield the values that are still to be filled in, with their keys."""
    if isinstance(entry.data, dict):
        for name, child in entry.data.items():
            yield from _unfilled(child, f"{key}.{name}" if key else str(name))
    elif isinstance(entry.data, list):
        for child in entry.data:
            yield from _unfilled(child, key)
    elif isinstance(entry.data, str) and entry.data.strip().startswith(TODO):
        yield key, entry


def text(devices: Sequence[Device], like: Sku | None) -> str:
    """Return the skeleton of a file for `devices`, which are of one product; `like` is the nearest SKU."""
    device, several = devices[0], len(devices) > 1
    facts, links = device.facts, _links(device)
    dtypes = tuple(like.datasheet.tflops) if like and like.datasheet.tflops else USUAL_DTYPES
    pcie = [f"generation {facts['pcie_gen_max']}"] if "pcie_gen_max" in facts else []
    pcie += [f"{facts['pcie_width_max']} lanes"] if "pcie_width_max" in facts else []
    conditions = {"name": device.model, "pci_id": device.pci_id, "several": several, "links": several and links}
    lines = (line.rpartition("| ") for line in TEMPLATE.read_text(encoding="utf-8").splitlines(keepends=True))
    return Template("".join(line for condition, _, line in lines if not condition or conditions[condition])).substitute(
        vendor=device.driver,
        name=_quoted(device.model),
        pci_id=_quoted(device.pci_id or ""),
        dtypes="\n    ".join(f"{name}: {TODO}  # {'TOPS' if name.startswith('int') else 'TFLOPS'}" for name in dtypes),
        memory=_says(f"{device.memory_bytes / 1e9:.1f} GB" if device.memory_bytes else None),
        units=_says(facts.get("compute_units")),
        clock=_says(facts.get("clock_max_mhz")),
        watts=_says(facts.get("power_limit_default_w") or facts.get("power_limit_w"), "W"),
        devices=len(devices),
        pcie=_says(", ".join(pcie)),
        links=_says(links),
    )


def _quoted(value: str) -> str:
    """Return a text as YAML in double quotes, whatever characters it has."""
    escaped = [char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in value]
    return f'"{"".join(escaped)}"'


def _links(device: Device) -> str:
    """Return number and rate of a device's links to the peers; empty if it states none."""
    facts = device.facts
    for count, rate, noun in LINKS:
        if facts.get(count):
            return f"{facts[count]} {noun}" + (f" of {facts[rate]:.4g} GB/s" if rate in facts else "")
    return ""


def _says(value: object, unit: str = "") -> str:
    """Return a comment on what the devices state, empty if they do not."""
    figure = f"{value:g}" if isinstance(value, float) else value
    return f"  # the devices state {figure}{' ' * bool(unit)}{unit}" if value else ""
