"""Rules on what a file changes of the expected hardware: figures of the extended file, PCIe width, number of links."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_accel.core.sku import Limit, Platform
from pytest_accel.core.yaml_nodes import Located
from pytest_accel.skus.lint.linted_file import LintedFile, LintFinding, rule

HARDWARE = ("pcie", "host_link", "link", "power_watts")
"""Keys of a platform that describe the hardware."""
LINK_FACTS = {
    "health.pcie_width": ("pcie", "lanes", "{:g} PCIe lanes"),
    "host_copy.pcie_width": ("pcie", "lanes", "{:g} PCIe lanes"),
    "inventory.pcie_gen_max": ("pcie", "gen", "PCIe generation {:g}"),
    "host_copy.pcie_gen": ("pcie", "gen", "PCIe generation {:g}"),
    "health.nvlink_up": ("link", "count", "{:g} links"),
    "health.xgmi_up": ("link", "count", "{:g} links"),
}
"""Facts that a platform declares: its mapping, the key in it, and how a message states it."""


@rule
def datasheet_differs(subject: LintedFile) -> Iterator[LintFinding]:
    """Report a figure of the hardware that differs from that of the extended file, unless it is another product."""
    base = subject.base
    if base is None or subject.sku.own_file is None:
        return
    if any(subject.sku.match.get(key) != base.sku.match.get(key) for key in ("names", "pci_ids", "subsystems")):
        return  # another product
    places = ["datasheet", *(f"platforms.{name}.{key}" for name in base.sku.platforms for key in HARDWARE)]
    for place in places:
        for key, at in _figures(subject.get(place), place):
            before = base.get(key)
            if before is not None and at.file not in base.sku.files and before.plain() != at.plain():
                why = f"expected {before.plain()}, as {base.sku.name} states: one product has one figure"
                yield subject.warning(key, at.plain(), why)


def _figures(at: Located | None, key: str) -> Iterator[tuple[str, Located]]:
    """Yield every single value below a key, without sources."""
    if at is not None and isinstance(at.data, dict):
        for name, each in at.data.items():
            if name not in ("source", "sources"):
                yield from _figures(each, f"{key}.{name}")
    elif at is not None:
        yield key, at


@rule
def link_facts(subject: LintedFile) -> Iterator[LintFinding]:
    """Report a limit on PCIe lanes, generation or links that differs from what the platform declares."""
    seen = set()
    for platform in subject.sku.platforms.values():
        for metric, limit in subject.sku.limits_on(platform).items():
            own = metric in platform.limits
            key = f"platforms.{platform.name}.limits.{metric}" if own else f"limits.{metric}"
            finding = _link_fact(subject, key, limit, platform)
            if finding and key not in seen:
                seen.add(key)
                yield finding


def _link_fact(subject: LintedFile, key: str, limit: Limit, platform: Platform) -> LintFinding | None:
    """Return an error if the limit asks for more than the platform has, a warning if it lets less pass."""
    group, name, what = LINK_FACTS.get(limit.metric, ("", "", ""))
    stated = getattr(platform, group).get(name) if group else None
    bound = limit.floor if limit.equals is None else limit.equals
    emulated = platform.virtual or (platform.passed_through and group == "pcie")
    if stated is None or not isinstance(bound, int | float) or bound == stated or emulated:
        return None
    expected = f"expected {what.format(stated)}, as platform {platform.name} declares"
    if bound > stated:
        return subject.error(key, bound, f"{expected}: no device would hold the limit")
    return subject.warning(key, bound, f"{expected}; where it is less, declare it there")
