"""Records of hardware that ends ACCEPTED or REJECTED: the verdicts follow from drawn figures, as in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.record import TELEMETRY, write
from pytest_accel.run.terms import Terms
from support import shipped
from support.known_good_nodes import closed, not_applicable, record, save

SKU = shipped.load("h100-sxm")


def terms_of(made: Run) -> Terms:
    """The terms of an acceptance of a node."""
    return Terms(SKU, SKU.platforms[made.info["platform"]], "standard", tuple(made.devices), sku_named=True)


LIMITS = terms_of(record(0)).limits


def passing(limit: Limit) -> Any:
    """A value that holds a limit."""
    if limit.floor is not None:
        return max(limit.floor * 1.05, (limit.warn or 0.0) * 1.05)
    if limit.ceiling is not None:
        return limit.ceiling / 2 if limit.warn is None else limit.warn
    return limit.one_of[0] if limit.one_of else "the same" if limit.same_on_all else limit.equals


def whole(made: Run) -> Run:
    """A drawn node with a good value of everything else that an acceptance requires."""
    measured = {(each.metric, each.subject) for each in made.measurements}
    terms = terms_of(made)
    for metric, subject, _ in terms.circumstances().required:
        if (metric, subject) not in measured:
            value, limit = passing(terms.limits[metric]), terms.limits[metric]
            on_all = {device.name: value for device in made.devices} if limit.same_on_all else {}
            made.measurements.append(Measurement(metric, subject, limit.unit, value, on_all=on_all))
    return made


def instead(made: Run, found: Measurement) -> None:
    """Enter a measurement in place of the one that is there."""
    others = [each for each in made.measurements if (each.metric, each.subject) != (found.metric, found.subject)]
    made.measurements = [*others, found]


def node(number: int, *, fails: bool = False, as_board_of: int | None = None, **changed: Any) -> Run:
    """A node whose verdicts follow from its drawn figures; as another one it has that one's boards."""
    made = whole(record(number if as_board_of is None else as_board_of))
    made.info["host"] = f"node{number}"
    if fails:
        instead(made, Measurement("health.remap_failure", made.devices[3].uuid, "count", 1))
    return judged(made, **changed)


def judged(made: Run, limits: Mapping[str, Limit] | None = None, **changed: Any) -> Run:
    """The record with the verdicts of these limits, which an acceptance requires, and the closing line of those."""
    limits = limits or terms_of(made).limits
    verdicts = [*(judge([each], limits.get(each.metric)) for each in made.measurements), *not_applicable(made)]
    around = Circumstances(
        required=[each.key for each in verdicts if each.limit],
        names={each.uuid: each.name for each in made.devices},
        expected_devices=len(made.devices),
        sku="h100-sxm",
        level="standard",
    )
    return closed(replace(made, **{"verdicts": verdicts, "circumstances": around, **changed}))


def save_whole(one: Run, folder: Path) -> Path:
    """Write a record with its telemetry into a folder of its own, and return the folder."""
    save(one, folder)
    (folder / TELEMETRY).write_text(json.dumps({"uuid": one.devices[0].uuid}) + "\n", encoding="utf-8")
    one.telemetry = {"file": TELEMETRY, "sha256": untrusted.sha256(folder / TELEMETRY)}
    write(one, folder)
    return folder
