"""The table of a run: a row for each verdict that one has to see, one line for what is as expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import LEFT_OUT, NODE, Names, finite
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.sentences import bounds, headline, limit_of, note_of, sentence_of
from pytest_accel.core.sku_types import DELIVERY, DeclaredBy, Limit
from pytest_accel.core.verdict import Status, Verdict, margin_of, show
from pytest_accel.core.words import and_more, counted, listed
from pytest_accel.judging.causes.findings import Finding, Key
from pytest_accel.judging.closing.parts import as_ranges
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus.readiness import READ, required_part
from pytest_accel.views.terminal import COLOURS, Line

FACTS = ("inventory.", "health.")
COUNTERS = "counters."
HOST = ("host.", "host_counters.")
FEW = 2
"""Up to this number of devices, each has a row of its own for every metric, unless these are more than `MOST_ROWS`."""
MOST_IN_COLUMN = 40
"""Characters of the longest text in the column of values."""
MOST_ROWS = 30
"""Number of rows above which devices share rows and metrics without a limit are counted."""
MOST_MARGINAL = 3
"""Number of rows of marginal limits of a device."""
LISTED = 3
"""Number of metrics that a line about several metrics names."""
HEAD = ("status", "device", "metric", "value", "of peak", "limit", "margin")
OF_PEAK = HEAD.index("of peak")
"""The column that is left out if no row has a value in it."""
FLUSH_RIGHT = range(HEAD.index("value"), len(HEAD))
"""The columns with numbers."""


@dataclass(frozen=True)
class Layout:
    """The detail of a table's cells, for terminals of different widths."""

    units: bool = True
    """True for limits with units and words: "class floor 1187 TFLOPS" instead of ">= 1187"."""
    ranges: bool = True
    """True for devices of one row that show the range of their values, and not the weakest value alone."""
    published: bool = True
    """True for published figures beside the values."""
    of_peak: bool = True
    gap: str = "  "
    """The text between columns and before the mark of the slowest device. With one space INCONCLUSIVE is cut short."""


LAYOUTS = (
    Layout(),
    Layout(published=False),
    Layout(published=False, units=False),
    Layout(published=False, units=False, ranges=False),
    Layout(published=False, units=False, ranges=False, of_peak=False),
    Layout(published=False, units=False, ranges=False, of_peak=False, gap=" "),
)
"""Widest first. The first whose lines fit is used."""


def table(
    verdicts: Sequence[Verdict],
    names: Names,
    findings: Mapping[Key, Finding] = MappingProxyType({}),
    *,
    full: bool = False,
    width: int | None = None,
) -> list[Line]:
    """Return the table, with the worst rows first, and lines with notes below it.

    "<" marks the slowest device of a metric. What falls short on one device with one fault code of `findings` shares a
    row, which counts it ("+2"); so do failures without a value that have one cause, and facts that are the same on
    several devices. Rows of one device are together. Unless `full` is set, several devices that pass the same limit
    share a row as well, with the weakest device and the range of values, and of the marginal limits of one of several
    devices only the worst `MOST_MARGINAL` have a row. Metrics without a limit have a row where nothing else judges
    their part of the node. The cells are shortened as far as the columns of the terminal, `width`, require.
    """
    verdicts = named_by_test(verdicts)
    visible = list(filter(applies, verdicts))
    if not visible:
        return []
    devices = len({verdict.subject for verdict in verdicts} - {NODE})
    slowest = _slowest(visible)
    expected = [] if full else list(filter(_as_expected, visible))
    visible = [verdict for verdict in visible if verdict not in expected]
    several = not full and (devices > FEW or len(visible) > MOST_ROWS)
    groups = _groups(worst_first(visible), several=several, full=full)
    judged = {required_part(verdict.metric) for verdict in visible if verdict.limit}
    informing = [
        group
        for group in groups
        if several and group[0].information and required_part(group[0].metric) in {"", *READ, *judged}
    ]
    none_counted = [group for group in groups if not full and _counts_nothing(group)]
    rows = [group for group in groups if group not in informing and group not in none_counted]
    extra: dict[Key, int] = {}
    if not full:
        rows, extra = _by_cause(rows, findings)
    if several:
        rows = _without_further_marginal(rows)
    lines = _Rows(rows, slowest, names, devices, extra).lines(width)
    lines += _marginal(worst_first(visible), names, full=full)
    lines += _notes(visible, names)
    for verdict in worst_first(visible):
        if waiver := verdict.waiver:
            granted = f"by {waiver.by}, until {waiver.until}, {waiver.origin}"
            lines.append((f"waived: {names[verdict.subject]} {verdict.metric}: {waiver.reason} ({granted})", "yellow"))
    lines += _legend(visible, marked=any(group[0] in slowest for group in rows))
    silent = [verdict for verdict in verdicts if verdict not in visible and verdict not in expected]
    lines += _expected(expected, len(none_counted), devices)
    return lines + (not_applicable(silent) if full else [])


