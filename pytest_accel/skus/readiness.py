"""The floors that an acceptance on a platform needs, and the evidence behind the floors in force. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pytest_accel.core.floor import Floor, floor_in_force
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import Basis, ClassFloor, DeclaredBy, Platform, Sku
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.core.words import counted
from pytest_accel.probes.declare import REQUIRED, Declaration, declaration_of, declarations

MATRIX_UNITS, HOST_LINK = "matrix units", "host link"
BETWEEN_DEVICES = ("peer links", "collectives")
"""Parts that an acceptance does without on a platform for which no figure of them is known."""
DECIDING = {
    MATRIX_UNITS: (("matmul.bf16", "matmul.fp16"),),
    "memory": (("stream.copy_kernel", "stream.triad"),),
    HOST_LINK: (("host_copy.h2d",), ("host_copy.d2h",)),
}
"""The metrics by which a part can be accepted. Those that are measured alike stand together, the usual one first: fp16
counts where there is no bf16."""
DECIDING_METRICS = {metric for groups in DECIDING.values() for group in groups for metric in group}
CALLED = {MATRIX_UNITS: "matmul"}
"""The words for parts in the closing line, where they differ."""
READ = ("inventory", "health", "sustained load")
"""Parts that are read, or judged without a figure of the product."""
PLAIN = ("fp32", "fp64")
"""Dtypes whose products say nothing about matrix units of 16 and 8 bits."""
OF_MATRIX_UNITS = ("bf16", "fp16", "fp8", "int8", "tf32")
"""Dtypes of a datasheet that only matrix units reach."""
OTHER_TYPES = tuple(f"matmul.{dtype}" for dtype in OF_MATRIX_UNITS if dtype not in ("bf16", "fp16"))
"""Metrics of matrix units by another type than the deciding one."""


@dataclass(frozen=True)
class Backing:
    """The evidence behind a floor: the origin of its figures, and the floor of the class where that is in force."""

    metric: str
    basis: Basis
    class_floor: ClassFloor | None = None

    @property
    def floor(self) -> ClassFloor | None:
        """The floor of the class, None for another origin."""
        return self.class_floor if self.basis is Basis.CLASS else None

    @property
    def publishers(self) -> int:
        """The number of publishers of figures of the class; 0 for another origin."""
        return len(self.floor.publishers) if self.floor and not self.floor.of_vendor else 0

    @property
    def rank(self) -> tuple[bool, int, bool, int]:
        """The sort key for the strongest first. A limit on a metric that decides the part precedes all others."""
        half = self.floor is not None and not self.floor.excludes_half
        return self.metric not in DECIDING_METRICS, list(Basis).index(self.basis), half, -self.publishers

    @property
    def words(self) -> str:
        """The evidence in words: "method floors", "2 publishers"."""
        if self.floor is None:
            return f"{self.basis.value} floors"
        return "other SKUs of its vendor" if self.floor.of_vendor else counted(self.publishers, "publisher")


@dataclass(frozen=True)
class Readiness:
    """The floors that an acceptance by a SKU on a platform needs at `levels`, with `software` by name and version."""

    sku: Sku
    platform: Platform
    levels: Sequence[str] = LEVELS
    software: Mapping[str, Any] = field(default_factory=dict)

    @property
    def required(self) -> list[str]:
        """The parts of the node that an acceptance needs a floor for, in the order of `REQUIRED`.

        They are those of the packaged probes, without the parts whose probes cannot exist here, and without
        `not_judged`.
        """
        excluded = self.not_judged
        return [part for part in self._parts if part not in excluded]

    @property
    def not_judged(self) -> list[str]:
        """The parts without a floor that an acceptance does without, as its line says.

        They are the parts between devices where the platform has no floor for them at any level, the peer links of a
        fabric that its collectives judge, and the host link in a virtual machine, which hides the rate of the link.
        """
        limits = self.sku.limits_on(self.platform).values()
        bounded = {required_part(limit.metric) for limit in limits if limit.bounded}
        optional = set(BETWEEN_DEVICES) - bounded  # a floor stays known if a user's own file requires it nowhere
        optional |= {"peer links"} if self.floors["collectives"] else set()
        optional |= {HOST_LINK} if self.platform.guest else set()
        return [part for part in self._parts if part in optional and not self.floors[part]]

    @property
    def lacking(self) -> list[str]:
        """The required parts without a floor in force.

        Limits on the inventory need no threshold file, so it is never among them.
        """
        return [part for part in self.required if part != "inventory" and not self.floors[part]]

    @property
    def strongest(self) -> dict[str, Backing]:
        """The evidence behind the strongest floor of each required part that is measured."""
        backings: dict[str, Backing] = {}
        for part in (part for part in self.required if part not in READ):
            floors = [(floor.bound, floor.basis) for floor in self.floors[part]]
            candidates = [Backing(bound.metric, basis, bound.class_floor) for bound, basis in floors if basis]
            if candidates:
                backings[part] = min(candidates, key=lambda backing: backing.rank)
        return backings

    @cached_property
    def floors(self) -> Mapping[str, list[Floor]]:
        """The floors in force that one of the levels requires, by part; empty for a part without one.

        Those that a frozen file holds as implied are left out, and so are plain products of a device that has matrix
        units.
        """
        units = set(OF_MATRIX_UNITS) & set(self.sku.datasheet.tflops)
        floors: dict[str, list[Floor]] = defaultdict(list)
        for limit in self.sku.limits_on(self.platform).values():
            level = next((name for name in self.levels if name in limit.levels), None)
            if level is None or not limit.required or limit.declared_by is DeclaredBy.RUN:
                continue
            floor, excluded = floor_in_force(limit.at_level(level), self.software), units and is_plain(limit.metric)
            if floor.bound.bounded and not excluded:
                floors[required_part(limit.metric)].append(floor)
        return floors

    @property
    def _parts(self) -> list[str]:
        """The parts that the packaged probes measure here, in the order of `REQUIRED`."""
        has_peers = (self.platform.devices or 1) > 1
        fit = [probe for probe in declarations() if probe.packaged and (has_peers or not probe.for_several)]
        parts = {probe.required for probe in fit if not _excluded(probe, self.sku)}
        return [part for part in REQUIRED if part in parts]


def half_not_excluded(backings: Mapping[str, Backing]) -> str:
    """Return the note on parts whose floor half of a healthy rate may hold: "half speed not excluded (matmul)".

    It is empty if there is none. `backings` has the strongest one of each part.
    """
    floors = {part: backing.floor for part, backing in backings.items() if backing.floor}
    parts = [CALLED.get(part, part) for part, floor in floors.items() if not floor.excludes_half]
    return f"half speed not excluded ({', '.join(parts)})" if parts else ""


def too_few(backings: Mapping[str, Backing], devices: int) -> str:
    """Return the reason why so few devices cannot be accepted, empty if they can."""
    half = half_not_excluded(backings)  # half of the rate passes, and no neighbours judge
    return f"{half} with fewer than {ENOUGH_ALIKE} devices" if half and devices < ENOUGH_ALIKE else ""


def required_part(metric: str) -> str:
    """Return the part of the node that a metric is of, "" for one that no acceptance requires a floor for."""
    probe = declaration_of(metric)
    return probe.required if probe and probe.packaged and probe.finds(metric) else ""


def is_plain(metric: str) -> bool:
    """Return True for a matrix product of a dtype for which no matrix units of 16 or 8 bits are used."""
    return required_part(metric) == MATRIX_UNITS and parse(metric).variant in PLAIN


def _excluded(probe: Declaration, sku: Sku) -> bool:
    """Return True if the file declares that no metric of the probe can exist on this SKU."""
    platforms = [platform.limits for platform in sku.platforms.values()]
    limited = [metric for limits in (sku.limits, *platforms) for metric in limits]
    return any(parse(metric).probe in probe.families for metric in sku.not_applicable) and not any(
        parse(metric).probe in probe.families for metric in limited
    )
