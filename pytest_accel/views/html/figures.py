"""Parts of the page that templates look up: the result, the verdicts in order, the matrix of peer copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import LEFT_OUT, Device, Measurement, Names, finite
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Comparison, Status, Verdict, show
from pytest_accel.judging.causes.findings import Finding, Key
from pytest_accel.judging.causes.peer_matrix import SHORT, fastest
from pytest_accel.judging.closing.parts import as_ranges
from pytest_accel.run.record import names_of
from pytest_accel.views.html.report_words import KINDS, badge, bounds_of, is_fact, why
from pytest_accel.views.table import applies


def kind(record: Run) -> str:
    """Return the name of the colour of a result: that of an acceptance with a remark is not that of one without."""
    name = KINDS.get(record.result, "not-judged")
    remarked = any(verdict.status is Status.MARGINAL or verdict.waiver for verdict in record.verdicts)
    return "marginal" if name == "pass" and remarked else name  # as the closing line in the terminal


class PageVerdicts:
    """The verdicts of a record in the order and the groups of the page, with what a template looks up for each."""

    def __init__(self, record: Run) -> None:
        self.names = names_of(record)
        limits = (verdict.limit for verdict in record.verdicts if verdict.limit)
        self.limits = list({(limit.metric, limit.origin): limit for limit in limits}.values())
        """Every limit once."""
        self._verdicts = worst_first(record.verdicts)
        self._applicable = list(filter(applies, self._verdicts))
        self.measured = [verdict for verdict in self._applicable if not is_fact(verdict.metric)]
        """The verdicts on what was measured or should have been, worst first."""
        self._record = record
        self._anchors = {verdict.key: f"v{index}" for index, verdict in enumerate(record.verdicts)}
        self._positions = {(limit.metric, limit.origin): index for index, limit in enumerate(self.limits)}
        self._devices = len(record.devices)

    def facts(self) -> list[list[Verdict]]:
        """Return the verdicts on facts and counters, worst first; devices with the same value and verdict together."""
        facts = [verdict for verdict in self._applicable if is_fact(verdict.metric)]
        return list(grouped(facts, _row).values())

    def findings(self, findings: Mapping[Key, Finding]) -> dict[str, dict[str, list[Verdict]]]:
        """Return the failures and marginal verdicts, worst first, by device and by cause: fault code, or else sentence.

        What was not measured because of an earlier failure of the device belongs to the cause of that failure.
        """
        devices: dict[str, dict[str, list[Verdict]]] = {}
        for verdict in self._verdicts:
            if verdict.fails or verdict.status is Status.MARGINAL:
                causes, finding = devices.setdefault(verdict.culprit, {}), findings.get(verdict.key)
                left_out = next(iter(causes), "") if verdict.event == LEFT_OUT else ""
                causes.setdefault(left_out or (finding.title if finding else sentence_of(verdict)), []).append(verdict)
        return devices

    def devices(self) -> list[tuple[Device, Verdict | None]]:
        """Return the devices, the worst first, each with the worst verdict that fails on it."""
        failing = grouped((verdict for verdict in self._verdicts if verdict.fails), lambda verdict: verdict.culprit)
        by_uuid = {device.uuid: device for device in self._record.devices}
        order = [uuid for uuid in dict.fromkeys((*failing, *by_uuid)) if uuid in by_uuid]
        return [(by_uuid[uuid], next(iter(failing.get(uuid, ())), None)) for uuid in order]

    def missing(self) -> tuple[str, Verdict] | None:
        """Return the devices that were expected and not found ("gpu5", or "1 of 8"), and the verdict with the reason.

        A device has its name if it left a gap among the others, which the library then knows.
        """
        failures = {verdict.metric: verdict for verdict in self._record.verdicts if verdict.fails}
        count = failures.get("inventory.count")
        number, expected = (finite(count.value), finite(count.expected)) if count else (None, None)
        if not number or not expected or number >= expected or not self._record.devices:
            return None
        last = max(self._record.devices, key=lambda device: device.index)
        gaps = [name for index in range(last.index) if (name := f"{last.called}{index}") not in self.names.values()]
        name = as_ranges(gaps) if len(gaps) == expected - number else f"{expected - number:g} of {expected:g}"
        return name, failures.get("inventory.driver") or failures["inventory.count"]

    def deciding(self) -> list[Verdict]:
        """Return the worst verdict by each floor that a value was held against; of facts, failures."""
        judged = [verdict for verdict in self._verdicts if verdict.limit and verdict.value is not None]
        judged = [one for one in judged if one.fails or (one.basis and one.decides and not is_fact(one.metric))]
        return [group[0] for group in grouped(judged, lambda verdict: verdict.metric).values()]

    def waived(self) -> list[list[Verdict]]:
        """Return the verdicts that a waiver covers, those of each waiver together."""
        verdicts = [verdict for verdict in self._record.verdicts if verdict.waiver]
        return list(grouped(verdicts, lambda verdict: repr(verdict.waiver)).values())

    def not_applicable(self) -> list[list[Verdict]]:
        """Return the verdicts on what does not apply, those with the same reason together."""
        verdicts = [verdict for verdict in self._record.verdicts if not applies(verdict)]
        return list(grouped(verdicts, sentence_of).values())

    def on(self, verdicts: Sequence[Verdict]) -> str:
        """Return the names of the devices that verdicts are on, such as "gpu0, gpu2 to gpu7", or "all 8" of several."""
        names = self.named(verdicts)
        return f"all {len(names)}" if 2 < self._devices == len(names) else as_ranges(names)

    def named(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Return the names of the subjects of verdicts, each once."""
        return list(dict.fromkeys(self.names[verdict.subject] for verdict in verdicts))

    def status(self, measurement: Measurement) -> str:
        """Return the status of the first verdict on a metric of a device, empty if there is none."""
        verdicts = (verdict for verdict in self._record.verdicts if verdict.metric == measurement.metric)
        return next((badge(verdict).word for verdict in verdicts if verdict.subject == measurement.subject), "")

    def anchor(self, verdict: Verdict) -> str:
        """Return the name of the row of a verdict."""
        return self._anchors[verdict.key]

    def position(self, limit: Limit) -> int:
        """Return the position of a limit among all limits."""
        return self._positions[limit.metric, limit.origin]

    def compared(self, comparison: Comparison | None) -> tuple[str, float | None, str]:
        """Return the distance of a verdict from its neighbours or its past, as a text, a number and a note."""
        if comparison is None:
            return "", None, ""
        ahead, since = comparison.lost < 0, comparison.since
        text = f"{abs(comparison.lost):.1%} {'ahead' if ahead else 'behind'}"
        middle = show(comparison.middle, "")
        if since is None:
            clock = " at its clock" * comparison.at_clock
            return text, -comparison.lost, f"median of {comparison.count}{clock}: {middle}"
        differs = "".join(f", {name} was {value}" for name, (value, _) in comparison.differs.items())
        return text, -comparison.lost, f"{since} run of {comparison.day}: {middle}{differs}"