def applies(verdict: Verdict) -> bool:
    """Return True for a verdict on what applies to its device, and for information."""
    return verdict.information or verdict.status is not Status.NOT_APPLICABLE


def _legend(verdicts: Sequence[Verdict], *, marked: bool) -> list[Line]:
    """Return the lines that explain the signs of the rows, as far as a row has them."""
    lines = ["<: the weakest device of the metric; +N: N more limits with the same cause"] * marked
    spread = any(verdict.next_run for verdict in verdicts)
    lines += ["+-: the next run on the same device differs by at most this much in 95 % of cases"] * spread
    return [(line, "") for line in lines]


def _without_further_marginal(groups: Sequence[list[Verdict]]) -> list[list[Verdict]]:
    """Return the groups without those of a subject's marginal verdicts that follow its worst `MOST_MARGINAL`."""
    marginal = [group[0] for group in groups if group[0].status is Status.MARGINAL]
    left_out = [verdict for group in _by_subject(marginal) for verdict in group[MOST_MARGINAL:]]
    return [group for group in groups if not any(verdict is group[0] for verdict in left_out)]


def _by_subject(verdicts: Iterable[Verdict]) -> Iterable[list[Verdict]]:
    return grouped(verdicts, lambda verdict: verdict.subject).values()


def _marginal(verdicts: Sequence[Verdict], names: Names, *, full: bool) -> list[Line]:
    """Return the sentence of the worst marginal verdict of every subject; of all marginal verdicts if `full`.

    Of a subject that fails, the marginal verdicts without a row are counted: what fails matters more.
    """
    failing = {verdict.subject for verdict in verdicts if verdict.fails}
    marginal = [verdict for verdict in verdicts if verdict.status is Status.MARGINAL]
    groups = [[verdict] for verdict in marginal] if full else _by_subject(marginal)
    lines = []
    for group in groups:
        first, name = group[0], names[group[0].subject]
        if full or first.subject not in failing:
            text = sentence_of(first) if full else headline(first)
            lines.append((f"marginal: {name} {first.metric}: {text}{and_more(group)}", "yellow"))
        elif len(group) > MOST_MARGINAL:
            lines.append((f"marginal: {name}: {len(group) - MOST_MARGINAL} more (-v lists them)", "yellow"))
    return lines


def _notes(verdicts: Sequence[Verdict], names: Names) -> list[Line]:
    """Return a line for each metric of which some value is below every published one, with the lowest of them."""
    noted = [verdict for verdict in verdicts if verdict.note and not verdict.fails]
    lines = []
    for metric, group in grouped(noted, lambda verdict: verdict.metric).items():
        lowest = min(group, key=lambda verdict: finite(verdict.value) or 0.0)
        devices = as_ranges([names[verdict.subject] for verdict in group])
        lines.append((f"note: {devices} {metric} {show(lowest.value, lowest.unit)}, {note_of(lowest)}", ""))
    return lines


