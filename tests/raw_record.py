"""The content of a record's file, with the fields that it leaves out because they have their default value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_accel.run import record


def read(folder: Path) -> Any:
    raw = json.loads((folder / record.FILE).read_text(encoding="utf-8"))
    for key, kind in (("verdicts", "Verdict"), ("measurements", "Measurement")):
        usual = json.loads(json.dumps(record.defaults(kind), default=str))
        raw[key] = [{**usual, **each} for each in raw[key]]
    return raw
