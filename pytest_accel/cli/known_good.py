"""Reads what `pytest-accel calibrate` is given: records of known-good nodes, and contributed files.

A record that is refused is named with the reason, and the others count.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_accel.core import paths, untrusted
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status
from pytest_accel.judging.records import poisoned
from pytest_accel.judging.records.calibration import GoodFigure
from pytest_accel.judging.verdicts.history import VARYING, kept
from pytest_accel.probes.declare import finder_of
from pytest_accel.run import record
from pytest_accel.run.record import FILE, names_of
from pytest_accel.skus import contribution
from pytest_accel.skus.contribution import OF_PEAK, Contribution

SETTINGS = ("environment", "conf_files")
"""Conditions of a collective that hold names of the host: its network interfaces and its files."""
SIX = 6
"""Significant digits of a value."""


@dataclass
class Inputs:
    """The records and the contributed files that were read, and those that were refused: path and reason."""

    records: list[Run] = field(default_factory=list)
    contributions: list[tuple[Path, Contribution]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, path: Path | str, why: str) -> None:
        """Add a file that does not count."""
        self.refused.append((str(path), why))


def gather(names: Sequence[str], *, rehearsal: bool) -> Inputs:
    """Read records, folders of them, and contributed files. Raises BadFile for a path that holds none."""
    inputs = Inputs()
    seen: dict[str, Path] = {}
    for path in [path for name in names for path in _files(Path(name), inputs)]:
        if path.suffix in (".yaml", ".yml"):
            _contributed(path, inputs, rehearsal=rehearsal)
            continue
        try:
            saved = record.read(path, rehearsal=rehearsal)
        except BadFile as bad:
            inputs.refuse(path, str(bad).removeprefix(f"{path}: "))
            continue
        why = unusable(saved)
        if why is None and saved.sealed in seen:
            why = f"the same record as {seen[saved.sealed]}"
        if why:
            inputs.refuse(path, why)
        else:
            seen[saved.sealed] = path
            inputs.records.append(saved)
    inputs.records.sort(key=lambda each: each.run.get("started", ""))
    return inputs


def _files(path: Path, inputs: Inputs) -> list[Path]:
    """Return the file itself, the record of a folder, or all records below it. Raises BadFile if there is none.

    Refuses folders that cannot be read.
    """
    if not untrusted.exists(path):
        raise BadFile(f"{path}: does not exist; name records, folders of records, or contributed files")
    if not path.is_dir():
        return [path]
    closed: list[tuple[str, str]] = []
    found = [path / FILE] if (path / FILE).is_file() else paths.files(path, FILE, closed)
    inputs.refused += closed
    if not found and closed:
        raise BadFile(*map(": ".join, closed))
    if not found:
        raise BadFile(f"{path}: holds no {FILE}; name a folder in which a run wrote its record")
    return found


def _contributed(path: Path, inputs: Inputs, *, rehearsal: bool) -> None:
    try:
        one = contribution.read(path)
    except BadFile as bad:
        inputs.refuse(path, _without(path, bad))
        return
    if one.simulated != rehearsal:
        inputs.refuse(path, "its nodes were simulated" if one.simulated else "its nodes are hardware")
    else:
        inputs.contributions.append((path, one))


def unusable(saved: Run) -> str | None:
    """Return why a record says nothing of healthy devices as they are measured; None if it does."""
    around = saved.circumstances
    if saved.judged_from:
        return "it judges another record again; name the record of the run"
    if saved.state != "finished" or around is None:
        return f"the run is not complete: {saved.state}"
    if around.interrupted or around.cut_short:
        return f"the run ended early: {around.interrupted or around.cut_short}"
    if around.filtered:
        return f"the run was filtered: {', '.join(around.filtered)}"
    for each in saved.verdicts:  # a rate or a time may fail here; a fact, an error or a lost device may not
        figure = kept(Measurement(each.metric, each.subject, each.unit, each.value))
        if each.fails and each.status is Status.FAIL and not figure:
            return f"it rejects {names_of(saved)[each.subject]}: {each.metric} {sentence_of(each)}"
    return f"it contradicts itself: {saved.contradictions[0]}" if saved.contradictions else None


# -- one product on one platform


def same_product(inputs: Inputs, wanted: str | None) -> tuple[str, str]:
    """Return the SKU and the platform of most inputs, and refuse the others. Raises BadFile if nothing is left.

    `wanted` is the name of the SKU, None for the one that most are of.
    """
    stated = [*((each.sku.get("name", ""), each.run.get("platform", "")) for each in inputs.records)]
    stated += [(each.sku, each.platform) for _, each in inputs.contributions]
    counted = Counter(pair for pair in stated if wanted in (None, pair[0]))
    if not counted:
        raise BadFile("no record is left to calibrate from", *map(": ".join, inputs.refused))
    product = counted.most_common(1)[0][0]
    for each in inputs.records:
        mine = (each.sku.get("name", ""), each.run.get("platform", ""))
        if mine != product:
            inputs.refuse(each.path, _other_product(mine, product))
    for path, one in inputs.contributions:
        if (one.sku, one.platform) != product:
            inputs.refuse(path, _other_product((one.sku, one.platform), product))
    gone = {path for path, _ in inputs.refused}
    inputs.records = [each for each in inputs.records if str(each.path) not in gone]
    inputs.contributions = [each for each in inputs.contributions if str(each[0]) not in gone]
    return product


def _other_product(mine: tuple[str, str], product: tuple[str, str]) -> str:
    return f"it is of {mine[0] or 'no SKU'} on {mine[1] or 'no platform'}, the others of {product[0]} on {product[1]}"


# -- figures


def readings(inputs: Inputs, sku: Sku, platform: Platform, owner: str) -> list[GoodFigure]:
    """Return every figure of the records and then of the contributed files."""
    nodes = node_numbers(inputs.records)
    found = []
    for saved in inputs.records:
        last = {(each.metric, each.subject): each for each in saved.measurements if kept(each)}
        for one in last.values():
            reading = _reading(one, sku, platform)
            if reading is not None:
                node = nodes[id(saved)]
                device = node if one.subject == NODE else one.subject
                found.append(replace(reading, device=device, node=node, owner=owner, source=str(saved.path)))
    return found + contributed_readings(inputs.contributions)


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
    return GoodFigure(one.metric, unit, float(f"{value:.{SIX}g}"), one.subject, "", conditions_of(one))


def conditions_of(one: Measurement) -> dict[str, Any]:
    """Return the conditions that make the method of a figure, as plain data, without names of files and interfaces."""
    bare = {name: value for name, value in one.conditions.items() if name not in (*VARYING, *SETTINGS)}
    found: dict[str, Any] = json.loads(json.dumps(bare, default=str))
    return found


def contributed_readings(files: Iterable[tuple[Path, Contribution]]) -> list[GoodFigure]:
    """Return every figure of contributed files."""
    return [
        GoodFigure(
            metric, each.unit, float(f"{value:.{SIX}g}"), _numbered(path, at.node, at.device),
            _numbered(path, at.node), each.conditions, one.owner, str(path),
        )
        for path, one in files
        for metric, each in one.metrics.items()
        for at in each.devices
        for value in at.runs
    ]  # fmt: skip


def _numbered(path: Path, node: int, device: int = 0) -> str:
    """Return the name of a device, or of a node, of a contributed file."""
    return f"{path}: node {node}" + (f" device {device}" if device else "")


def node_numbers(records: Sequence[Run]) -> dict[int, str]:
    """Return the node of each record (by its id): records that share a device are of one node."""
    node: dict[str, str] = {}
    for number, one in enumerate(records, 1):
        uuids = [device.uuid for device in one.devices]
        joined = {node[uuid] for uuid in uuids if uuid in node}
        name = min(joined, default=f"node {number}", key=lambda each: int(each.split()[1]))
        node = {uuid: name if each in joined else each for uuid, each in node.items()}
        node.update(dict.fromkeys(uuids, name))
    return {id(each): node[each.devices[0].uuid] if each.devices else "" for each in records}


def labels(records: Sequence[Run]) -> dict[str, str]:
    """Return what a reader finds a device by: "gpu3 (serial 165..., host n1)". By UUID."""
    found = {}
    for saved in records:
        for device in saved.devices:
            found[device.uuid] = f"{device.name}, serial {device.serial or 'unknown'}, {device.uuid}"
    return found


# -- contributed files against the others


def refuse_poisoned(inputs: Inputs, found: Sequence[GoodFigure], sku: Sku, platform: Platform) -> None:
    """Refuse contributed files by another method, far from the others, or with the values of another file."""
    files = {str(path): one for path, one in inputs.contributions}
    limits = sku.limits_on(platform).items()
    usual = {metric: each.reference for metric, each in limits if each.reference and not each.relative}
    strange = poisoned.strangers(found, set(files), usual)
    for path, one in list(inputs.contributions):
        try:
            contribution.check(one, sku)
        except BadFile as bad:
            inputs.refuse(path, _without(path, bad))
        else:
            if str(path) not in strange:
                continue
            metric, why = strange[str(path)]
            inputs.refuse(path, f"line {one.places[metric].line}: metrics.{metric}: {why}")
        inputs.contributions.remove((path, one))


def _without(path: Path, bad: BadFile) -> str:
    """Return the first errors of a file, whose name stands before them already."""
    return "; ".join(f"line {line.removeprefix(f'{path}:')}" for line in str(bad).splitlines()[:3])


def identifying(records: Sequence[Run]) -> set[str]:
    """Return every text of some records that names a device, a node, a user or a folder."""
    found: set[str] = set()
    for saved in records:
        run = saved.run
        found |= {run.get("host", ""), run.get("user", ""), run.get("output", ""), str(saved.path)}
        for device in saved.devices:
            facts = (str(value) for name, value in device.facts.items() if re.search("serial|uuid|guid", name))
            found |= {device.uuid, device.serial or "", device.pci_address or "", *facts}
    return {each for each in found if len(each) > 3}