def _as_expected(verdict: Verdict) -> bool:
    """Return True for a fact that passes without a waiver, and for an error counter that did not count."""
    fact = verdict.metric.startswith((*FACTS, *HOST)) or (verdict.metric.startswith(COUNTERS) and not verdict.value)
    return fact and verdict.status is Status.PASS and not verdict.waiver


# -- the lines below the rows


def _expected(verdicts: Sequence[Verdict], at_zero: int, devices: int) -> list[Line]:
    """Return one line for all facts that pass and for the number of metrics that are `at_zero`, since there are dozens.

    Facts that only some devices pass are named.
    """
    passing = grouped(verdicts, lambda verdict: verdict.metric)
    partly = [
        f"{metric} on {len(group)}"
        for metric, group in passing.items()
        if len(group) < devices and NODE not in {verdict.subject for verdict in group}
    ]
    kinds = [
        kind.rstrip(".") for kind in (*FACTS, *HOST, COUNTERS) if any(metric.startswith(kind) for metric in passing)
    ]
    facts = f"{', '.join(kinds)}: {counted(len(passing) - len(partly), 'fact')} as expected" if verdicts else ""
    zero = f"{counted(at_zero, 'metric')} at 0" if at_zero else ""
    facts += f" on {counted(devices, 'device')}" if facts and devices else ""
    text = "; ".join(filter(None, (", ".join(filter(None, (facts, listed(partly, LISTED)))), zero)))
    return [(f"{text} (-v lists them)", COLOURS[Status.PASS])] if verdicts or at_zero else []


def _counts_nothing(group: Sequence[Verdict]) -> bool:
    """Return True for a metric that is 0 and may not be above: errors, or seconds of a slowdown."""
    passes = all(verdict.status is Status.PASS and not verdict.waiver and verdict.value == 0 for verdict in group)
    return passes and group[0].floor is None and group[0].expected in (None, 0)


def not_applicable(verdicts: Sequence[Verdict]) -> list[Line]:
    """Return a line for each reason why metrics are not applicable."""
    sentences: dict[str, str] = {}
    for verdict in verdicts:
        sentences.setdefault(verdict.metric, sentence_of(verdict))
    reasons = grouped(sentences, sentences.__getitem__)
    return [(f"not applicable: {', '.join(metrics)}: {reason}", "") for reason, metrics in reasons.items()]


# -- the rows


