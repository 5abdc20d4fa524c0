"""The skeleton of a threshold file: what devices state of themselves, and TODO for all that somebody has to look up.

What devices state of themselves goes into `match` and comments alone: as a datasheet, it would make a board that is
weaker than it should be its own measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import Sku
from pytest_accel.core.yaml_nodes import Located, Mistakes

TODO = "TODO"
"""The value that a reader of the file has to replace."""

TEMPLATE = Path(__file__).with_name("skeleton.txt")
"""The text of a file, with a place for each thing that devices state. A line after "several| " is for several devices,
one after "name| ", "pci_id| " or "links| " for devices that state these."""
USUAL_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
"""Dtypes of a datasheet, where no like product is known."""
LINKS = (("nvlink_count", "nvlink_gb_per_s", "NVLinks"), ("xgmi_up", "xgmi_gb_per_s", "xGMI links"))
"""The facts that tell number and rate of the links to the peers, and what the links are."""


def find_unfilled(root: Located, mistakes: Mistakes) -> None:
    """Add a mistake for every value below `root` that is still to be filled in; one that is aliased counts once."""
    found = {(at.where, key.rpartition(".")[2]): (at, key) for key, at in reversed(list(_unfilled(root, "")))}
    for at, key in sorted(found.values(), key=lambda each: each[0].line):
        mistakes.add(at, f"{key}: still {TODO}; write the value, or delete the line if there is none")


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
    facts, links = first.facts, _links(first)
    dtypes = tuple(like.datasheet.tflops) if like and like.datasheet.tflops else USUAL_DTYPES
    pcie = [f"generation {facts['pcie_gen_max']}"] if "pcie_gen_max" in facts else []
    pcie += [f"{facts['pcie_width_max']} lanes"] if "pcie_width_max" in facts else []
    known = {"name": first.model, "pci_id": first.pci_id, "several": several, "links": several and links}
    lines = (line.rpartition("| ") for line in TEMPLATE.read_text(encoding="utf-8").splitlines(keepends=True))
    return Template("".join(line for asked, _, line in lines if not asked or known[asked])).substitute(
        vendor=first.driver,
        name=_quoted(first.model),
        pci_id=_quoted(first.pci_id or ""),
        dtypes="\n    ".join(f"{each}: {TODO}  # {'TOPS' if each.startswith('int') else 'TFLOPS'}" for each in dtypes),
        memory=_says(f"{first.memory_bytes / 1e9:.1f} GB" if first.memory_bytes else None),
        units=_says(facts.get("compute_units")),
        clock=_says(facts.get("clock_max_mhz")),
        watts=_says(facts.get("power_limit_default_w") or facts.get("power_limit_w"), "W"),
        devices=len(devices),
        pcie=_says(", ".join(pcie)),
        links=_says(links),
    )


def _quoted(value: str) -> str:
    """Return a text as YAML in double quotes, whatever characters it has."""
    plain = [each if each.isprintable() and each not in '"\\' else f"\\U{ord(each):08x}" for each in value]
    return f'"{"".join(plain)}"'


def _links(device: Device) -> str:
    """Return what a device states of its links to the peers; empty if it states none."""
    facts = device.facts
    for count, rate, what in LINKS:
        if facts.get(count):
            return f"{facts[count]} {what}" + (f" of {facts[rate]:.4g} GB/s" if rate in facts else "")
    return ""


def _says(value: object, unit: str = "") -> str:
    """Return a comment on what the devices state, empty if they do not."""
    shown = f"{value:g}" if isinstance(value, float) else value
    return f"  # the devices state {shown}{' ' * bool(unit)}{unit}" if value else ""
