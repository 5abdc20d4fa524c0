"""The earlier runs that --accel-baseline names, and how the record keeps what was compared with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.run import BaselineEntry, BaselineFigure
from pytest_accel.drivers import registry
from pytest_accel.judging.history import EarlierFigure, EarlierRun, History, Past, differing, key
from pytest_accel.run import summaries
from pytest_accel.run.earlier_records import EarlierRecords
from pytest_accel.run.options import AUTO, NONE
from pytest_accel.run.setup import Setup


class Baseline:
    """The earlier runs that a run is compared with. `entry` holds for its record what was compared."""

    def __init__(self, history: History, asked: str) -> None:
        self._history = history
        self.entry: BaselineEntry = {"asked": asked, "fails": history.fails, "runs": [], "pasts": {}}
        self._places: dict[str, int] = {}

    def past_of(self, measurement: Measurement) -> Past | None:
        """Return the earlier figures of a measurement's metric and device, and enter them into the record."""
        past = self._history.past(measurement)
        if past is not None:
            first, last = self._entered(past.first), self._entered(past.last)
            self.entry["pasts"].setdefault(key(measurement), {})[measurement.subject] = {
                "first": first,
                "last": last,
                "between_runs": past.between_runs,
                "runs": past.runs,
            }
        return past

    def _entered(self, figure: EarlierFigure | None) -> BaselineFigure | None:
        if figure is None:
            return None
        if figure.record not in self._places:
            run = next(run for run in self._history.runs if run.record == figure.record)
            self._places[figure.record] = len(self.entry["runs"])
            self.entry["runs"].append(
                {"record": run.record, "started": run.started, "word": run.word, "terms": dict(run.terms)}
            )
        return {"value": figure.value, "run": self._places[figure.record]}


def find(setup: Setup, beside: EarlierRecords, terms: Callable[[], Mapping[str, str]]) -> tuple[Baseline, list[str]]:
    """Return the baseline that the options ask for, and notes on what became of the devices since.

    `beside` are the records beside that of this run. Processors have no past: other work on them slows them down.
    """
    asked = setup.options.baseline
    found = beside.found if asked == AUTO else setup.baseline
    devices = [each for each in setup.devices if registry.vendor(each.driver).accelerator]
    sku, simulated = setup.terms.sku.name if setup.terms.sku else "", setup.node is not None
    runs = [summaries.run_of(str(path), each) for path, each in found if summaries.is_history(each, sku, simulated)]
    ours = [run for run in runs if _holds(run, devices)]
    history = History(ours, devices, terms, fails=setup.options.baseline_fail)
    notes = history.changes(setup.discovery.devices)
    if asked not in (AUTO, NONE) and not ours:
        why = "no complete run of all tests" if not runs else "none of the devices"
        notes = [f"--accel-baseline {asked} holds {why} as {sku or 'any SKU'}: nothing is compared with it"]
    return Baseline(history, asked), notes


def _holds(run: EarlierRun, devices: Iterable[Device]) -> bool:
    """Return whether a run had one of the devices, by UUID or serial."""
    serials = {each.serial for each in run.devices.values() if each.serial}
    return any(each.uuid in run.devices or each.serial in serials for each in devices)


def kept_in(entry: BaselineEntry, terms: Mapping[str, str]) -> Callable[[Measurement], Past | None]:
    """Return the function that finds the earlier figures that a record keeps; `terms` are those of its run."""
    runs, pasts = entry.get("runs", []), entry.get("pasts", {})

    def figure(found: BaselineFigure | None) -> EarlierFigure | None:
        if found is None or not 0 <= found["run"] < len(runs):
            return None
        run = runs[found["run"]]
        return EarlierFigure(found["value"], run["started"][:10], run["record"], differing(run["terms"], terms))

    def past_of(measurement: Measurement) -> Past | None:
        found = pasts.get(key(measurement), {}).get(measurement.subject)
        if found is None:
            return None
        between, fails = found["between_runs"], entry.get("fails", False)
        return Past(figure(found["first"]), figure(found["last"]), between, found["runs"], fails)

    return past_of