@dataclass(frozen=True)
class _Rows:
    """The rows of the table, and the lines that they make in one layout or another."""

    groups: Sequence[Sequence[Verdict]]
    slowest: Sequence[Verdict]
    names: Names
    devices: int
    extra: Mapping[Key, int]

    def lines(self, width: int | None) -> list[Line]:
        """Return the table in the widest layout that fits into `width` columns."""
        if not self.groups:
            return []
        layout = next((layout for layout in LAYOUTS if self._fits(layout, width)), LAYOUTS[-1])
        lines = self._lines(layout)
        colours = ["yellow" if group[0].waiver else COLOURS.get(group[0].status, "") for group in self.groups]
        body = [(text, colour) for (_, text), colour in zip(lines[1:], colours, strict=True)]
        return [(lines[0][1], "bold"), *body]

    def _fits(self, layout: Layout, width: int | None) -> bool:
        """Return True if no line of figures is longer than `width`. A sentence is broken where it is written."""
        figures = [text for group, text in self._lines(layout) if not _has_no_value(group[0])]
        return width is None or all(len(text) <= width for text in figures)

    def _lines(self, layout: Layout) -> list[tuple[Sequence[Verdict], str]]:
        """Return the groups with their lines; the first line is the head."""
        cells = [list(HEAD), *(self._cells(group, layout) for group in self.groups)]
        figures = [row for row in cells if len(row) == len(HEAD)]
        columns = [
            column for column in range(len(HEAD))
            if column != OF_PEAK or (layout.of_peak and any(row[OF_PEAK] for row in figures[1:]))
        ]  # fmt: skip
        widths = [
            max(len(row[column]) for row in (cells if column < HEAD.index("metric") else figures)) for column in columns
        ]
        texts = [_joined(row, columns, widths, layout.gap) for row in cells]
        return list(zip([self.groups[0], *self.groups], texts, strict=True))

    def _cells(self, group: Sequence[Verdict], layout: Layout) -> list[str]:
        """Return the cells of a group's row: one for each column, or status, device and a sentence."""
        verdict = group[0]
        status = "info" if verdict.information else verdict.status.value + (" waived" if verdict.waiver else "")
        status = status.replace("INCONCLUSIVE", "INCONCL.") if layout.gap == " " else status
        if _has_no_value(verdict):
            return [status, self._members(group), _cause(group, self.extra.get(verdict.key, 0))]
        return [
            status,
            self._device_cell(group, layout),
            verdict.metric + (f" +{self.extra[verdict.key]}" if verdict.key in self.extra else ""),
            self._values(group, layout),
            _shares(group if layout.ranges else group[:1]),
            limit_of(verdict) if layout.units else _short_limit(verdict),
            margin_of(verdict),
        ]

    def _values(self, group: Sequence[Verdict], layout: Layout) -> str:
        """Return the text of the column "value": "691 TFLOPS; published 676 to 730"."""
        published = published_of(group[0].limit) if layout.published else ""
        values = _values(group) if layout.ranges else _values(group[:1], bare=True)
        return "; ".join(filter(None, (values, published)))

    def _device_cell(self, group: Sequence[Verdict], layout: Layout) -> str:
        """Return the text of the column "device" of figures: "gpu3 <", "gpu0, gpu1", "all 8, gpu3 <" or "5 of 8"."""
        mark = f"{layout.gap[1:]}<" if group[0] in self.slowest else ""
        if len(group) == 1 or not _is_figure(group[0]):
            return self._members(group) + mark * (len(group) == 1)
        weakest = f", {self._name(group[0])}{mark}" if group[0].margin != group[-1].margin else ""
        count = f"all {self.devices}" if len(group) == self.devices else f"{len(group)} of {self.devices}"
        return f"{count}{weakest}" if layout.ranges else f"{len(group)}/{self.devices}{weakest.replace(',', '')}"

    def _members(self, group: Sequence[Verdict]) -> str:
        """Return the devices of a group: "gpu0, gpu1", "all 8", or "5 of 8" if they do not fail."""
        members = list(dict.fromkeys(self._name(verdict) for verdict in group))
        if 1 < self.devices == len(members):
            return f"all {len(members)}"
        if len(members) <= FEW or group[0].status.fails:
            return as_ranges(members)
        return f"{len(members)} of {self.devices}"

    def _name(self, verdict: Verdict) -> str:
        return self.names[verdict.subject]


def _joined(row: Sequence[str], columns: Sequence[int], widths: Sequence[int], gap: str) -> str:
    """Return a row as a line, its cells in columns of these widths; a sentence takes what follows the device."""
    if len(row) < len(HEAD):
        return gap.join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])
    cells = [
        row[column].rjust(width) if column in FLUSH_RIGHT and row is not HEAD else row[column].ljust(width)
        for column, width in zip(columns, widths, strict=True)
    ]
    return gap.join(cells).rstrip()


def _has_no_value(verdict: Verdict) -> bool:
    """Return True for a failure whose value is missing, not judged or in many words: its row tells the reason."""
    words = isinstance(verdict.value, str) and len(verdict.value) > MOST_IN_COLUMN
    return verdict.status is Status.UNMEASURED or (verdict.status.fails and (verdict.value is None or words))


def _cause(group: Sequence[Verdict], extra: int) -> str:
    """Return the metrics of failures with one cause, and the cause: "20 limits not measured: the worker ..."."""
    metrics, last = list(dict.fromkeys(verdict.metric for verdict in group)), group[-1]
    if extra:
        return f"{listed([*metrics, *extra * ['']], 1)}: {sentence_of(last)}"
    if last.event == LEFT_OUT and len(metrics) > 1:
        colon = "" if last.reasons[0].kind == "left_out" else ":"
        return f"{len(metrics)} limits{colon} {sentence_of(last)}"
    return f"{listed(metrics, 1)}: {sentence_of(last)}"


