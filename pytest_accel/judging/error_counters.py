"""Error counters of the devices before and after every probe: what moved, during which probe. Pure.

A counter that stands at 7 says little about today; one that moves while we load the device says all. Between two
readings lies one go at a probe and the pause before it, so that nothing moves unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import Device, Measurement, Trouble
from pytest_accel.core.metrics import parse
from pytest_accel.judging import inventory

MINUTE, HOUR = 60.0, 3600.0
INACTIVE = "inactive"
"""The state of a link that is down, which counts nothing."""


@dataclass(frozen=True)
class Counter:
    """One counter: the fact that it is read from, and how. `per` seconds make it a rate, over no less than those."""

    fact: str
    read: Callable[[Any], int] = int
    unit: str = "count"
    per: float = 0.0

    def over(self, moved: int, seconds: float) -> float:
        """How far it went; of a rate, in `per` seconds, a shorter time being taken for that long."""
        return moved * self.per / max(self.per, seconds) if self.per else moved


def _links(*names: str) -> Callable[[Any], int]:
    """The sum over all NVLinks. Raises KeyError if none has such a counter, or one that is up has not said its own:
    a sum without it would look like a counter that was reset."""

    def total(links: Sequence[Mapping[str, Any]]) -> int:
        errors = [each.get("errors", {}).items() for each in links]
        said = [[inventory.sane(count, "count") for name, count in each if name in names] for each in errors]
        up = [counts for each, counts in zip(links, said, strict=True) if each.get("state", INACTIVE) != INACTIVE]
        if not any(said) or not all(up):
            raise KeyError(names[0])
        return sum(map(sum, said))

    return total


XGMI = ("none", "error", "multiple errors")
"""What an AMD part says of its links to its peers since it was asked last."""

ERROR_COUNTERS = {
    "ecc_uncorrectable": Counter("ecc_uncorrectable_volatile"),
    "ecc_corrected": Counter("ecc_correctable_volatile", unit="per h", per=HOUR),
    "ecc_deferred": Counter("ecc_deferred_volatile"),
    "bad_pages": Counter("bad_pages"),
    "rows_remapped": Counter("remapped_uncorrectable"),
    "rows_remapped_corrected": Counter("remapped_correctable"),
    "remap_failure": Counter("remap_failure"),
    "remap_pending": Counter("remap_pending"),
    "recovery_asked": Counter("recovery_action", lambda action: int(action != "none")),
    "pcie_fatal": Counter("pcie_fatal"),
    "pcie_replays": Counter("pcie_replays", unit="per min", per=MINUTE),
    "nvlink_down": Counter("nvlinks", lambda links: sum(each["state"] == INACTIVE for each in links)),
    "xgmi_down": Counter("xgmi_down"),
    "nvlink_recovery": Counter("nvlinks", _links("recovery", "recovery_failed")),
    "nvlink_replay": Counter("nvlinks", _links("replay")),
    "nvlink_crc": Counter("nvlinks", _links("crc", "crc_data"), unit="per s", per=1.0),
    "nvlink_effective": Counter("nvlinks", _links("effective"), unit="per h", per=HOUR),
    "nvlink_symbol": Counter("nvlinks", _links("symbol")),
    "xgmi_errors": Counter("xgmi_errors", XGMI.index),
}
"""By the variant of the metric `counters.*`. A rate is that of the worst stretch of the run; a state that is new
counts 1."""


@dataclass(frozen=True)
class Reading:
    """What one device stated at one moment: numbers, and why there is none. `failed` if it did not answer at all."""

    at: float
    numbers: Mapping[str, int] = field(default_factory=dict)
    lacking: Mapping[str, Trouble] = field(default_factory=dict)
    failed: Trouble | None = None


def reading(at: float, facts: Mapping[str, Any]) -> Reading:
    """The counters among the facts of a device, as the sensor answers them."""
    if "lost" in facts:
        return Reading(at, failed=Trouble("device", f"it was lost: {facts['lost']}"))
    if "silent" in facts:
        return Reading(at, failed=Trouble("need", str(facts["silent"])))
    numbers, lacking = {}, {}
    for name, counter in ERROR_COUNTERS.items():
        try:
            numbers[name] = inventory.sane(counter.read(facts[counter.fact]), counter.unit)
        except KeyError as missing:
            fact = counter.fact if counter.fact not in facts else f"nvlink_{missing.args[0]}"
            lacking[name] = inventory.lacking(facts, fact)
        except (TypeError, ValueError) as error:
            lacking[name] = Trouble("need", f"{counter.fact} is not understood: {error}")
    return Reading(at, numbers, lacking)


@dataclass(frozen=True)
class Window:
    """From one reading of a device to the next: what ran, and what moved. `failed` if the later one gave no answer."""

    during: str
    started: float
    ended: float
    moved: Mapping[str, int] = field(default_factory=dict)
    failed: Trouble | None = None


def _window(during: str, before: Reading, after: Reading) -> Window:
    """A counter that went back was reset in between, and has counted since. Nothing is known of what moved since a
    reading without an answer."""
    moved = {}
    for name, number in after.numbers.items():
        if name in before.numbers:
            change = number - before.numbers[name]
            moved[name] = change if change >= 0 else number
    moved = {name: change for name, change in moved.items() if change}
    return Window(during, before.at, after.at, moved, after.failed or before.failed)


class Ledger:
    """Every reading of every device of a run, and the windows between them."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        """The newest answer; a number that was missing in it is the last that was said."""
        self._never: dict[str, Mapping[str, Trouble]] = {}
        """Why the first answer had no number: what had moved by the second one is not known."""
        self.readings = 0
        self.windows: dict[str, list[Window]] = {}

    def read(
        self, at: float, during: str, answers: Mapping[str, Mapping[str, Any]] | None, devices: Iterable[str] = ()
    ) -> None:
        """Enter what the devices answered after `during`. None: nobody could be asked.

        One of `devices` that is not among the answers has vanished; if all have, it may be the library.
        """
        self.readings += 1
        absent = {"lost": "the management library no longer lists it"}
        if not answers:
            answers, absent = {}, {"silent": "the sensor did not answer"}
        for uuid in dict.fromkeys((*self._last, *devices, *answers)):
            self._enter(uuid, during, reading(at, answers.get(uuid, absent)))

    def _enter(self, uuid: str, during: str, now: Reading) -> None:
        before = self._last.get(uuid)
        if before is None:
            self._last[uuid], self._never[uuid] = now, now.lacking
            return
        self.windows.setdefault(uuid, []).append(_window(during, before, now))
        if not now.failed:
            self._last[uuid] = replace(now, numbers={**before.numbers, **now.numbers})

    def last(self, uuid: str) -> Window | None:
        return self.windows.get(uuid, [None])[-1]

    def lost(self, uuid: str) -> str | None:
        """Why the device is lost, by the newest answer; None if it is not."""
        window = self.last(uuid)
        return window.failed.reason if window and window.failed and window.failed.kind == "device" else None

    def measured(self, metric: str, device: Device) -> Measurement:
        """One metric `counters.*` of one device, over the whole run."""
        name = parse(metric).variant
        counter, windows = ERROR_COUNTERS.get(name), self.windows.get(device.uuid, [])
        last = self._last.get(device.uuid)
        if counter is None:
            return _troubled(metric, device, Trouble("need", f"no counter {name} is known to this version"))
        if not windows or last is None:
            return _troubled(metric, device, Trouble("need", "no probe ran that could have moved it"))
        failed = next((each for each in windows if each.failed), None)
        if failed and failed.failed:
            kind, reason = failed.failed.kind, failed.failed.reason
            return _troubled(metric, device, Trouble(kind, f"{reason}, during {failed.during}"))
        if lacking := last.lacking.get(name) or self._never[device.uuid].get(name):
            return _troubled(metric, device, lacking)
        return _judged(metric, device, counter, windows)


def _judged(metric: str, device: Device, counter: Counter, windows: Sequence[Window]) -> Measurement:
    name = parse(metric).variant
    moving = [each for each in windows if name in each.moved]
    total, guilty = _worst(name, counter, moving) if counter.per else (sum(each.moved[name] for each in moving), moving)
    details: Details = {"windows": [{"during": each.during, "moved": each.moved[name]} for each in moving]}
    if guilty:
        details["during"] = ", ".join(dict.fromkeys(each.during for each in guilty))
    return Measurement(
        metric=metric,
        subject=device.uuid,
        unit=counter.unit,
        value=total,
        started=windows[0].started,
        ended=windows[-1].ended,
        details=details,
    )


def _worst(name: str, counter: Counter, moving: Sequence[Window]) -> tuple[float, Sequence[Window]]:
    """The highest rate over any stretch of probes, which begins and ends with one that moved it, and those within.

    Probes are short beside an hour: each by itself would dilute what all of them counted, and all of a long run
    together would dilute a storm. Of equal rates the shortest stretch names the probes best.
    """
    worst: tuple[float, Sequence[Window]] = (0.0, [])
    for length in range(1, len(moving) + 1):
        for first in range(len(moving) - length + 1):
            within = moving[first : first + length]
            seconds = within[-1].ended - within[0].started
            worst = max(worst, (counter.over(sum(each.moved[name] for each in within), seconds), within), key=_rate)
    return worst


def _rate(found: tuple[float, Sequence[Window]]) -> float:
    return found[0]


def _troubled(metric: str, device: Device, trouble: Trouble) -> Measurement:
    return Measurement(metric, device.uuid, "", trouble=trouble)
