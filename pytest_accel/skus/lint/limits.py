"""Rules on single limits: floor, reference, ceiling, and the devices and software of their validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_accel.core import versions
from pytest_accel.core.sku_types import Limit, Sku
from pytest_accel.core.software import MEANINGS
from pytest_accel.core.yaml_nodes import Located
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import implied
from pytest_accel.skus.lint.linted_file import LintedFile, LintMessage, rule
from pytest_accel.skus.lint.physics import POWER, RATES, reach

LOOSE, LOOSE_OTHERWISE, TIGHT = 0.85, 0.7, 0.98
"""Fractions of the lowest healthy figure. A floor below the first lets a link with one lane or channel in six missing
pass. The second is for what is no rate. Above the third the noise of healthy parts fails, and so does a mean power that
the power limit holds: healthy H100 draw 0.978 to 0.988 of it (tests/real/series/h100_telemetry.csv)."""
LOWERED = 0.9
"""The share of a replaced floor that a floor without a healthy figure may be."""
SHARES = ("soak.droop", "soak.throttle.sw_thermal")


@rule
def healthy(subject: LintedFile) -> Iterator[LintMessage]:
    """Report a bound on the wrong side of the healthy figure, too far from it (degraded parts pass), or too near it."""
    for key, limit, platform in subject.limits():
        base, floor = _base_limit(subject, key), limit.floor
        reference = limit.highest or (base.healthy[1] if base and base.healthy else base and base.reference)
        if reference and floor is not None and floor > reference:
            yield subject.error(key, floor, f"expected a floor below the reference {reference:g}")
        if reference and limit.ceiling is not None and limit.ceiling < reference:
            yield subject.error(key, limit.ceiling, f"expected a ceiling above the reference {reference:g}")
        maximum, label = limit.reference, "the reference"
        if limit.metric == POWER and (reached := reach(subject.sku, limit, platform)):
            maximum, label = reached
        if maximum and floor and TIGHT * maximum < floor <= maximum:
            yield subject.warning(key, floor, f"expected at most {TIGHT * maximum:.4g}, {TIGHT} of {label} {maximum:g}")
        for figure, share, basis in _held_against(subject, limit, base) if floor is not None else ():
            if floor is not None and floor < share * figure:
                expected = f"expected at least {share * figure:.4g}, {share} of the {basis} {figure:g}"
                yield subject.warning(key, floor, expected)
                break


def _held_against(subject: LintedFile, limit: Limit, base: Limit | None) -> Iterator[tuple[float, float, str]]:
    """Yield figures that a floor is held against, the smallest share of each that it may be, and the name of each.

    A limit with a healthy figure of its own is also held, less strictly, against that of the limit that it replaces. A
    floor without any replaces no floor that is clearly higher.
    """
    lowest, base_lowest = _lowest(limit), _lowest(base)
    slack = LOOSE if limit.unit in RATES else LOOSE_OTHERWISE
    if lowest:
        yield lowest, slack, "healthy"
    if base_lowest:
        yield base_lowest, LOOSE_OTHERWISE if lowest else slack, "healthy"
    elif base and base.floor and not lowest:
        yield base.floor, LOWERED, f"floor of {subject.base.sku.name if subject.base else ''},"


def _lowest(limit: Limit | None) -> float | None:
    """Return the lowest healthy figure that a limit states; None if it states none."""
    if limit is None:
        return None
    return limit.healthy[0] if limit.healthy else limit.reference


def _base_limit(subject: LintedFile, key: str) -> Limit | None:
    """Return the limit that a file replaces, of the file that it extends; None if there is none."""
    limits = subject.base.limits() if subject.base else ()
    return next((limit for name, limit, _ in limits if name == key), None)


@rule
def ceiling(subject: LintedFile) -> Iterator[LintMessage]:
    """Report a ceiling that nothing can break, that exceeds its unit, or that limits a rate, where more is better."""
    for key, limit, _ in subject.limits():
        if limit.ceiling is None:
            continue
        if limit.unit in RATES and limit.floor is None:
            yield subject.warning(key, limit.ceiling, "expected a floor: for a rate, more is better")
        maximum = _max_ceiling(limit, subject.sku)
        if maximum is not None and not 0 <= limit.ceiling <= maximum[0]:
            yield subject.error(key, limit.ceiling, f"expected 0 to {maximum[0]:g}, {maximum[1]}")


def _max_ceiling(limit: Limit, sku: Sku) -> tuple[float, str] | None:
    """Return the highest sensible ceiling for the metric's unit and the reason; None if there is none."""
    if limit.unit == "1" and limit.metric.startswith(SHARES):
        return 0.5, "a fraction above one half never occurs"
    if limit.unit == "C":
        return sku.datasheet.temperature.get("shutdown_c", 120.0), "the temperature at which the device shuts down"
    if limit.unit == "W" and "watts" in sku.datasheet.power:
        return max(sku.datasheet.power.values()), "the highest power limit of the device"
    return None