def _groups(verdicts: Sequence[Verdict], *, several: bool, full: bool) -> list[list[Verdict]]:
    """Return the verdicts in groups that share a row.

    A group holds equal facts, failures without a value that have one cause, or, if there are `several` devices,
    verdicts on one limit that pass or have no limit.
    """

    def shared(verdict: Verdict) -> tuple[object, ...]:
        if _has_no_value(verdict) and not full:
            return sentence_of(verdict), verdict.status, verdict.waiver
        passes = (verdict.status is Status.PASS or verdict.information) and not verdict.waiver
        fact = verdict.metric.startswith(FACTS) and not verdict.status.fails
        key: tuple[object, ...] = (str(verdict.value), str(verdict.expected))
        if passes and several:
            key = (_limit_of_all(verdict.limit), *(() if _is_figure(verdict) else key))
        elif not fact:
            key = (*key, verdict.key)
        return verdict.metric, verdict.status, *key

    return list(grouped(verdicts, shared).values())


def _by_cause(
    groups: Sequence[list[Verdict]], findings: Mapping[Key, Finding]
) -> tuple[list[list[Verdict]], dict[Key, int]]:
    """Return the groups with one for each cause on a device, and the number of verdicts that each stands for besides.

    The numbers are by the key of the first verdict of a group.

    What was not measured because of an earlier failure of the device belongs to the cause of that failure; otherwise
    its cause is what was lacking. Groups of one device are together, where its worst is.
    """
    causes: dict[tuple[str, str, str], list[Verdict]] = {}
    codes: dict[str, str] = {}
    extra: dict[Key, int] = {}
    rows: list[list[Verdict]] = []
    for group in groups:
        first, culprits = group[0], {verdict.culprit for verdict in group}
        finding = findings.get(first.key)
        if finding is None or first.waiver or len(culprits) > 1:
            rows.append(group)
            continue
        code = finding.code if first.event != LEFT_OUT else codes.get(first.culprit, finding.code)
        codes.setdefault(first.culprit, code)
        lacks = sentence_of(first) if first.status is Status.UNMEASURED and first.event != LEFT_OUT else ""
        row = causes.setdefault((first.culprit, code, lacks), group)
        if row is group:
            rows.append(group)
        else:
            extra[row[0].key] = extra.get(row[0].key, 0) + len(group)
    positions = {row[0].culprit: position for position, row in reversed(list(enumerate(rows))) if row[0].status.fails}
    return sorted(rows, key=lambda row: positions[row[0].culprit] if row[0].status.fails else len(rows)), extra


def _limit_of_all(limit: Limit | None) -> object:
    """Return the common part of the limits of several devices: origin, or the test function and bounds of a marker."""
    if limit is None or limit.declared_by is not DeclaredBy.MARKER:
        return limit and limit.origin
    return limit.test.partition("[")[0], limit.floor, limit.ceiling


def _is_figure(verdict: Verdict) -> bool:
    """Return True for a measured number, False for a fact."""
    number = finite(verdict.value) is not None
    return number and verdict.expected is None and not verdict.metric.startswith(FACTS)


