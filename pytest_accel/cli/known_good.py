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
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status
from pytest_accel.judging.records.calibration import OF_PEAK, GoodFigure
from pytest_accel.judging.verdicts.history import VARYING, kept
from pytest_accel.probes.declare import finder_of
from pytest_accel.run import record
from pytest_accel.run.record import names_of

SETTINGS = ("environment", "conf_files")
"""Conditions of a collective that hold names of the host: its network interfaces and its files."""


def gather(names: Sequence[str], refused: list[str], *, rehearsal: bool) -> list[Run]:
    """Return the records of some paths and folders, oldest first. Raises BadFile for a path that holds none.

    A line on each file that does not count, path and reason, is added to `refused`.
    """
    seen: dict[str, Run] = {}
    for path in [path for name in names for path in record.below(Path(name), refused)]:
        try:
            saved = record.read(path, rehearsal=rehearsal)
        except BadFile as bad:
            refused += bad.args
            continue
        why = unusable(saved)
        if why is None and saved.sealed in seen:
            why = f"the same record as {seen[saved.sealed].path}"
        if why:
            refused.append(f"{path}: {why}")
        else:
            seen[saved.sealed] = saved
    return sorted(seen.values(), key=attrgetter("started"))


def unusable(saved: Run) -> str | None:
    """Return why a record says nothing of healthy devices as they are measured; None if it does."""
    around = saved.circumstances
    if saved.judged_from:
        return "it judges another record again; name the record of the run"
    if saved.state != "finished" or around is None:
        return f"the run is not complete: {saved.state}"
    if early := [*filter(None, [around.interrupted]), *around.texts("time")]:
        return f"the run ended early: {early[0]}"
    if around.narrowed:
        return f"the run was filtered: {', '.join(around.narrowed)}"
    for each in saved.verdicts:  # a rate or a time may fail here; a fact, an error or a lost device may not
        figure = kept(Measurement(each.metric, each.subject, each.unit, each.value))
        if each.fails and each.status is Status.FAIL and not figure:
            return f"it rejects {names_of(saved)[each.subject]}: {each.metric} {sentence_of(each)}"
    return f"it is not believed: {saved.objections[0]}" if saved.objections else None


# -- one product on one platform


def same_product(records: Sequence[Run], refused: list[str], wanted: str | None) -> tuple[tuple[str, str], list[Run]]:
    """Return the SKU and the platform of most records, and those of them. Raises BadFile if nothing is left.

    `wanted` is the name of the SKU, None for the one that most are of. The others are added to `refused`.
    """
    of = grouped(records, lambda each: (each.sku.get("name", ""), each.info.get("platform", "")))
    fitting = [pair for pair in of if wanted in (None, pair[0])]
    if not fitting:
        raise BadFile("no record is left to calibrate from", *refused)
    product = max(fitting, key=lambda pair: len(of[pair]))
    for (sku, platform), some in of.items():
        why = f"it is of {sku or 'no SKU'} on {platform or 'no platform'}, the others of {' on '.join(product)}"
        refused += [f"{each.path}: {why}" for each in some if (sku, platform) != product]
    return product, of[product]


# -- figures


def readings(records: Sequence[Run], sku: Sku, platform: Platform) -> list[GoodFigure]:
    """Return every figure of the records."""
    nodes = node_numbers(records)
    found = []
    for saved, node in zip(records, nodes, strict=True):
        last = {(each.metric, each.subject): each for each in saved.measurements if kept(each)}
        for one in last.values():
            reading = _reading(one, sku, platform)
            if reading is not None:
                device = node if one.subject == NODE else one.subject
                found.append(replace(reading, device=device, node=node, source=str(saved.path)))
    return found


def _reading(one: Measurement, sku: Sku, platform: Platform) -> GoodFigure | None:
    """Return a figure of a record, None for what no packaged probe measures and what is not above zero.

    Where the limit of the SKU is a fraction of the peak, so is the figure.
    """
    declared, limit = finder_of(one.metric), sku.limits_on(platform).get(one.metric)
    if declared is None or not declared.packaged:
        return None
    share = one.of_peak if limit is not None and limit.relative else None
    if limit is not None and limit.relative and share is None:
        return None
    value = share.mean if share else float(one.value or 0)  # kept() lets numbers alone pass
    if not value > 0:
        return None
    unit = OF_PEAK if share else one.unit
    return GoodFigure(one.metric, unit, float(f"{value:.6g}"), one.subject, "", conditions_of(one))


def conditions_of(one: Measurement) -> dict[str, Any]:
    """Return the conditions that make the method of a figure, as plain data, without names of files and interfaces."""
    bare = {name: value for name, value in one.conditions.items() if name not in (*VARYING, *SETTINGS)}
    found: dict[str, Any] = json.loads(json.dumps(bare, default=str))
    return found


def node_numbers(records: Sequence[Run]) -> list[str]:
    """Return the node of each record: records that share a device are of one node."""
    node: dict[str, int] = {}
    for number, one in enumerate(records, 1):
        uuids = [device.uuid for device in one.devices]
        joined = {node[uuid] for uuid in uuids if uuid in node}
        first = min(joined, default=number)
        node = {uuid: first if each in joined else each for uuid, each in node.items()}
        node.update(dict.fromkeys(uuids, first))
    return [f"node {node[saved.devices[0].uuid]}" if saved.devices else "" for saved in records]


def labels(records: Sequence[Run]) -> dict[str, str]:
    """Return what a reader finds a device by: "gpu3 (serial 165..., host n1)". By UUID."""
    found = {}
    for saved in records:
        for device in saved.devices:
            found[device.uuid] = f"{device.name}, serial {device.serial or 'unknown'}, {device.uuid}"
    return found
