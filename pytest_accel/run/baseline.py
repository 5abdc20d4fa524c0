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
from pytest_accel.run.setup import Inputs, Target


class Baseline:
    """The earlier runs that a run is compared with. `entry` holds for its record what was compared."""

    def __init__(self, history: History, option: str) -> None:
        self._history = history
        self.entry: BaselineEntry = {"asked": option, "pasts": {}}

    def past_of(self, measurement: Measurement) -> Past | None:
        """Return the earlier figures of a measurement's metric and device, and enter them into the record."""
        past = self._history.past(measurement)
        if past is not None:
            self.entry["pasts"].setdefault(key(measurement), {})[measurement.subject] = past
        return past


def find(
    inputs: Inputs, node: Target, records: EarlierRecords, terms: Callable[[], Mapping[str, str]]
) -> tuple[Baseline, list[str]]:
    """Return the baseline that the options ask for, and notes on what became of the devices since.

    `records` are those beside the record of this run.
    """
    option = inputs.options.baseline
    earlier = records.summaries if option == AUTO else inputs.baseline
    # a processor has no past, since other work on it slows it down
    devices = [device for device in node.devices if registry.vendor(device.driver).accelerator]
    sku = node.terms.sku.name if node.terms.sku else ""
    runs = [run for run in earlier if run.is_history(sku)]
    matches = [run for run in runs if _holds(run, devices)]
    history = History(matches, devices, terms)
    diffs = changes(history.runs, node.terms.devices)
    notes = [f"since {day}: {diff.names[0]} {diff.item}: {diff.before} -> {diff.after}" for day, diff in diffs]
    if option not in (AUTO, NONE) and not matches:
        reason = "no complete run of all tests" if not runs else "none of the devices"
        notes = [f"--accel-baseline {option} holds {reason} as {sku or 'any SKU'}: nothing is compared with it"]
    baseline = Baseline(history, option)
    if missing := [str(change.before) for _, change in diffs if change.after == GONE]:
        baseline.entry["gone"] = missing
    return baseline, notes


def changes(runs: Sequence[Summary], devices: Sequence[Device]) -> list[tuple[str, Difference]]:
    """Return the changes of the devices since the last run that at least half of them were in, with its day."""
    of_node = [run for run in runs if 2 * sum(_holds(run, [device]) for device in devices) >= len(run.devices)]
    return [(of_node[-1].day, change) for change in of_devices(of_node[-1].devices, devices)] if of_node else []


def _holds(run: Summary, devices: Iterable[Device]) -> bool:
    """Return True if a run had one of the devices, by UUID or serial."""
    serials = {device.serial for device in run.devices if device.serial}
    return any(device.uuid in run.by_uuid or device.serial in serials for device in devices)
