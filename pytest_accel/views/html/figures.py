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
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Comparison, Status, Verdict, show
from pytest_accel.judging.causes.findings import Finding, Key
from pytest_accel.judging.causes.peer_matrix import SHORT, fastest
from pytest_accel.judging.closing.parts import spanned
from pytest_accel.run.record import names_of
from pytest_accel.views.html.words import KINDS, badge, bounds_of, is_fact, together, why


def kind(record: Run) -> str:
    """Return the name of the colour of a result: that of an acceptance with a remark is not that of one without."""
    found = KINDS.get(record.result, "not-judged")
    remarked = any(each.status is Status.MARGINAL or each.waiver for each in record.verdicts)
    return "marginal" if found == "pass" and remarked else found  # as the closing line in the terminal


class PageVerdicts:
    """The verdicts of a record in the order and the groups of the page, with what a template looks up for each."""

    def __init__(self, record: Run) -> None:
        self.names = names_of(record)
        stated = (verdict.limit for verdict in record.verdicts if verdict.limit)
        self.limits = list({(limit.metric, limit.origin): limit for limit in stated}.values())
        """Every limit once."""
        shown = [each for each in record.verdicts if each.information or each.status is not Status.NOT_APPLICABLE]
        self.measured = worst_first([each for each in shown if not is_fact(each.metric)])
        """What was measured or should have been, worst first."""
        self._record = record
        self._anchors = {verdict.key: f"v{place}" for place, verdict in enumerate(record.verdicts)}
        self._places = {(limit.metric, limit.origin): place for place, limit in enumerate(self.limits)}
        self._devices = len(record.devices)

    def facts(self) -> list[list[Verdict]]:
        """Return the verdicts on facts and counters, worst first; devices with the same value and verdict together."""
        facts = [each for each in worst_first(self._record.verdicts) if is_fact(each.metric)]
        shown = [each for each in facts if each.information or each.status is not Status.NOT_APPLICABLE]
        alike = grouped(shown, lambda each: (each.metric, badge(each), str(each.value), bounds_of(each), why(each)))
        return list(alike.values())

    def findings(self, found: Mapping[Key, Finding]) -> dict[str, dict[str, list[Verdict]]]:
        """Return what fails or is marginal, worst first, by device and by cause: its fault code, or else its sentence.

        What was not measured because of an earlier failure of the device belongs to the cause of that failure.
        """
        devices: dict[str, dict[str, list[Verdict]]] = {}
        for each in worst_first(self._record.verdicts):
            if each.fails or each.status is Status.MARGINAL:
                causes, finding = devices.setdefault(each.culprit, {}), found.get(each.key)
                left_out = next(iter(causes), "") if each.event == LEFT_OUT else ""
                causes.setdefault(left_out or (finding.title if finding else sentence_of(each)), []).append(each)
        return devices

    def devices(self) -> list[tuple[Device, Verdict | None]]:
        """Return the devices, the worst first, each with the worst verdict that fails on it."""
        failing = grouped((one for one in worst_first(self._record.verdicts) if one.fails), lambda one: one.culprit)
        known = {device.uuid: device for device in self._record.devices}
        order = [uuid for uuid in dict.fromkeys((*failing, *known)) if uuid in known]
        return [(known[uuid], next(iter(failing.get(uuid, ())), None)) for uuid in order]

    def missing(self) -> tuple[str, Verdict] | None:
        """Return which devices were expected and not found ("gpu5", or "1 of 8"), and the verdict that says why.

        A device has its name if it left a gap among the others, which the library then knows.
        """
        said = {each.metric: each for each in self._record.verdicts if each.fails}
        count = said.get("inventory.count")
        found, expected = (finite(count.value), finite(count.expected)) if count else (None, None)
        if not found or not expected or found >= expected or not self._record.devices:
            return None
        last = max(self._record.devices, key=lambda each: each.index)
        gaps = [name for place in range(last.index) if (name := f"{last.called}{place}") not in self.names.values()]
        name = spanned(gaps) if len(gaps) == expected - found else f"{expected - found:g} of {expected:g}"
        return name, said.get("inventory.driver") or said["inventory.count"]

    def deciding(self) -> list[Verdict]:
        """Return the worst verdict by each floor that a value was held against; of facts, failures."""
        judged = [each for each in worst_first(self._record.verdicts) if each.limit and each.value is not None]
        shown = [each for each in judged if each.fails or (each.basis and each.decides and not is_fact(each.metric))]
        return [group[0] for group in grouped(shown, lambda each: each.metric).values()]

    def waived(self) -> list[list[Verdict]]:
        """Return the verdicts that a waiver covers, those of each waiver together."""
        waived = [each for each in self._record.verdicts if each.waiver]
        return list(grouped(waived, lambda each: repr(each.waiver)).values())

    def not_applicable(self) -> list[list[Verdict]]:
        """Return the verdicts on what does not apply, those with the same reason together."""
        without = [
            each for each in self._record.verdicts if each.status is Status.NOT_APPLICABLE and not each.information
        ]
        return list(grouped(without, sentence_of).values())

    def on(self, verdicts: Sequence[Verdict]) -> str:
        """Return the names of the devices that verdicts are on."""
        return together(self.named(verdicts), self._devices)

    def named(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Return the names of the subjects of verdicts, each once."""
        return list(dict.fromkeys(self.names[each.subject] for each in verdicts))

    def status(self, measured: Measurement) -> str:
        """Return the status of the first verdict on a metric of a device, empty if there is none."""
        found = (each for each in self._record.verdicts if each.metric == measured.metric)
        return next((badge(each).word for each in found if each.subject == measured.subject), "")

    def anchor(self, verdict: Verdict) -> str:
        """Return the name of the row of a verdict."""
        return self._anchors[verdict.key]

    def place(self, limit: Limit) -> int:
        """Return the place of a limit among all limits."""
        return self._places[limit.metric, limit.origin]

    def compared(self, comparison: Comparison | None) -> tuple[str, float | None, str]:
        """Return how far a verdict is behind its neighbours or its past, as a text, a number and a note."""
        if comparison is None:
            return "", None, ""
        ahead, since = comparison.lost < 0, comparison.since
        told = f"{abs(comparison.lost):.1%} {'ahead' if ahead else 'behind'}"
        middle = show(comparison.middle, "")
        if since is None:
            clock = " at its clock" * comparison.at_clock
            return told, -comparison.lost, f"median of {comparison.count}{clock}: {middle}"
        differs = "".join(f", {name} was {then}" for name, (then, _) in comparison.differs.items())
        return told, -comparison.lost, f"{since} run of {comparison.day}: {middle}{differs}"


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
    found = []
    sent = [each for each in record.measurements if each.details.get("row")]
    for metric, senders in grouped(sent, lambda each: each.metric).items():
        newest = {each.subject: each for each in senders}
        rates = {
            (names[subject], receiver): rate
            for subject, each in newest.items()
            for receiver, value in each.details.get("row", {}).items()
            if (rate := finite(value)) is not None
        }
        known = {name for pair in rates for name in pair}
        order = [name for name in names.values() if name in known]
        found.append(Matrix(metric, senders[0].unit, [*order, *sorted(known - set(order))], rates))
    return found
