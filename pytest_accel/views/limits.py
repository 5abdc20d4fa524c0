"""docs/limits.md as text: how each metric is measured, and whether each limit tells healthy parts from short ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.method import AS_FOUND, words
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.verdict import Status, show
from pytest_accel.judging.judge import judge
from pytest_accel.probes.declare import Declaration, conditions_of, declaration_of, declarations
from pytest_accel.skus import loader, requirements
from pytest_accel.skus.methods import method_of

SHORT = 0.9
"""The share of its healthy rate that a part which is 10 % short reaches."""
HEAD = (
    "Made by `scripts/limits.py` from the threshold files and the declarations of the probes. A test keeps it so.",
    "",
    "A limit **rejects** if its source measured by the method of our probe, and **advises** otherwise: broken, it is",
    "MARGINAL, or INCONCLUSIVE more than 15 % below the lowest healthy figure, unless a floor of its class rejects.",
    "[verdicts.md](verdicts.md#effect-and-basis) has the rule. A limit that rejects with stated versions of the",
    "software advises with all others.",
)


@dataclass(frozen=True)
class Told:
    """A limit with the verdicts that healthy parts get by it, and parts that lost 10 %.

    `healthy` are the verdicts on the lowest and the highest healthy figure, `short` those on 0.9 of them.
    """

    metric: str
    platform: str
    limit: Limit
    healthy: tuple[Status, Status]
    short: tuple[Status, Status]

    @property
    def overlap(self) -> str:
        """What the limit cannot tell apart, empty if it rejects every short part and no healthy one."""
        if self.limit.differs:
            return f"not known: {self.limit.why_advises or 'measured by another method'}"
        if Status.FAIL in self.healthy:
            return "rejects healthy parts"
        passing = [status for status in self.short if status.holds]
        return ["", "the best parts pass when 10 % short", "parts pass when 10 % short"][len(passing)]

    @property
    def width(self) -> float:
        """0.9 of the highest healthy figure as a multiple of the floor: above 1, such a part passes."""
        return SHORT * _range(self.limit)[1] / (self.limit.floor or 1)


def told(sku: Sku) -> list[Told]:
    """Return every limit of a SKU with a floor and a healthy figure that a level requires, on every platform."""
    places: list[tuple[str, Mapping[str, Limit]]] = [("all", sku.limits)]
    places += [(platform.name, platform.limits) for platform in sku.platforms.values()]
    return [
        Told(metric, place, limit, _verdicts(limit, 1.0), _verdicts(limit, SHORT))
        for place, limits in places
        for metric, limit in limits.items()
        if limit.floor and limit.reference and limit.levels and not limit.relative
    ]


def _range(limit: Limit) -> tuple[float, float]:
    return limit.healthy or (limit.reference or 0.0, limit.reference or 0.0)


def _verdicts(limit: Limit, share: float) -> tuple[Status, Status]:
    lowest, highest = (_judged(limit, share * value) for value in _range(limit))
    return lowest, highest


def _judged(limit: Limit, value: float) -> Status:
    """Return the status that the judge gives to a value without noise."""
    conditions = {"ranks": limit.conditions["ranks"]} if "ranks" in limit.conditions else {}
    found = Measurement(limit.metric, "", limit.unit, value, (value,) * 3, conditions=conditions)
    return judge([found], limit).status


def page() -> str:
    """Return the whole page in Markdown."""
    skus = [sku for sku in loader.load_shipped() if told(sku)]
    lines = ["# Limits and methods", "", *HEAD, "", "## Methods of the probes", "", *_methods(), ""]
    lines += ["## What can be accepted against", "", *_readiness(skus), ""]
    for sku in skus:
        lines += [f"## {sku.name}", "", *_table(COLUMNS, [_row(each) for each in told(sku)]), ""]
    return "\n".join(lines)


COLUMNS = ("metric", "platform", "levels", "floor", "healthy", "broken", "healthy part", "10 % short", "overlap")


def _row(each: Told) -> Sequence[str]:
    limit, (low, high) = each.limit, _range(each.limit)
    healthy = show(low, limit.unit) if low == high else f"{low:.10g} to {high:.10g} {limit.unit}"
    return (
        f"`{each.metric}`",
        each.platform,
        " ".join(limit.levels),
        show(limit.floor, limit.unit),
        healthy,
        _effect(limit),
        _both(each.healthy),
        _both(each.short),
        each.overlap,
    )


def _effect(limit: Limit) -> str:
    """Return what breaking a limit does, with the versions on which it rejects."""
    if limit.advises:
        return limit.effect
    versions = " and ".join(f"{name} {text}" for name, text in limit.software.items())
    return f"rejects with {versions}" if versions else "rejects"


def _both(statuses: tuple[Status, Status]) -> str:
    return " to ".join(dict.fromkeys(status.value for status in statuses))


def _methods() -> list[str]:
    packaged = [each for each in declarations() if each.method and each.packaged]
    metrics = [metric for each in packaged for metric in [*each.names()] or [_usual(each)] if metric not in each.also]
    rows = [(metric, method_of(metric, {})) for metric in metrics]
    return _table(("metric", "method"), list(_alike(rows)))


def _usual(declared: Declaration) -> str:
    """Return the metric under the probe's own conditions, for a probe whose metrics cannot be listed."""
    conditions, _ = conditions_of(declared.function, {}, {})
    return declared.metric.format(**conditions)


def _alike(rows: Sequence[tuple[str, Mapping[str, object]]]) -> Iterator[tuple[str, str]]:
    """Yield a row for each method, with all metrics that are measured by it."""
    groups: dict[str, list[str]] = {}
    for metric, method in rows:
        text = ", ".join(
            f"{words(key)} {'(of the run)' if value == AS_FOUND else value}" for key, value in method.items()
        )
        groups.setdefault(text, []).append(f"`{metric}`")
    yield from ((", ".join(metrics), text) for text, metrics in groups.items())


def _readiness(skus: Sequence[Sku]) -> list[str]:
    rows = []
    for sku in skus:
        for platform in sku.platforms.values():
            whys = {level: _why_unfit(sku, platform, level) for level in ("quick", "standard")}
            answers = ["yes" if why is None else "no" for why in whys.values()]
            lacks = list(dict.fromkeys(filter(None, whys.values())))
            rows.append((f"`{sku.name}`", platform.name, *answers, *_counts(sku, platform), "; ".join(lacks)))
    return _table(("SKU", "platform", "quick", "standard", "reject", "advise", "what is lacking"), rows)


def _why_unfit(sku: Sku, platform: Platform, level: str) -> str | None:
    """Return why the file cannot be used for an acceptance, without the words that every row would repeat."""
    why = requirements.unfit(sku, platform, level)
    return why and why.replace(f"{sku.name} has ", "").replace(f" at level {level}", "")


def _counts(sku: Sku, platform: Platform) -> tuple[str, str]:
    """Return how many limits on rates reject, and how many advise."""
    limits = [
        each
        for each in requirements.applying(sku.limits_on(platform), sku, platform).values()
        if each.levels and each.required and (declared := declaration_of(each.metric)) and not declared.fact
        and method_of(each.metric, sku.probes)
    ]  # fmt: skip
    advising = sum(bool(each.differs) for each in limits)
    return str(len(limits) - advising), str(advising)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
