"""Centre, spread and floor of each metric from the figures of known-good devices. Pure.

Values are in the unit of their metric, deviations are fractions of the value. All estimates are robust: a median in
place of a mean, and 1.4826 times the median absolute deviation in place of a standard deviation.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from pytest_accel.core.floor import MARGINAL_WITHIN
from pytest_accel.core.measurement import is_rate
from pytest_accel.core.stats import student_above
from pytest_accel.core.words import counted
from pytest_accel.judging.verdicts.distance import OF_MEDIAN, RULES, Reference, distance
from pytest_accel.judging.verdicts.history import ENOUGH_RUNS, OF_NORMAL, VARYING, deviation_of_runs, key_of
from pytest_accel.judging.verdicts.like_devices import family_of, part_of
from pytest_accel.skus import requirements
from pytest_accel.skus.lint.limits import LOOSE, LOOSE_OTHERWISE, TIGHT

REJECTED = 1e-4
"""The chance that a healthy device is rejected by one verdict, before the repeat of a shortfall."""
WARNED = 1e-3
"""The same for being past the warning limit."""
ENOUGH = {"memory": 3, "host": 3, "link": 3, "compute": 4}
"""The least number of devices by the part that a metric stresses. Rates of memory and links are set by clock and width;
products follow power and temperature, and differ by several percent."""
ONE_NODE = RULES["neighbours"]["peer links"].fail_losses[-1]
"""The share by which a figure of a whole node, such as a collective, may be short of the only one that is known: what
is allowed for links whose spread nobody stated."""
EFFICIENCY = 0.37
"""The share of the degrees of freedom that the median absolute deviation keeps of those of a standard deviation (P. J.
Rousseeuw and C. Croux, J. Am. Stat. Assoc. 88, 1993)."""
SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""The factor by which the deviation of n values is too small on average; n / (n - 0.8) above 9 (C. Croux and P. J.
Rousseeuw, COMPSTAT 1992)."""
OF_PEAK = "of peak"
"""The unit of a figure whose limit is a fraction of its peak."""
DIGITS = 5
"""Significant digits of a figure."""


@dataclass(frozen=True)
class GoodFigure:
    """One figure of one device, or of a whole node, in one run.

    `device` and `node` are unique among all readings. `conditions` are those of the measurement. `source` is the record
    that it was read from.
    """

    metric: str
    unit: str
    value: float
    device: str
    node: str
    conditions: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    @property
    def key(self) -> str:
        """The key of the figure, the same from run to run (`judging.verdicts.history.key_of`)."""
        return key_of(self.metric, self.unit, self.conditions)

    @property
    def of_node(self) -> bool:
        """True if the figure is that of a whole node."""
        return requirements.of_node(self.metric)


@dataclass(frozen=True)
class CalibrationOutlier:
    """A device, or a node, that is left out: `deviations` robust standard deviations from the `centre`."""

    device: str
    metric: str
    unit: str
    value: float
    centre: float
    deviations: float
    source: str
    """The record that is nearest to the value."""
    other_metrics: tuple[str, ...] = ()
    """Other metrics in which it is an outlier, too."""


