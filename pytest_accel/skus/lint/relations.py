"""Rules that compare a SKU with the others: copied figures, claims to the same device."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_accel.core.sku import MEMORY_SHOWN, Limit, Platform, Sku
from pytest_accel.core.yaml_nodes import Located
from pytest_accel.skus import implied
from pytest_accel.skus.lint.linted_file import LintedFile, LintFinding, rule
from pytest_accel.skus.lint.physics import reach

ALIKE = 0.02
"""Parts whose hardware differs by less may share a figure."""


@rule
def copied(subject: LintedFile) -> Iterator[LintFinding]:
    """Report a floor or reference that the file of smaller hardware states, too: it may have come from there."""
    seen: set[tuple[str, str]] = set()
    for key, limit, platform in subject.limits():
        for figure in _of_its_own(subject, key, limit):
            for name, other in _unrelated(subject):
                alike = _same_metric(other.sku, limit.metric)
                origin = next((each for each in alike if _copy(subject, figure, (limit, platform), other, each)), None)
                if origin and (key, name) not in seen:
                    seen.add((key, name))
                    why = f"expected a figure of its own: {name} has exactly this"
                    yield subject.warning(key, figure, f"{why}, from {origin[0].source and origin[0].source.by}")


def _of_its_own(subject: LintedFile, key: str, limit: Limit) -> list[float]:
    """Return the figures of a limit that the file states itself, and that are not known of the same part."""
    stated = {"floor": limit.floor, "reference": limit.reference, "healthy": limit.reference}
    places = {name: subject.get(f"{key}.{name}") for name in stated}
    inherited = subject.base.sku.files if subject.base else ()
    mine = [stated[name] for name, at in places.items() if at is not None and at.file not in inherited]
    known = {
        figure for part in _same_part(subject) for each, _ in _same_metric(part, limit.metric) for figure in _all(each)
    }
    return [figure for figure in dict.fromkeys(mine) if figure and figure not in known and figure != _derived(limit)]


def _all(limit: Limit) -> set[float]:
    """Return every figure of a limit that was stated, not derived."""
    figures = {limit.floor, limit.reference, *(limit.healthy or ())}
    return {figure for figure in figures if figure and figure != _derived(limit)}


def _derived(limit: Limit) -> float | None:
    """Return the floor of a limit if it was derived from the reference."""
    return limit.floor if limit.of_reference else None


def _same_part(subject: LintedFile) -> list[Sku]:
    """Return the SKUs that describe the same part: those that the file extends, and those that claim its name or id."""
    below = [subject.base, *([subject.base.base] if subject.base.base else [])] if subject.base else []
    claims = _match(subject.sku, "names", "pci_ids")
    return [each.sku for each in below] + [
        each.sku for each in subject.others.values() if claims & _match(each.sku, "names", "pci_ids")
    ]


def _unrelated(subject: LintedFile) -> list[tuple[str, LintedFile]]:
    """Return the other SKUs, without those that this file extends."""
    return [(name, other) for name, other in sorted(subject.others.items()) if f"{name}.yaml" not in subject.sku.files]


def _same_metric(sku: Sku, metric: str) -> Iterator[tuple[Limit, Platform]]:
    for platform in sku.platforms.values():
        limit = sku.written_on(platform).get(metric)
        if limit is not None:
            yield limit, platform


def _copy(
    mine: LintedFile, figure: float, here: tuple[Limit, Platform], other: LintedFile, there: tuple[Limit, Platform]
) -> bool:
    """Return True if the file of a smaller part has this figure; of a user's file, that of any other part.

    Two sources may agree on a round figure.
    """
    limit, theirs = here[0], there[0]
    ours, its = reach(mine.sku, *here), reach(other.sku, *there)
    if figure not in _all(theirs) or limit.origin == theirs.origin:
        return False
    own, round_figure = mine.sku.own_file is not None, len(f"{figure:g}".replace(".", "").strip("0")) < 4
    one_source = limit.source and theirs.source and limit.source.by == theirs.source.by
    if not ours or not its:
        return own and not (round_figure or one_source)
    larger = ours[0] / its[0] - 1
    return abs(larger) > ALIKE and (larger > 0 or own) and (bool(one_source) or not round_figure)


@rule
def match(subject: LintedFile) -> Iterator[LintFinding]:
    """Report a name or PCI id that another SKU claims, too, and compute units that are not the datasheet's."""
    known, stated = subject.sku.match.get("compute_units", ()), subject.sku.datasheet.compute.get("units")
    if known and stated and stated not in known:
        yield subject.error("match.compute_units", ", ".join(map(str, known)), f"expected {stated} among them")
    for name, other in _unrelated(subject):
        if subject.sku.vendor != other.sku.vendor or _told_apart(subject.sku, other.sku):
            continue
        for kind in ("names", "pci_ids", "virtual_functions"):
            for each in _match(subject.sku, kind) & _match(other.sku, kind):
                why = f"expected it in one file: {name} claims it too, and nothing tells them apart"
                yield subject.error(f"match.{kind}", each, why)


def _match(sku: Sku, *kinds: str) -> set[str]:
    return {str(each) for kind in kinds for each in sku.match.get(kind, ())}


def _told_apart(one: Sku, two: Sku) -> bool:
    """Return True if no device can be both, because they differ in a property that both state (see Sku.mismatch)."""
    for kinds in (("names",), ("pci_ids", "virtual_functions"), ("subsystems",), ("compute_units",)):
        mine, theirs = _match(one, *kinds), _match(two, *kinds)
        if mine and theirs and not mine & theirs:
            return True
    small, large = sorted(float(sku.datasheet.memory.get("gb", 0.0)) for sku in (one, two))
    return small > 0 and small * MEMORY_SHOWN[1] < large * MEMORY_SHOWN[0]


# -- what a file changes of the expected hardware


HARDWARE = ("pcie", "host_link", "link", "power_watts")
"""Keys of a platform that describe the hardware."""


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
def stated(subject: LintedFile) -> Iterator[LintFinding]:
    """Report a limit that passes fewer lanes or links, or less of another figure, than platform or datasheet state."""
    stated_by = {name: implied.limits(subject.sku, platform) for name, platform in subject.sku.platforms.items()}
    for key, limit, platform in subject.limits():
        follows = stated_by[platform.name].get(limit.metric)
        least = limit.floor if limit.equals is None else limit.equals
        most = follows and (follows.floor if follows.equals is None else follows.equals)
        if follows and isinstance(least, int | float) and isinstance(most, int | float) and least < most:
            where = follows.origin.replace(f" of {subject.sku.name}", "")
            yield subject.warning(key, least, f"expected at least {most:g} ({where})")