@rule
def stated(subject: LintedFile) -> Iterator[LintMessage]:
    """Report a limit that passes fewer lanes or links, or less of another figure, than platform or datasheet state."""
    stated_by = {name: implied.limits(subject.sku, platform) for name, platform in subject.sku.platforms.items()}
    for key, limit, platform in subject.limits():
        follows = stated_by[platform.name].get(limit.metric)
        bound = limit.floor if limit.equals is None else limit.equals
        minimum = follows and (follows.floor if follows.equals is None else follows.equals)
        if follows and isinstance(bound, int | float) and isinstance(minimum, int | float) and bound < minimum:
            origin = follows.origin.replace(f" of {subject.sku.name}", "")
            yield subject.warning(key, bound, f"expected at least {minimum:g} ({origin})")


@rule
def several(subject: LintedFile) -> Iterator[LintMessage]:
    """Require that a link was validated on two devices, and that a collective has the ranks of its platform."""
    for key, limit, platform in subject.limits():
        probe, ranks = declaration_of(limit.metric), limit.conditions.get("ranks")
        if probe and probe.for_several and limit.source is not None and limit.source.devices == 1:
            yield subject.error(f"{key}.source.devices", 1, "expected two or more: a link has two ends")
        across_nodes = probe is not None and probe.runs == "nodes"
        devices = platform.devices or 0
        if ranks and devices and (ranks % devices if across_nodes else ranks != devices):
            yield subject.error(f"{key}.ranks", ranks, f"expected {platform.devices}, the devices of {platform.name}")


@rule
def software(subject: LintedFile) -> Iterator[LintMessage]:
    """Report a software range that no version lies in, and a name that no run records, whose range excuses nothing."""
    for key, limit, _ in subject.limits():
        for name, text in limit.software.items():
            if name not in MEANINGS:
                yield subject.warning(f"{key}.software", name, f"expected one of {', '.join(MEANINGS)}")
            bounds = re.findall(r"\d+(?:\.\d+)*", text)
            candidates = ["0", *bounds, *(f"{bound}.0.0.1" for bound in bounds)]  # at and just above each bound
            if not any(versions.parse(text).holds(version) for version in candidates):
                yield subject.error(f"{key}.software.{name}", text, "expected a range that some version lies in")


# -- rules on the sources of figures


@rule
def source(subject: LintedFile) -> Iterator[LintMessage]:
    """Require a source for the figures of a datasheet and of a platform, whose date is not in the future."""
    sheet = subject.sku.datasheet
    groups = ("tflops", "memory", "compute", "power", "temperature")
    unsourced = [group for group in groups if getattr(sheet, group) and sheet.source_of(group) is None]
    form = "expected 'source: {kind, by, date}'"
    if unsourced:
        yield subject.warning("datasheet", f"no source of {', '.join(unsourced)}", form)
    for platform in subject.sku.platforms.values():
        figures = [name for name in ("pcie", "host_link", "link", "power_watts") if getattr(platform, name)]
        if figures and platform.source is None:
            yield subject.warning(f"platforms.{platform.name}", f"no source of {', '.join(figures)}", form)
    for key, entry in _dates(subject.root, ""):
        day = str(entry.plain())
        if day > subject.today[: len(day)]:
            yield subject.error(key, day, f"expected no later than {subject.today}")


def _dates(entry: Located, key: str) -> Iterator[tuple[str, Located]]:
    """Yield the key and date of every source below a value."""
    if not isinstance(entry.data, dict):
        return
    if {"kind", "by", "date"} <= entry.data.keys():
        yield f"{key}.date", entry.data["date"]
    for name, child in entry.data.items():
        yield from _dates(child, f"{key}.{name}".lstrip("."))
