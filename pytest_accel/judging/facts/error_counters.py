"""The increase of the devices' error counters during every probe. Pure.

The total of a counter says little about the device's present state; an increase under load does. The interval between
two readings covers one probe call and the pause before it, so that no increase goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from pytest_accel.core.fact_metrics import ERROR_COUNTERS, FACT_METRICS, LINKS, Counter, sane, shared_request
from pytest_accel.core.measurement import Device, Measurement, Trouble
from pytest_accel.core.metric_name import parse
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import CountedEntry
from pytest_accel.judging.facts import inventory


def metrics_of(fact: str) -> tuple[str, ...]:
    """Return the metrics that judge a fact of a device: `inventory.*`, `health.*` and `counters.*`."""
    metrics = [metric for metric, figure in FACT_METRICS.items() if fact in figure.facts]
    counters = [
        f"counters.{name}" for name, counter in ERROR_COUNTERS.items() if fact in (counter.fact, *counter.extras)
    ]
    return (*metrics, *counters)


@dataclass(frozen=True)
class CounterReading:
    """The counters of one device at one moment (`at`, in seconds since the epoch).

    `troubles` has the reason for each counter that could not be read, `failure` the reason if the device did not answer
    at all.
    """

    at: float
    numbers: Mapping[str, int] = field(default_factory=dict)
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    failure: Trouble | None = None


OF_LINKS = frozenset(name for name, counter in ERROR_COUNTERS.items() if counter.fact == LINKS)
"""The counters that are read of the links. Those of NVLinks take long to read: they are read after the probes that
stress links, at the start and at the end, so that their intervals may cover several probes."""


def reading(at: float, facts: Mapping[str, Any], names: Collection[str] = tuple(ERROR_COUNTERS)) -> CounterReading:
    """Return the counters `names` among the facts of a device, as the sensor sends them."""
    if "lost" in facts:
        return CounterReading(at, failure=Trouble("device", f"the device was lost: {facts['lost']}"))
    if "silent" in facts:
        return CounterReading(at, failure=Trouble("need", str(facts["silent"])))
    numbers, troubles = {}, {}
    for name in names:
        counter = ERROR_COUNTERS[name]
        try:
            raw = [facts[counter.fact], *(_besides(facts, extra) for extra in counter.extras)]
            values = [sane(value, counter.unit) for value in raw]
            numbers[name] = sane(counter.total(*values), counter.unit)
        except KeyError as missing:
            fact_names = (counter.fact, *counter.extras)
            fact = missing.args[0] if missing.args[0] in fact_names else f"nvlink_{missing.args[0]}"
            troubles[name] = inventory.missing_fact(facts, fact)
        except (TypeError, ValueError) as error:
            troubles[name] = Trouble("need", f"the value of {counter.fact} cannot be interpreted: {error}")
    return CounterReading(at, numbers, troubles)


def _besides(facts: Mapping[str, Any], name: str) -> Any:
    """Return a fact, None if the device does not have it. Raises KeyError if it has it and could not read it."""
    if name in facts.get("unread", {}):
        raise KeyError(name)
    return facts.get(name)


@dataclass(frozen=True)
class ReadingWindow:
    """The interval between two readings of a device: which probe ran, and which counters increased by how much.

    `failure` has the reason if one of the two readings got no answer.
    """

    during: str
    started: float
    ended: float
    increases: Mapping[str, int] = field(default_factory=dict)
    failure: Trouble | None = None


def _window(during: str, before: CounterReading, after: CounterReading) -> ReadingWindow:
    """Return the window between two readings."""
    increases = {}
    for name, number in after.numbers.items():
        if change := number - before.numbers.get(name, number):
            increases[name] = change if change > 0 else number  # a counter that decreased was reset in between
    increases = {name: change for name, change in increases.items() if change}
    return ReadingWindow(during, before.at, after.at, increases, after.failure or before.failure)


@dataclass
class _Book:
    """The readings of some counters, by UUID, and the windows between them."""

    names: Collection[str]
    newest: dict[str, CounterReading] = field(default_factory=dict)
    """The newest reading; a number that is missing in it is carried over from the one before."""
    first_troubles: dict[str, Mapping[str, Trouble]] = field(default_factory=dict)
    """The troubles of the numbers that are missing in the first reading, whose increase is therefore not known."""
    windows: dict[str, list[ReadingWindow]] = field(default_factory=dict)

    def enter(self, uuid: str, during: str, at: float, facts: Mapping[str, Any]) -> None:
        """Add a reading, and the window since the one before."""
        newest, before = reading(at, facts, self.names), self.newest.get(uuid)
        if before is None:
            self.newest[uuid], self.first_troubles[uuid] = newest, newest.troubles
            return
        self.windows.setdefault(uuid, []).append(_window(during, before, newest))
        if not newest.failure:
            self.newest[uuid] = replace(newest, numbers={**before.numbers, **newest.numbers})


AFTER = "the time after the last probe"


class CounterReadings:
    """The readings of all devices of a run, and the windows between them."""

    def __init__(self) -> None:
        self.readings = 0
        self._asked: dict[str, object] = {}
        """The recovery that the driver asked for at the last reading, by UUID."""
        self._counters = _Book([name for name in ERROR_COUNTERS if name not in OF_LINKS])
        self._links = _Book(OF_LINKS)
        self._since: list[str] = []
        """The metrics that were measured since the links were read."""

    @property
    def windows(self) -> Mapping[str, list[ReadingWindow]]:
        """The windows by UUID, one for each probe; without the counters of the links."""
        return self._counters.windows

    def follow(self, counted: Mapping[str, CountedEntry]) -> None:
        """Count from the last reading of the run before, by UUID: the first window is the time between the two runs."""
        for uuid, entry in counted.items():
            for book in (self._counters, self._links):
                numbers = {name: number for name, number in entry["numbers"].items() if name in book.names}
                book.newest[uuid] = CounterReading(entry["at"], numbers)
                book.first_troubles[uuid] = {}

    @property
    def totals(self) -> dict[str, CountedEntry]:
        """The newest totals of the devices, by UUID."""
        links = self._links.newest
        return {
            uuid: {"at": newest.at, "numbers": {**newest.numbers, **(links[uuid].numbers if uuid in links else {})}}
            for uuid, newest in self._counters.newest.items()
        }

    @property
    def links_stale(self) -> bool:
        """True if something was measured since the links were read."""
        return bool(self._since)

    def enter(
        self,
        at: float,
        during: str,
        answers: Mapping[str, Mapping[str, Any]] | None,
        devices: Iterable[str] = (),
        *,
        links: bool = True,
    ) -> None:
        """Enter the answers of the devices after the probe `during`; None if the sensor did not answer.

        The answers hold the links only with `links`; `during` is empty if no probe ran since the last reading. One of
        `devices` that is not among the answers has vanished.
        """
        self.readings += 1
        absent = {"lost": "the management library no longer lists it"}
        if not answers:  # the library or the sensor may be the reason, so no device is called lost
            answers, absent = {}, {"silent": "the sensor did not answer"}
        self._since += [during] if during else []
        for uuid in dict.fromkeys((*self._counters.newest, *devices, *answers)):
            facts = answers.get(uuid, absent)
            self._asked[uuid] = facts.get("recovery_action")
            self._counters.enter(uuid, during or AFTER, at, facts)
            if links:
                self._links.enter(uuid, ", ".join(dict.fromkeys(self._since)), at, facts)
        if links:
            self._since = []

    def last_window(self, uuid: str) -> ReadingWindow | None:
        """Return the newest window of a device, or None before its second reading.

        Its increases include those of the links' counters, if these were read at its end.
        """
        newest, links = self.windows.get(uuid, [None])[-1], self._links.windows.get(uuid, [None])[-1]
        if newest and links and links.ended == newest.ended:
            return replace(newest, increases={**newest.increases, **links.increases})
        return newest

    def loss(self, uuid: str) -> str | None:
        """Return the reason why the device is lost, by its newest window; None if it is not."""
        window = self.last_window(uuid)
        return window.failure.reason if window and window.failure and window.failure.kind == "device" else None

    def measurement(self, metric: str, device: Device) -> Measurement:
        """Return one metric `counters.*` of one device, over the whole run."""
        name = parse(metric).variant
        book = self._links if name in OF_LINKS else self._counters
        counter, windows = ERROR_COUNTERS.get(name), book.windows.get(device.uuid, [])
        last = book.newest.get(device.uuid)
        if counter is None:
            return _troubled(metric, device, Trouble("need", f"this version knows no counter {name}"))
        if not windows or last is None:
            return _troubled(metric, device, Trouble("need", "no probe ran during which it could have increased"))
        for window in (*self.windows.get(device.uuid, []), *windows):
            if window.failure:
                reason = f"{window.failure.reason}, during {window.during}"
                return _troubled(metric, device, Trouble(window.failure.kind, reason))
        if trouble := last.troubles.get(name) or book.first_troubles[device.uuid].get(name):
            return _troubled(metric, device, trouble)
        actions = self._asked if name == "recovery_asked" else {}
        cause = shared_request(actions.get(device.uuid), [*actions.values()])
        measurement = _judged(metric, device, counter, windows)
        return replace(measurement, notes=(*measurement.notes, Note("disturbed", cause))) if cause else measurement


def _judged(metric: str, device: Device, counter: Counter, windows: Sequence[ReadingWindow]) -> Measurement:
    name = parse(metric).variant
    moving = [window for window in windows if name in window.increases]
    total: float = sum(window.increases[name] for window in moving)
    total, blamed = _worst(name, counter, moving) if counter.per else (total, moving)
    during = ", ".join(dict.fromkeys(window.during for window in blamed))
    return Measurement(
        metric=metric,
        subject=device.uuid,
        unit=counter.unit,
        value=total,
        started=windows[0].started,
        ended=windows[-1].ended,
        notes=(Note("during", during),) if blamed else (),
        details={"windows": [{"during": window.during, "moved": window.increases[name]} for window in moving]},
    )


def _worst(name: str, counter: Counter, moving: Sequence[ReadingWindow]) -> tuple[float, Sequence[ReadingWindow]]:
    """Return the highest rate over any sequence of windows that begins and ends with an increase, and that sequence.

    Probes are much shorter than an hour: a rate from each probe alone would miss errors that are spread over several,
    and a rate from a whole long run would dilute a burst.
    """

    def rate(sequence: Sequence[ReadingWindow]) -> float:
        total = sum(window.increases[name] for window in sequence)
        return counter.value_over(total, sequence[-1].ended - sequence[0].started)

    sequences = [moving[first:last] for first, last in combinations(range(len(moving) + 1), 2)]
    # on a tie the shortest sequence names the probes best
    worst = max(sequences, key=lambda sequence: (rate(sequence), -len(sequence)), default=())
    return (rate(worst), worst) if worst else (0.0, ())


def _troubled(metric: str, device: Device, trouble: Trouble) -> Measurement:
    return Measurement(metric, device.uuid, "", trouble=trouble)
