"""The declaration of a probe: everything that the rest of the package knows of it.

A probe is declared at its decorator and nowhere else. The checks of threshold files, the budgets, the reasons that stop
a probe, the search for the cause of a shortfall and the simulated node read the declaration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, cached_property
from types import FunctionType
from typing import Any, TypeVar

from pytest_accel.core import units
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import UNITS
from pytest_accel.core.words import did_you_mean

Probe = TypeVar("Probe", bound=Callable[..., Any])
_signature = cache(inspect.signature)  # a threshold file asks a thousand times

RUNS = ("together", "in_turn", "ranks", "nodes", "peers", "facts", "program")
"""Ways to run a probe. "together": on every device at once. "in_turn": made ready at once, and measured on one device
after the other. "ranks": the devices form one process group. "nodes": those of several nodes do, in a network run.
"peers": one process sees all devices. "facts": read by the sensor, not measured. "program": a program of the vendor has
the devices to itself."""

PARTS = ("compute", "memory", "host", "link")
"""Parts of a device that a probe may stress: its units and their clock, its memory, its link to the host, its links to
other devices."""

REQUIRED = (
    "inventory",
    "health",
    "matrix units",
    "memory",
    "host link",
    "peer links",
    "collectives",
    "sustained load",
)
"""Parts of a node that an acceptance requires a limit for. Several probes may measure the same part."""

PEAKS = ("tflops", "memory", "host_link", "peer_link", "peer_links", "port")
"""Figures of the datasheet or the platform that a metric may be a fraction of."""

VERIFIES = ("products", "copies", "stores", "sums")
"""Data that a probe may compare with known values: matrix products, copied data, stored data, sums over all ranks."""

SUSTAINED_WARMUP = 2.0
"""Seconds that a sustained load works before it is sampled, at every level. A device that its power limits lowers its
clock within about a second; the rise of temperature, which takes minutes, is measured by the soak."""
SUSTAINED_SECONDS = 3.0
"""Seconds for which a sustained load is sampled at least, at every level, however precise the mean is before."""

DEFAULT_BUDGETS = {"quick": 2.0, "standard": 5.0, "long": 15.0}
"""Seconds for a probe that declares no budgets."""

ANY = re.compile(r"[^@]+")
"""The variants of a probe that takes any name."""
SIZES = re.compile(units.SIZE)
"""The variants of a probe that takes any size: 8GiB."""

Variants = Sequence[str] | re.Pattern[str]


@dataclass(frozen=True)
class Cost:
    """The rule that gives a simulated node the healthy value of a metric for which the SKU has no figure.

    The value is `share` of `of`, which is the "peak" of the metric, the "link" rate of a device to all its peers, or
    another metric, whose name may hold conditions of the probe ("matmul.{dtype}"). `for_each_link` multiplies it by the
    number of links that a device has in a mesh. `operations` returns the floating-point operations of one call by the
    probe's conditions; a metric in ms is the duration of that many at the rate in TFLOPS.
    """

    of: str
    share: float = 1.0
    for_each_link: bool = False
    operations: Callable[..., float] | None = None

    def counted(self, conditions: Mapping[str, Any]) -> float:
        """Return the operations of a call under the conditions of its probe; 0 where they are not known."""
        if self.operations is None:
            return 0.0
        return self.operations(**{name: conditions[name] for name in _signature(self.operations).parameters})


def _none(device: Any) -> None:
    """Stand for the function of a declaration that decorates none."""


@dataclass(frozen=True)
class Declaration:
    """The declaration of a probe, and the decorator that makes it: `@probe("example.{op}", unit="GB/s", ...)`.

    Args:
        metric: Name of its metric, "PROBE.VARIANT"; it may hold conditions: "stream.{op}".
        unit: Unit of that metric, one of `core.sku_types.UNITS`.
        runs: Way in which the devices take part, one of `RUNS`.
        stresses: Parts of the device that limit it, one or more of `PARTS`, the most important first. A pending repair
            of a part stops its probes; the cause of a shortfall is sought there.
        variants: For each condition in `metric`, the values that exist, or a pattern (`ANY`, `SIZES`). A limit on
            another is refused.
        suite: Metrics that the packaged suite asks for, so that an acceptance has verdicts on them. Default: all names.
        also: Further metrics that it finds, or that are made of what is read while it runs, with their units.
        budgets: Seconds per metric by level, warm-up included; 0: not measured. Default: `DEFAULT_BUDGETS`.
        budgets_of: Budgets of single variants.
        peak: Figure that the metric is a fraction of, one of `PEAKS`.
        method: Function that returns how the main metric is measured, under the conditions that it has parameters for,
            in the words that the source of a limit uses: {"data": "normal(0, 1)", "statistic": "mean"}. The value
            `core.method.AS_FOUND` stands for what only the run knows. A floor whose source states another method is
            refused. Of packaged probes only: limits on those of a user are the user's own.
        derived_floor: Share of the healthy reference that `floor: derived` in a threshold file means.
        sustained: True if the device works without a rest for the whole time, so that its mean clock explains the rate.
            Such a load is sampled for `SUSTAINED_SECONDS` at least, after a warm-up of `SUSTAINED_WARMUP`; a shorter
            budget is prolonged to that.
        required: Part of the node that an acceptance requires a limit for, one of `REQUIRED`, if a limit on a metric of
            this probe is one.
        verifies: Data that it compares with known values, one of `VERIFIES`. Simulated bit flips are injected there.
        cost: Rule for a simulated node's healthy value where the SKU's file has none; by variant if they differ.
        small: Conditions that set how much is allocated or computed, with values small enough for a simulated node.
        node: True if its metrics concern the node and not a device. Always so for ranks.
        within: By level, the name of a probe whose load measures it too, if that has the same conditions: one load for
            both.
        function: The function, which the decorator fills in.
    """

    metric: str
    _: KW_ONLY
    unit: str = ""
    runs: str = "together"
    stresses: Sequence[str] = ()
    variants: Mapping[str, Variants] = field(default_factory=dict)
    suite: Sequence[str] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    budgets: Mapping[str, float] = field(default_factory=lambda: DEFAULT_BUDGETS)
    budgets_of: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    peak: str = ""
    method: Callable[..., Mapping[str, Any]] | None = None
    derived_floor: float | None = None
    sustained: bool = False
    required: str = ""
    verifies: str = ""
    cost: Cost | Mapping[str, Cost] | None = None
    small: Mapping[str, Any] = field(default_factory=dict)
    node: bool = False
    within: Mapping[str, str] = field(default_factory=dict)
    function: Callable[..., Any] = _none

    def __call__(self, function: Probe) -> Probe:
        """Declare a function. Raises TypeError if the declaration lacks something, or no worker could import it."""
        if reason := unusable(function):
            raise TypeError(reason)
        declaration = replace(self, function=function, node=self.node or self.collective)
        label = f"{declaration.location}: probe {declaration.name}"
        if mistakes := [*_wrong_signature(declaration), *_wrong_fields(declaration)]:
            raise TypeError(f"{label}: {'; '.join(mistakes)}")
        if rival := next((candidate for candidate in _DECLARED.values() if _overlap(candidate, declaration)), None):
            raise TypeError(f"{label}: {rival.name} ({rival.location}) finds {self.metric} too")
        _DECLARED[self.metric] = declaration
        finder_of.cache_clear()  # it has answered for metrics that no probe declared until now
        function.accel = declaration  # type: ignore[attr-defined]
        return function

    @property
    def name(self) -> str:
        """The name of the function, by which threshold files set conditions and budgets."""
        return self.function.__name__

    @property
    def location(self) -> str:
        """File and line of the function."""
        return f"{self.function.__code__.co_filename}:{self.function.__code__.co_firstlineno}"

    @property
    def packaged(self) -> bool:
        """True for our own probes, which are the only ones that a SKU's limits speak of."""
        return self.function.__module__.startswith("pytest_accel.probes.")

    @property
    def conditions(self) -> list[str]:
        """The names of its conditions: the parameters after the device."""
        return list(_signature(self.function).parameters)[1:]

    @property
    def fact(self) -> bool:
        """True if the sensor reads it and no worker measures it."""
        return self.runs == "facts"

    @property
    def collective(self) -> bool:
        """True if the devices are ranks of one process group."""
        return self.runs in ("ranks", "nodes")

    @property
    def for_several(self) -> bool:
        """True if the probe needs more than one device."""
        return self.runs in ("ranks", "peers")

    @property
    def forms(self) -> list[str]:
        """The names of its main metric, of which those of any size or fact are left open: "all_reduce.busbw@{size}"."""
        names = [self.metric]
        for key, value in self.variants.items():
            if not isinstance(value, re.Pattern):
                names = [name.replace(f"{{{key}}}", variant) for name in names for variant in value]
        return names

    @property
    def families(self) -> set[str]:
        """The first words of its metrics."""
        return {parse(name).probe for name in self.forms}

    def names(self) -> Iterator[str]:
        """Yield the metrics that the probe can find, as far as they can be listed."""
        yield from (name for name in self.forms if "{" not in name)
        yield from self.also

    def asked(self) -> Iterable[str]:
        """Return the metrics that the packaged suite asks for, as far as they can be listed."""
        return self.suite or self.names()

    def finds(self, metric: str) -> bool:
        """Return whether the probe finds this metric under its packaged conditions."""
        return metric in self.also or bool(self._pattern.fullmatch(metric))

    def stated_by(self, metric: str) -> dict[str, str]:
        """Return the conditions that the name of a metric states; empty for a name of another form."""
        match = self._pattern.fullmatch(metric)
        return match.groupdict() if match else {}

    def unit_of(self, metric: str) -> str | None:
        """Return the unit of a metric, None where the probe does not find it or it is a fact."""
        if metric in self.also:
            return self.also[metric]
        return self.unit if self.unit and self._pattern.fullmatch(metric) else None

    def method_of(self, metric: str, packaged: Mapping[str, Any]) -> dict[str, Any]:
        """Return the method of a metric under the conditions that a threshold file sets, in the file's words.

        Empty for a metric that has none: a fact, a count, and a metric of `also`.
        """
        match = self._pattern.fullmatch(metric) or self._pattern.fullmatch(parse(metric).base)
        if match is None:
            return {}
        conditions, _ = conditions_of(self.function, dict(packaged), match.groupdict())
        return self.method_under(conditions)

    def method_under(self, conditions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the method of the main metric; empty if it declares none. Missing conditions have their defaults."""
        if self.method is None:
            return {}
        settings = {**conditions_of(self.function, {}, {})[0], **conditions}
        return dict(self.method(**{name: settings[name] for name in _signature(self.method).parameters}))

    def variant_of(self, metric: str) -> str:
        """Return the variant of a metric, by which budgets and costs name it: "triad", or for a collective its name."""
        name = parse(metric)
        return name.probe if self.metric.startswith("{") else name.variant

    def cost_of(self, metric: str) -> Cost | None:
        """Return the cost of one metric."""
        return self.cost.get(self.variant_of(metric)) if isinstance(self.cost, Mapping) else self.cost

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The expression that matches the names of its metrics."""
        text = re.escape(self.metric)
        for key, value in self.variants.items():
            expression = value.pattern if isinstance(value, re.Pattern) else "|".join(map(re.escape, value))
            text = text.replace(re.escape(f"{{{key}}}"), f"(?P<{key}>{expression})")
        return re.compile(text)


probe = Declaration
"""The declaration as a decorator."""

_DECLARED: dict[str, Declaration] = {}
"""Declarations by the pattern of the metric. `pytest_accel.probes` imports every packaged probe."""


def _overlap(declaration: Declaration, other: Declaration) -> bool:
    """Return whether two different functions find a common metric, as far as their metrics can be listed."""
    if declaration.location == other.location:
        return False
    overlaps = any(map(declaration.finds, other.names())) or any(map(other.finds, declaration.names()))
    return overlaps or declaration.metric == other.metric


def unusable(function: Any) -> str | None:
    """Return why a function cannot be a probe, or None."""
    if not isinstance(function, FunctionType):
        exists = any(declaration.packaged and declaration.name == function for declaration in declarations())
        kind, mend = type(function).__name__, f"write probes.{function}" if exists else "write one that calls it"
        return f"a probe is a function at the top of a module, not an object of type {kind}; {mend}"
    # a worker imports a probe by its module and its name
    if function.__qualname__ != function.__name__ or function.__name__ == "<lambda>":
        code, mend = function.__code__, "define it at the top of a module, for the workers"
        return f"{code.co_filename}:{code.co_firstlineno}: {function.__qualname__} cannot be a probe: {mend}"
    return None


def _wrong_signature(declaration: Declaration) -> Iterator[str]:
    """Yield the mistakes in the parameters of the function, which have to fit the declaration."""
    if not _signature(declaration.function).parameters:
        yield "it has no parameter; the first one is the device"
    method = _signature(declaration.method).parameters if declaration.method else ()
    conditions = re.findall(r"{(\w+)}", declaration.metric)
    for name in dict.fromkeys([*conditions, *declaration.variants, *declaration.small, *method]):
        if name not in declaration.conditions:
            yield f"it has no condition {name}, which its declaration names"


def _wrong_fields(declaration: Declaration) -> Iterator[str]:
    """Yield the mistakes in the fields of the declaration."""
    fields: list[tuple[str, Iterable[str], Sequence[str]]] = [("runs", [declaration.runs], RUNS)]
    if not declaration.fact:
        for name in re.findall(r"{(\w+)}", declaration.metric):
            if name not in declaration.variants:
                yield f"variants={{{name!r}: ...}} is missing: the values that exist, or ANY"
        fields += [
            ("unit", [declaration.unit, *declaration.also.values()], UNITS),
            ("stresses", declaration.stresses or [""], PARTS),
            ("peak", [declaration.peak], ("", *PEAKS)),
            ("verifies", [declaration.verifies], ("", *VERIFIES)),
        ]
    fields.append(("required", [declaration.required], ("", *REQUIRED)))
    for name, values, choices in fields:
        for value in values:
            if value not in choices:
                mistake = f"{name} {value!r} is not known" if value else f"{name} is missing"
                yield f"{mistake}: one of {', '.join(filter(None, choices))}"
    for budgets in (declaration.budgets, *declaration.budgets_of.values()):
        if set(budgets) != set(LEVELS) or min(budgets.values()) < 0:
            yield f"budgets {dict(budgets)}: needs seconds for each of {', '.join(LEVELS)}"
    if declaration.derived_floor is not None and not 0 < declaration.derived_floor < 1:
        yield f"derived_floor {declaration.derived_floor:g} is no share between 0 and 1"


def declaration_for(function: Callable[..., Any]) -> Declaration:
    """Return the declaration of a probe. A function without one names its metric and runs on all devices together."""
    declaration = getattr(function, "accel", None)
    return declaration if isinstance(declaration, Declaration) else Declaration(function.__name__, function=function)


def declarations() -> list[Declaration]:
    """Return the declarations of all probes that were imported."""
    return list(_DECLARED.values())


@cache
def finder_of(metric: str) -> Declaration | None:
    """Return the declaration of the probe that finds exactly this metric, or None."""
    return next((declaration for declaration in _DECLARED.values() if declaration.finds(metric)), None)


def declaration_of(metric: str) -> Declaration | None:
    """Return the declaration that speaks for a metric, or None.

    It is that of the probe that finds it, under packaged conditions or others, else that of the first probe whose
    metrics begin with the same word.
    """
    family = parse(metric).probe
    relatives = (declaration for declaration in _DECLARED.values() if family in declaration.families)
    return finder_of(metric) or finder_of(parse(metric).base) or next(relatives, None)


def unit_of(metric: str) -> str | None:
    """Return the unit of a metric that a declared probe finds, None for facts and for everything else."""
    declaration = finder_of(metric)
    return declaration.unit_of(metric) if declaration else None


def known_metrics() -> list[str]:
    """Return the metrics that probes measure, as far as they can be listed."""
    return [name for declaration in declarations() if not declaration.fact for name in declaration.names()]


def conditions_of(
    function: Callable[..., Any], packaged: dict[str, Any], overrides: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Return the conditions that a probe will run under, and whether they are the packaged ones.

    `packaged` (of the SKU) override the probe's own defaults, `overrides` (by the test) override both. They stay the
    packaged ones as long as `overrides` only fills what the metric's name says. Raises TypeError for a condition
    that the probe does not have.
    """
    __tracebackhide__ = True
    parameters = list(_signature(function).parameters.values())[1:]  # those after the device
    free = any(param.kind is param.VAR_KEYWORD for param in parameters)
    names = [param.name for param in parameters if param.kind is not param.VAR_KEYWORD]
    unknown_names = [name for name in overrides if name not in names]
    if unknown_names and not free:
        hint = f"{did_you_mean(unknown_names[0], names)} (it has: {', '.join(names)})"
        raise TypeError(f"{function.__name__} has no condition {unknown_names[0]!r}{hint}")
    defaults = {param.name: param.default for param in parameters if param.default is not param.empty}
    standard = {**defaults, **{key: value for key, value in packaged.items() if key in names}}
    conditions = {**standard, **overrides}
    metric = declaration_for(function).metric
    return conditions, all("{" + key + "}" in metric or standard.get(key) == value for key, value in overrides.items())