def _slowest(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return, for each metric on which several devices differ, the verdict with the smallest margin."""
    weakest: dict[tuple[str, str], Verdict] = {}
    for verdict in worst_first(verdicts):
        if verdict.margin is not None:
            weakest.setdefault((verdict.metric, verdict.subject), verdict)
    groups = grouped(weakest.values(), lambda verdict: verdict.metric)
    ranked = [sorted(group, key=lambda verdict: verdict.margin or 0.0) for group in groups.values()]
    return [group[0] for group in ranked if group[0].margin != group[-1].margin]


# -- the cells


def next_run(verdict: Verdict) -> str:
    """Return the largest distance of the next run's value, as a share of this one: "1.2%"; empty if not known."""
    value = finite(verdict.value)
    if verdict.next_run is None or not value:
        return ""
    return f"{(verdict.next_run[1] - value) / abs(value):.1%}"  # the lower end may be cut off at 0


def _values(group: Sequence[Verdict], *, bare: bool = False) -> str:
    """Return the value with its unit, or the range of values of a group; `bare` omits the interval of the next run."""
    first = group[0]
    if first.value is None:
        return ""
    if len(group) == 1 or not _is_figure(first):
        interval = "" if bare else next_run(first)
        return show(first.value, first.unit) + (interval and f" +-{interval}")
    values = [float(verdict.value or 0) for verdict in group]
    low, high = show(min(values), ""), show(max(values), "")
    return show(max(values), first.unit) if low == high else f"{low} to {show(max(values), first.unit)}"


def _shares(group: Sequence[Verdict]) -> str:
    """Return the share of the peak, or the range of shares of a group; empty if there is no peak."""
    shares = [verdict.of_peak for verdict in group if verdict.of_peak is not None]
    if not shares:
        return ""
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low[:-1]} to {high}"


def published_of(limit: Limit | None) -> str:
    """Return the figures that others published for the metric of a limit: "published 676 to 730"; empty without any."""
    figure = limit.published if limit else None
    if figure is None:
        return ""
    if figure.highest is None:
        return f"published bar {show(figure.lowest, '')}"
    ends = dict.fromkeys((show(figure.lowest, ""), show(figure.highest, "")))
    return f"published {' to '.join(ends)}"


def demanded(limit: Limit, unit: str, writer: Callable[[float, str], str] = show) -> str:
    """Return the demands of a limit on a value; `writer` writes a figure with its unit."""
    parts = [f"= {limit.equals}"] if limit.equals is not None else []
    parts += [f"one of {', '.join(map(str, limit.one_of))}"] if limit.one_of else []
    parts += [limit.version] if limit.version is not None else []
    group = "nodes of the delivery" if limit.same_on_all == DELIVERY else "devices"
    parts += [f"the same on all {group}"] if limit.same_on_all else []
    figures = ("at least", limit.floor), ("at most", limit.ceiling), ("warn past", limit.warn)
    parts += [f"{word} {writer(figure, unit)}" for word, figure in figures if figure is not None]
    parts += [f"{limit.warn_per_kelvin:g} more per K of warming"] if limit.warn_per_kelvin else []
    parts += ["with a second sign"] if limit.second_sign else []
    parts += [f"{name} {bound:g} at {level}" for level, limits in limit.at.items() for name, bound in limits.items()]
    return ", ".join(parts)


def _short_limit(verdict: Verdict) -> str:
    """Return the bounds without unit, which is that of the value; of a comparison the largest distance."""
    comparison = verdict.failing_comparison
    return f"{comparison.allowed:.1%} behind" if comparison else bounds(verdict, "", ">=", "<=", " ")


# -- names for the verdicts of a user's own probes, where several tests would show the same metric


def named_by_test(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with the name of the test as metric, where several tests judge a metric of a user's probe.

    The metric of such a probe is the name of its function, which two files may share. A test is named with its file
    if another file has one of the same name.
    """
    tests = {(verdict.metric, test) for verdict in verdicts if (test := _own_test(verdict))}
    sharing = Counter(metric for metric, _ in tests)
    functions = Counter(_function(test) for test in {test for _, test in tests})
    return [
        replace(verdict, metric=test if functions[_function(test)] > 1 else _function(test))
        if (test := _own_test(verdict)) and sharing[verdict.metric] > 1
        else verdict
        for verdict in verdicts
    ]


def _own_test(verdict: Verdict) -> str:
    """Return the test whose marker limits a metric of a user's probe, "test_a.py::test_b"; empty for other verdicts."""
    limit = verdict.limit
    if limit is None or limit.declared_by is not DeclaredBy.MARKER or declaration_of(verdict.metric):
        return ""
    return limit.test.partition("[")[0]


def _function(test: str) -> str:
    return test.rpartition("::")[2]
