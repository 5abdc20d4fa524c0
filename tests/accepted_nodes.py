"""Records of hardware that ends ACCEPTED or REJECTED: the verdicts follow from drawn figures, as in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import shipped
from known_good_nodes import closed, not_applicable, record, save

from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku import Limit
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.run.record import TELEMETRY, write
from pytest_accel.run.terms import Terms

SKU = shipped.load("h100-sxm")
LIMITS = Terms(SKU, SKU.platforms["hgx8"], "standard", tuple(record(0).devices)).limits


def node(number: int, *, fails: bool = False, as_board_of: int | None = None, **changed: Any) -> Run:
    """A node whose verdicts follow from its drawn figures; as another one it has that one's boards."""
    made = record(number if as_board_of is None else as_board_of)
    made.run["host"] = f"node{number}"
    if fails:
        bad = Measurement("health.remap_failure", made.devices[3].uuid, "count", 1)
        made.measurements.append(bad)
    return judged(made, LIMITS, **changed)


def judged(made: Run, limits: Mapping[str, Limit], **changed: Any) -> Run:
    """The record with the verdicts of these limits, which an acceptance requires, and the closing line of those."""
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
