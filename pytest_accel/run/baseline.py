"""The earlier runs that --accel-baseline names, and how the record keeps what was compared with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.run import BaselineEntry, Past
from pytest_accel.core.summary import Summary
from pytest_accel.drivers import registry
from pytest_accel.judging.records.differences import GONE, Difference, of_devices
from pytest_accel.judging.verdicts.history import History, key
from pytest_accel.run.earlier_records import EarlierRecords
from pytest_accel.run.options import AUTO, NONE
from pytest_accel.run.setup import Asked, Found


class Baseline:
    """The earlier runs that a run is compared with. `entry` holds for its record what was compared."""

    def __init__(self, history: History, asked: str) -> None:
        self._history = history
        self.entry: BaselineEntry = {"asked": asked, "pasts": {}}

    def past_of(self, measurement: Measurement) -> Past | None:
        """Return the earlier figures of a measurement's metric and device, and enter them into the record."""
        past = self._history.past(measurement)
        if past is not None:
            self.entry["pasts"].setdefault(key(measurement), {})[measurement.subject] = past
        return past


def find(
    asked: Asked, node: Found, beside: EarlierRecords, terms: Callable[[], Mapping[str, str]]
) -> tuple[Baseline, list[str]]:
    """Return the baseline that the options ask for, and notes on what became of the devices since.

    `beside` are the records beside that of this run. Processors have no past: other work on them slows them down.
    """
    option = asked.options.baseline
    earlier = beside.found if option == AUTO else asked.baseline
    devices = [device for device in node.devices if registry.vendor(device.driver).accelerator]
    sku = node.terms.sku.name if node.terms.sku else ""
    runs = [run for run in earlier if run.is_history(sku)]
    ours = [run for run in runs if _holds(run, devices)]
    history = History(ours, devices, terms)
    changed = changes(history.runs, node.terms.devices)
    notes = [f"since {day}: {change.where[0]} {change.what}: {change.then} -> {change.now}" for day, change in changed]
    if option not in (AUTO, NONE) and not ours:
        why = "no complete run of all tests" if not runs else "none of the devices"
        notes = [f"--accel-baseline {option} holds {why} as {sku or 'any SKU'}: nothing is compared with it"]
    baseline = Baseline(history, option)
    if gone := [str(change.then) for _, change in changed if change.now == GONE]:
        baseline.entry["gone"] = gone
    return baseline, notes


def changes(runs: Sequence[Summary], present: Sequence[Device]) -> list[tuple[str, Difference]]:
    """Return the changes of the devices since the last run that at least half of them were in, with its day."""
    of_node = [run for run in runs if 2 * sum(_holds(run, [each]) for each in present) >= len(run.devices)]
    return [(of_node[-1].day, each) for each in of_devices(of_node[-1].devices, present)] if of_node else []


def _holds(run: Summary, devices: Iterable[Device]) -> bool:
    """Return whether a run had one of the devices, by UUID or serial."""
    serials = {each.serial for each in run.devices if each.serial}
    return any(each.uuid in run.by_uuid or each.serial in serials for each in devices)
