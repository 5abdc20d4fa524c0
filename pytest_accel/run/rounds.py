"""The rounds of a long run (--accel-hours): all measurements are repeated in their order until the hours are over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.reasons import NothingWorse
from pytest_accel.core.run import SeriesEntry
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import registry
from pytest_accel.judging import rounds as series
from pytest_accel.judging.judge import Attempts
from pytest_accel.judging.rounds import FirstRound, marked
from pytest_accel.probes.request import Request
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.ledger import Ledger
from pytest_accel.run.measuring import Measuring
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.setup import Setup

METRIC = "rounds"
"""The metric of the information that nothing became worse."""
OVER = 300.0
"""Seconds that the last measurement may go on after the hours, if a shorter one can take its place."""

Judged = tuple[str, str, "Limit | None"]
"""Metric, subject and limit of a verdict of the first round."""


@dataclass
class RoundFigure:
    """A measurement of the first round, and what was judged of it."""

    request: Request
    judged: list[Judged] = field(default_factory=list)
    took: float = 0.0
    """The seconds that it took when it was made last; its budget before."""


class Rounds:
    """Repeats the measurements that the tests have asked for, judges them and enters their values into the record."""

    def __init__(
        self,
        setup: Setup,
        pool: WorkerPool,
        deadline: Deadline,
        ledger: Ledger,
        measuring: Measuring,
        *,
        announce: Callable[[str], None],
    ) -> None:
        """`announce` is called with a line of text when a round begins."""
        self._setup, self._pool, self._deadline = setup, pool, deadline
        self._ledger, self._measuring, self._announce = ledger, measuring, announce
        self._asked: dict[tuple[str, str], RoundFigure] = {}
        self._over = False

    def ask(self, request: Request, judged: Sequence[Judged]) -> None:
        """Note a measurement that a test asked for, and what was judged of it."""
        asked = self._asked.setdefault(request.key, RoundFigure(request, took=self._measuring.expected(request)))
        asked.judged += [each for each in judged if each not in asked.judged]

    @property
    def _series(self) -> dict[str, SeriesEntry]:
        return self._ledger.record.rounds["series"]

    @property
    def _hours_left(self) -> float:
        """The seconds until the hours are over."""
        return 3600 * (self._setup.options.hours or 0.0) - self._ledger.elapsed.seconds

    def run(self, between: Callable[[], None]) -> None:
        """Repeat everything until the hours or the time limit of the run are over; a second call does nothing.

        `between` is called after every measurement.
        """
        if self._over or self._setup.options.hours is None:
            return
        self._over = True
        self._enter_first_round()
        self._pool.sensor.telemetry.wait()
        try:
            while self._asked and self._hours_left > 0 and not self._deadline.over:
                place = self._ledger.record.rounds["complete"] + 1
                with self._pool.stage(partial(self._how_far, place)):
                    self._round(place, between)
        finally:
            self._measuring.end_rounds()
            self._ledger.save()

    def _rounds_of(self, asked: RoundFigure) -> int:
        """Return the number of rounds in which a measurement was made."""
        return series.length(self._series, {metric for metric, _ in self._measuring.result(asked.request).attempts})

    def _enter_first_round(self) -> None:
        """Enter the values of the first round, unless the run was resumed after it."""
        for asked in self._asked.values():
            if not self._rounds_of(asked):
                series.enter(self._series, self._measuring.result(asked.request).attempts, 1)
        self._ledger.record.rounds["complete"] = max(1, self._ledger.record.rounds["complete"])

    def _round(self, place: int, between: Callable[[], None]) -> None:
        """Measure what is left of a round. It is complete unless the hours or the time limit end it."""
        self._announce(self._how_far(place))
        self._measuring.begin_round()
        accelerators = {each.uuid for each in self._setup.devices if registry.vendor(each.driver).accelerator}
        compared = {*accelerators, NODE} if accelerators else set()  # other work changes the speed of a processor
        first = FirstRound(self._series, compared, self._ledger.record.run["started"][:10])
        while left := [each for each in self._asked.values() if self._rounds_of(each) < place]:
            if self._hours_left <= 0 or self._deadline.over:
                return
            asked = next((each for each in left if each.took <= self._hours_left + OVER), left[0])
            began = self._ledger.elapsed.seconds
            self._measure(asked, place, first)
            asked.took = self._ledger.elapsed.seconds - began
            between()
        self._ledger.record.rounds["complete"] = place

    def _how_far(self, place: int) -> str:
        """Return how far the run is: "round 3, 2 h 10 min of 72 h, until Thu 18:40", and note it in the record."""
        hours = self._setup.options.hours or 0.0
        minutes = int(self._ledger.elapsed.seconds // 60)
        text = f"round {place}, {minutes // 60} h {minutes % 60} min of {hours:g} h"
        if self._setup.node is None:
            until = datetime.now() + timedelta(seconds=max(0.0, self._hours_left))  # noqa: DTZ005  the reader's clock
            text += f", until {until:%a %H:%M}"
        self._ledger.record.rounds["now"] = text
        return text

    def _measure(self, asked: RoundFigure, place: int, first: FirstRound) -> None:
        """Make one measurement of a round, judge it, and enter its values."""
        result = self._measuring.again(asked.request, first.past_of)
        if self._deadline.over:
            return
        pairs = {(metric, limit and limit.origin): (metric, limit) for metric, _, limit in asked.judged}
        self._measuring.repeat(result, asked.request, list(pairs.values()))
        with self._pool.timeline.on("checks"):
            kept = self._judge(result, asked, place)
            series.enter(self._series, result.attempts, place)
            self._pool.sensor.telemetry.settle(whole=bool(kept))
            self._ledger.add(marked(each, place) for each in kept)
            self._ledger.save()

    def _judge(self, result: Attempts, asked: RoundFigure, place: int) -> list[Measurement]:
        """Judge what was judged in the first round, and return the measurements of verdicts that became worse."""
        kept: dict[tuple[str, str], list[Measurement]] = {}
        for metric, subject, limit in asked.judged:
            result.add_broken(metric, subject)
            verdict = result.judged(metric, subject, limit, self._ledger.record.software)
            if self._ledger.keep_of_round(verdict, place):
                kept[metric, subject] = result.attempts.get((metric, subject), [])
        return [each for attempts in kept.values() for each in attempts]

    def information(self, subject: str) -> Verdict:
        """Return that no verdict on a subject became worse in the later rounds."""
        complete = self._ledger.record.rounds.get("complete", 0)
        reasons = (NothingWorse(complete),)
        return Verdict(METRIC, subject, Status.NOT_APPLICABLE, reasons, unit="count", value=complete)
