"""Reads what `pytest-accel calibrate` is given: records of known-good nodes.

A record that is refused is named with the reason, and the others count.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.records.calibration import OF_PEAK, GoodFigure
from pytest_accel.judging.verdicts.history import VARYING, is_baseline
from pytest_accel.probes.declare import finder_of
from pytest_accel.run import record
from pytest_accel.run.record import names_of

SETTINGS = ("environment", "conf_files")
"""Conditions of a collective that hold names of the host: its network interfaces and its files."""


def gather(names: Sequence[str], refused: list[str], *, rehearsal: bool) -> list[Run]:
    """Return the records of some paths and folders, oldest first. Raises BadFile for a path that holds none.

    A line on each file that does not count, path and reason, is added to `refused`.
    """
    runs: dict[str, Run] = {}
    for path in [path for name in names for path in record.files_below(Path(name), refused)]:
        try:
            run = record.read(path, rehearsal=rehearsal)
        except BadFile as error:
            refused += error.args
            continue
        reason = unusable(run)
        if reason is None and run.sealed in runs:
            reason = f"the same record as {runs[run.sealed].path}"
        if reason:
            refused.append(f"{path}: {reason}")
        else:
            runs[run.sealed] = run
    return sorted(runs.values(), key=attrgetter("started"))


def unusable(run: Run) -> str | None:
    """Return the reason why a record says nothing of healthy devices as they are measured; None if it does."""
    circumstances = run.circumstances
    if run.judged_from:
        return "it judges another record again; name the record of the run"
    if run.state != "finished" or circumstances is None:
        return f"the run is not complete: {run.state}"
    if causes := [*filter(None, [circumstances.interrupted]), *circumstances.texts("time")]:
        return f"the run ended early: {causes[0]}"
    if circumstances.narrowed:
        return f"the run was filtered: {', '.join(circumstances.narrowed)}"
    for verdict in run.verdicts:  # a rate or a time may fail here; a fact, an error or a lost device may not
        figure = is_baseline(Measurement(verdict.metric, verdict.subject, verdict.unit, verdict.value))
        if verdict.rejects and not figure:
            return f"it rejects {names_of(run)[verdict.subject]}: {verdict.metric} {sentence_of(verdict)}"
    return f"it is not believed: {run.objections[0]}" if run.objections else None


# -- one product on one platform


def same_product(records: Sequence[Run], refused: list[str], name: str | None) -> tuple[tuple[str, str], list[Run]]:
    """Return the SKU and the platform of most records, and those of them. Raises BadFile if nothing is left.

    `name` is the name of the SKU, None for the one that most are of. The others are added to `refused`.
    """
    groups = grouped(records, lambda run: (run.sku.get("name", ""), run.info.get("platform", "")))
    fitting = [pair for pair in groups if name in (None, pair[0])]
    if not fitting:
        raise BadFile("no record is left to calibrate from", *refused)
    product = max(fitting, key=lambda pair: len(groups[pair]))
    for (sku, platform), group in groups.items():
        reason = f"it is of {sku or 'no SKU'} on {platform or 'no platform'}, the others of {' on '.join(product)}"
        refused += [f"{run.path}: {reason}" for run in group if (sku, platform) != product]
    return product, groups[product]


# -- figures


def readings(records: Sequence[Run], sku: Sku, platform: Platform) -> list[GoodFigure]:
    """Return every figure of the records."""
    nodes = node_numbers(records)
    figures = []
    for run, node in zip(records, nodes, strict=True):
        newest = {(reading.metric, reading.subject): reading for reading in run.measurements if is_baseline(reading)}
        for reading in newest.values():
            figure = _figure(reading, sku, platform)
            if figure is not None:
                device = node if reading.subject == NODE else reading.subject
                figures.append(replace(figure, device=device, node=node, source=str(run.path)))
    return figures


def _figure(reading: Measurement, sku: Sku, platform: Platform) -> GoodFigure | None:
    """Return a figure of a record, None for what no packaged probe measures and what is not above zero.

    Where the limit of the SKU is a fraction of the peak, so is the figure.
    """
    declaration, limit = finder_of(reading.metric), sku.limits_on(platform).get(reading.metric)
    if declaration is None or not declaration.packaged:
        return None
    share = reading.of_peak if limit is not None and limit.relative else None
    if limit is not None and limit.relative and share is None:
        return None
    value = share.mean if share else float(reading.value or 0)  # is_baseline() lets numbers alone pass
    if not value > 0:
        return None
    unit = OF_PEAK if share else reading.unit
    return GoodFigure(reading.metric, unit, float(f"{value:.6g}"), reading.subject, "", conditions_of(reading))


def conditions_of(reading: Measurement) -> dict[str, Any]:
    """Return the conditions that make the method of a figure, as plain data, without names of files and interfaces."""
    conditions = {name: value for name, value in reading.conditions.items() if name not in (*VARYING, *SETTINGS)}
    data: dict[str, Any] = json.loads(json.dumps(conditions, default=str))
    return data


def node_numbers(records: Sequence[Run]) -> list[str]:
    """Return the node of each record: records that share a device are of one node."""
    node: dict[str, int] = {}
    for number, run in enumerate(records, 1):
        uuids = [device.uuid for device in run.devices]
        joined = {node[uuid] for uuid in uuids if uuid in node}
        first = min(joined, default=number)
        node = {uuid: first if number in joined else number for uuid, number in node.items()}
        node.update(dict.fromkeys(uuids, first))
    return [f"node {node[run.devices[0].uuid]}" if run.devices else "" for run in records]


def labels(records: Sequence[Run]) -> dict[str, str]:
    """Return the text by which a reader finds a device: "gpu3 (serial 165..., host n1)". By UUID."""
    return {
        device.uuid: f"{device.name}, serial {device.serial or 'unknown'}, {device.uuid}"
        for run in records
        for device in run.devices
    }
