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
from pytest_accel.run.record import names_of
from pytest_accel.skus import contribution
from pytest_accel.skus.contribution import OF_PEAK, Contribution

SETTINGS = ("environment", "conf_files")
"""Conditions of a collective that hold names of the host: its network interfaces and its files."""
SIX = 6
"""Significant digits of a value."""
MOST_ERRORS = 3
"""Most errors of a contributed file that are shown."""


@dataclass
class Inputs:
    """The records and the contributed files that were read, and a line on each that was refused: path and reason."""

    records: list[Run] = field(default_factory=list)
    contributions: list[tuple[Path, Contribution]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def refuse(self, path: Path | str, why: str) -> None:
        """Add a file that does not count."""
        self.refused.append(f"{path}: {why}")


def gather(names: Sequence[str], *, rehearsal: bool) -> Inputs:
    """Read records, folders of them, and contributed files. Raises BadFile for a path that holds none."""
    inputs = Inputs()
    seen: dict[str, Path] = {}
    for path in [path for name in names for path in record.below(Path(name), inputs.refused)]:
        if path.suffix in (".yaml", ".yml"):
            _contributed(path, inputs, rehearsal=rehearsal)
            continue
        try:
            saved = record.read(path, rehearsal=rehearsal)
        except BadFile as bad:
            inputs.refused += bad.args
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


def _contributed(path: Path, inputs: Inputs, *, rehearsal: bool) -> None:
    try:
        one = contribution.read(path)
    except BadFile as bad:
        inputs.refused += bad.args[:MOST_ERRORS]
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
    stated = [(each.sku.get("name", ""), each.run.get("platform", "")) for each in inputs.records]
    stated += [(each.sku, each.platform) for _, each in inputs.contributions]
    counted = Counter(pair for pair in stated if wanted in (None, pair[0]))
    if not counted:
        raise BadFile("no record is left to calibrate from", *inputs.refused)
    product = counted.most_common(1)[0][0]
    paths = [*(each.path for each in inputs.records), *(path for path, _ in inputs.contributions)]
    of = dict(zip(paths, stated, strict=True))
    for path, mine in of.items():
        if mine != product:
            why = f"it is of {mine[0] or 'no SKU'} on {mine[1] or 'no platform'}, the others of"
            inputs.refuse(path, f"{why} {product[0]} on {product[1]}")
    inputs.records = [each for each in inputs.records if of[each.path] == product]
    inputs.contributions = [each for each in inputs.contributions if of[each[0]] == product]
    return product


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


def without_poisoned(inputs: Inputs, found: Sequence[GoodFigure], sku: Sku, platform: Platform) -> list[GoodFigure]:
    """Refuse contributed files by another method, far from the others, or with the values of another file.

    Returns the figures of the other inputs.
    """
    files = {str(path): one for path, one in inputs.contributions}
    limits = sku.limits_on(platform).items()
    usual = {metric: each.reference for metric, each in limits if each.reference and not each.relative}
    strange = poisoned.strangers(found, set(files), usual)
    for path, one in list(inputs.contributions):
        try:
            contribution.check(one, sku)
        except BadFile as bad:
            inputs.refused += bad.args[:MOST_ERRORS]
        else:
            if str(path) not in strange:
                continue
            metric, why = strange[str(path)]
            inputs.refused.append(f"{one.places[metric].where}: metrics.{metric}: {why}")
        inputs.contributions.remove((path, one))
        files.pop(str(path))
    left = {*files, *(str(each.path) for each in inputs.records)}
    return [each for each in found if each.source in left]


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
