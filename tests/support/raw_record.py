"""The content of a record's file, with the fields that it leaves out because they have their default value."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from pytest_accel.core import structured
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.run import record


def read(folder: Path) -> Any:
    raw = json.loads((folder / record.FILE).read_text(encoding="utf-8"))
    for key, empty in (("verdicts", Verdict("", "", Status.PASS)), ("measurements", Measurement("", "", ""))):
        usual = {each.name: structured.plain(getattr(empty, each.name)) for each in fields(empty)}
        raw[key] = [{**usual, **each} for each in raw[key]]
    return raw