@dataclass(frozen=True)
class Spreads:
    """Standard deviations as fractions of the value, each with its degrees of freedom; None where one is not known."""

    devices: float | None = None
    nodes: float | None = None
    runs: float | None = None
    freedom: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The deviation of one run of any device of any node."""
        return math.hypot(*(part or 0.0 for part in (self.devices, self.nodes, self.runs)))

    def prediction(self) -> tuple[float, float]:
        """Return the deviation of one run of another device from the centre, and its degrees of freedom.

        The degrees of freedom are those of Welch and Satterthwaite (Biometrics Bulletin 2, 1946), at least one.
        """
        parts = {"devices": self.devices, "nodes": self.nodes, "runs": self.runs}
        variances = [(part**2, self.freedom[name]) for name, part in parts.items() if part]
        total = sum(variance for variance, _ in variances)
        if not total:
            return 0.0, math.inf
        # the centre is itself estimated, so each variance counts (1 + 1 / n) times
        scale = math.sqrt(sum(variance * (1 + 1 / (freedom + 1)) for variance, freedom in variances))
        return scale, max(1.0, total**2 / sum(variance**2 / (EFFICIENCY * freedom) for variance, freedom in variances))


@dataclass(frozen=True)
class CalibratedMetric:
    """The figures of known-good devices in one metric, and the limit that follows.

    `bound` is a floor for a rate and a ceiling for a time; `warn` lies between it and the healthy values.
    `deviations` is the distance of the bound from the centre in standard deviations, and `bound_basis` what set it.
    """

    metric: str
    unit: str
    conditions: Mapping[str, Any]
    centre: float
    spreads: Spreads
    healthy: tuple[float, float]
    devices: int
    nodes: int
    runs: int
    """Runs of the devices in all."""
    most_runs: int
    """Runs of the device with the most of them."""
    bound: float
    warn: float
    deviations: float
    bound_basis: str

    @property
    def rate(self) -> bool:
        """True for a floor."""
        return more_is_better(self.unit)


@dataclass(frozen=True)
class Calibration:
    """The metrics that were calibrated, the devices that were left out, and why metrics have no result."""

    metrics: Sequence[CalibratedMetric]
    outliers: Sequence[CalibrationOutlier]
    skipped_metrics: Mapping[str, str]
    figures: Sequence[GoodFigure] = ()
    """The readings that the figures rest on."""


def more_is_better(unit: str) -> bool:
    """Return True for a rate, or a rate as a fraction of a peak."""
    return is_rate(unit) or unit == OF_PEAK


def calibrate(readings: Sequence[GoodFigure], *, processors: bool = False) -> Calibration:
    """Return the calibration of every metric by the readings of known-good devices, in the order of the runs.

    Of `processors`, runs of one machine are enough: their speed follows the other work of the machine, so that it
    differs from run to run more than from one half of the machine to the other. Its halves are no sample of devices, so
    the difference between them counts as one between runs.
    """
    by_metric, left_out = _of_one_method(readings)
    outliers = _outliers(by_metric)
    outlier_devices = {outlier.device for outlier in outliers}
    metrics, good = [], []
    for metric, figures in by_metric.items():
        healthy = [figure for figure in figures if figure.device not in outlier_devices]
        reason = too_few_runs(healthy) if processors else too_few(metric, healthy)
        if reason:
            left_out[metric] = reason
            continue
        metrics.append(_calibrated(healthy, processors=processors))
        good += healthy
    return Calibration(metrics, outliers, left_out, good)


def too_few(metric: str, readings: Iterable[GoodFigure]) -> str | None:
    """Return the reason why the readings are too few for a limit on a metric, None if they are enough (`ENOUGH`)."""
    devices = {figure.device for figure in readings}
    needed = 1 if requirements.of_node(metric) else ENOUGH.get(part_of(metric), ENOUGH["compute"])
    return None if len(devices) >= needed else f"{counted(len(devices), 'device')}, at least {needed} are needed"


def too_few_runs(readings: Iterable[GoodFigure]) -> str | None:
    """Return the reason why readings of processors are too few for a limit, None if they are enough (`ENOUGH_RUNS`)."""
    runs = max(Counter(figure.device for figure in readings).values(), default=0)
    return None if runs >= ENOUGH_RUNS else f"{counted(runs, 'undisturbed run')}, at least {ENOUGH_RUNS} are needed"


def _of_one_method(readings: Iterable[GoodFigure]) -> tuple[dict[str, list[GoodFigure]], dict[str, str]]:
    """Return the readings by metric, and the metrics that were measured by several methods with what differs."""
    by_metric: dict[str, list[GoodFigure]] = defaultdict(list)
    for figure in readings:
        by_metric[figure.metric].append(figure)
    left_out = {}
    for metric, figures in list(by_metric.items()):
        methods = {figure.key: figure for figure in figures}
        if len(methods) > 1:
            left_out[metric] = f"mixed methods: {differing(list(methods.values()))}"
            del by_metric[metric]
    return dict(by_metric), left_out


def differing(readings: Sequence[GoodFigure]) -> str:
    """Return the differences of the methods of readings, each value with one source: "seconds 7.0 (a), 300.0 (b)"."""
    settings = [({"unit": figure.unit, **figure.conditions}, figure.source) for figure in readings]
    texts = []
    for name in dict.fromkeys(name for setting, _ in settings for name in setting):
        values = {str(setting.get(name, "not stated")): source for setting, source in settings}
        if len(values) > 1 and name not in VARYING:
            texts.append(f"{name} {', '.join(f'{value} ({source})' for value, source in values.items())}")
    return "; ".join(texts)


def _series(readings: Iterable[GoodFigure]) -> dict[tuple[str, str], list[float]]:
    """Return the values of every device in the order of its runs, by node and device."""
    series: dict[tuple[str, str], list[float]] = defaultdict(list)
    for figure in readings:
        series[figure.node, figure.device].append(figure.value)
    return series


def deviation(values: Sequence[float], centre: float | None = None) -> float:
    """Return the robust standard deviation of values, about their median or a `centre`. Two values at least."""
    middle, n = median(values) if centre is None else centre, len(values)
    return float(SMALL_SAMPLE.get(n, n / (n - 0.8)) * OF_NORMAL * median(abs(value - middle) for value in values))


# -- outliers


def _outliers(by_metric: Mapping[str, Sequence[GoodFigure]]) -> list[CalibrationOutlier]:
    """Return each device that is an outlier in some metric, by the metric in which it is the farthest."""
    by_device: dict[str, list[CalibrationOutlier]] = defaultdict(list)
    for readings in by_metric.values():
        for outlier in _outliers_of(readings):
            by_device[outlier.device].append(outlier)
    outliers = []
    for group in by_device.values():
        first, *others = sorted(group, key=lambda outlier: -outlier.deviations)
        outliers.append(replace(first, other_metrics=tuple(sorted(outlier.metric for outlier in others))))
    return outliers


def _outliers_of(readings: Sequence[GoodFigure]) -> list[CalibrationOutlier]:
    """Return the devices whose median is too far from that of all devices to be healthy.

    The devices of one node are neighbours, without a spread that was known before. Those of several nodes are held
    against their own spread. Too fast is as far as too slow.
    """
    first, series = readings[0], _series(readings)
    middles = {device: median(values) for (_, device), values in series.items()}
    if len(middles) < 3:
        return []
    centre = median(middles.values())
    spread = deviation(list(middles.values())) / centre
    reference = Reference("neighbours", centre, len(middles))
    if len({node for node, _ in series}) > 1:
        freedom = max(1.0, EFFICIENCY * (len(middles) - 1))
        reference = Reference("known good", centre, len(middles), spread, freedom=freedom)
    outliers = []
    for device, value in middles.items():
        loss = distance(value, first.unit, family_of(first.metric, first.unit), reference)
        if loss and abs(loss.loss) > loss.allowed_loss:
            figures = [figure for figure in readings if figure.device == device]
            source = min(figures, key=lambda figure: abs(figure.value - value)).source
            deviations = abs(loss.loss) / spread if spread else math.inf
            outliers.append(CalibrationOutlier(device, first.metric, first.unit, value, centre, deviations, source))
    return outliers


# -- one metric


def _calibrated(readings: Sequence[GoodFigure], *, processors: bool) -> CalibratedMetric:
    """Return centre, spread and limit of one metric of healthy devices."""
    first, series = readings[0], _series(readings)
    middles = {key: median(values) for key, values in series.items()}
    centre = float(median(middles.values()))
    values = [figure.value for figure in readings]
    spreads = spreads_of({("", ""): values} if processors else series, centre)
    low, high = _rounded(min(values), up=False), _rounded(max(values), up=True)
    nodes = len({node for node, _ in series})
    bound, warn, reason = _limit(first.unit, centre, spreads, (low, high), alone=first.of_node and nodes == 1)
    return CalibratedMetric(
        metric=first.metric,
        unit=first.unit,
        conditions=first.conditions,
        centre=centre,
        spreads=spreads,
        healthy=(low, high),
        devices=len(middles),
        nodes=nodes,
        runs=len(readings),
        most_runs=max(map(len, series.values())),
        bound=bound,
        warn=warn,
        deviations=abs(bound / centre - 1) / spreads.total if spreads.total else math.inf,
        bound_basis=reason,
    )


def spreads_of(series: Mapping[tuple[str, str], Sequence[float]], centre: float) -> Spreads:
    """Return the deviations between devices of a node, between nodes, and between runs, as fractions of the value.

    `series` are the values of every device, by node and device. A device is its median over runs. Where devices were
    measured once, the deviation between runs is part of that between devices.
    """
    runs = deviation_of_runs(series.values())
    changes = sum(len(values) - 1 for values in series.values())
    nodes: dict[str, list[float]] = defaultdict(list)
    for (node, _), values in series.items():
        nodes[node].append(median(values) / centre)
    groups = [group for group in nodes.values() if len(group) > 1]
    freedom: dict[str, float] = {}
    devices, between_nodes = None, None
    if groups:
        # residuals about a median of few values are too short on average
        scaled = [(group, math.sqrt(len(group) / (len(group) - 1))) for group in groups]
        residuals = [(middle - median(group)) * scale for group, scale in scaled for middle in group]
        devices = deviation(residuals, 0.0)
        freedom["devices"] = len(residuals) - len(groups)
    if len(nodes) > 1:
        observed = deviation([median(group) for group in nodes.values()]) ** 2
        typical = median(len(group) for group in nodes.values())
        of_devices = OF_MEDIAN * devices**2 / typical if devices and typical > 1 else 0.0
        between_nodes = math.sqrt(max(0.0, observed - of_devices))
        freedom["nodes"] = len(nodes) - 1
    if runs is not None:
        freedom["runs"] = changes
        # the median over the runs of a device holds a part of the deviation between runs, which counts only once
        each_device = runs**2 / median(map(len, series.values()))
        if devices:
            devices = math.sqrt(max(0.0, devices**2 - each_device))
        elif between_nodes and devices is None:
            between_nodes = math.sqrt(max(0.0, between_nodes**2 - each_device))
    return Spreads(devices, between_nodes, runs, freedom)


def _limit(
    unit: str, centre: float, spreads: Spreads, healthy: tuple[float, float], *, alone: bool = False
) -> tuple[float, float, str]:
    """Return the limit of a metric, its warning limit, and the reason for the limit.

    `alone` says that one node alone has the figure.

    The limit is so far from the centre that a healthy device is rejected with the chance `REJECTED`. It never rejects a
    healthy value, nor lies nearer to the centre, or farther from the healthy values, than lint asks for.
    """
    scale, freedom = spreads.prediction()
    sign = -1 if more_is_better(unit) else 1
    healthy_end = healthy[0] if sign < 0 else healthy[1]
    apart, warned = (student_above(chance, freedom) * scale for chance in (REJECTED, WARNED))
    set_by = f"{REJECTED:g} of healthy devices"
    if alone:
        apart, warned = ONE_NODE, ONE_NODE - 1.05 * MARGINAL_WITHIN
        set_by = "one node alone, whose like nobody measured"
    outer = min if sign < 0 else max
    warn = outer(centre * max(0.0, 1 + sign * warned), healthy_end)
    # so that devices on the good side of the warning limit are not within 2 % of the limit, which would be MARGINAL
    beyond = 1 + 1.05 * MARGINAL_WITHIN
    candidates = {
        set_by: centre * max(0.0, 1 + sign * apart),
        "the warning limit": warn * beyond**sign,
        f"{1 - TIGHT:.0%} from the centre, as lint asks": centre * (TIGHT - 0.001) ** -sign,
    }
    # the farthest from the centre: all of the conditions hold for it
    reason, bound = outer(candidates.items(), key=lambda candidate: candidate[1])
    slack = LOOSE if is_rate(unit) else LOOSE_OTHERWISE
    loosest = healthy_end * (slack + 0.001) ** -sign
    if (bound - loosest) * sign > 0:
        bound = loosest
        reason = f"{slack:g} of the healthy values, as lint asks: too few devices for a limit by their spread"
    rounded = _rounded(bound, up=sign > 0)
    nearer = max if sign < 0 else min
    return rounded, _rounded(nearer(warn, rounded * beyond**-sign), up=sign > 0), reason


def _rounded(value: float, *, up: bool) -> float:
    """Return a positive value with `DIGITS` significant digits, rounded up or down."""
    if not value > 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    number = value / step
    steps = math.ceil(number - 1e-9) if up else math.floor(number + 1e-9)
    return float(f"{steps * step:.{DIGITS + 2}g}")