def _row(verdict: Verdict) -> tuple[object, ...]:
    """Return the cells of a fact's row; devices with the same ones share a row."""
    return verdict.metric, badge(verdict), str(verdict.value), bounds_of(verdict), why(verdict)


# -- the matrix of peer copies as a heat map: a table whose cells are tinted. Pure


STEPS = 8
"""The number of tints."""
DARKEST = 0.5
"""The fraction of the fastest pairs at which the tint is the strongest."""


@dataclass(frozen=True)
class Matrix:
    """The rates of one metric by pair of devices, from and to; none in the diagonal and where no rate is known."""

    metric: str
    unit: str
    names: list[str]
    rates: Mapping[tuple[str, str], float]

    @cached_property
    def fastest(self) -> float:
        """The rate of the fastest pairs."""
        return fastest(self.rates) if self.rates else 0.0

    def share(self, rate: float) -> float:
        """Return a rate as a fraction of that of the fastest pairs."""
        return rate / self.fastest if self.fastest > 0 else 0.0

    def short(self) -> int:
        """Return the number of pairs that are slower than the others."""
        return sum(self.share(rate) < SHORT for rate in self.rates.values())


def tint(share: float) -> int:
    """Return the tint of a fraction of the fastest pairs: 0 for these, STEPS for half of it and less."""
    return round(STEPS * min(1.0, max(0.0, (1 - share) / (1 - DARKEST))))


def matrices(record: Run, names: Names) -> list[Matrix]:
    """Return a matrix for each metric of peer copies, from the newest measurement of every sender."""
    result = []
    rows = [measurement for measurement in record.measurements if measurement.details.get("row")]
    for metric, senders in grouped(rows, lambda measurement: measurement.metric).items():
        newest = {measurement.subject: measurement for measurement in senders}
        rates = {
            (names[subject], receiver): rate
            for subject, measurement in newest.items()
            for receiver, value in measurement.details.get("row", {}).items()
            if (rate := finite(value)) is not None
        }
        devices = {name for pair in rates for name in pair}
        order = [name for name in names.values() if name in devices]
        result.append(Matrix(metric, senders[0].unit, [*order, *sorted(devices - set(order))], rates))
    return result
