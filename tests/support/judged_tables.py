"""Tables of plain values that tests read: YAML files, whose rows stand under the name of their test."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pytest_accel.core.measurement import Device, Measurement, Peak, Trouble
from pytest_accel.core.reasons import Note, WrongData
from pytest_accel.core.sku_types import Limit, Source, Spread
from pytest_accel.core.verdict import Status, Verdict, Waiver
from pytest_accel.judging.records.differences import Direction
from support.rows import each_row

Test = Callable[..., None]
CLASSES = (
    Device,
    Direction,
    Limit,
    Measurement,
    Note,
    Peak,
    Source,
    Spread,
    Status,
    Trouble,
    Verdict,
    Waiver,
    WrongData,
)


class _Loader(yaml.SafeLoader):
    """Reads `!Limit {...}` as such an object, and the name of a status as that status."""


def _made(loader: _Loader, name: str, node: yaml.Node) -> Any:
    kind: Any = {each.__name__: each for each in CLASSES}[name]
    if not isinstance(node, yaml.MappingNode):
        return kind[node.value]
    fields = loader.construct_mapping(node, deep=True)
    return kind(**{str(key): tuple(each) if isinstance(each, list) else each for key, each in fields.items()})


_Loader.add_multi_constructor("!", _made)
_Loader.add_implicit_resolver("!Status", re.compile(f"({'|'.join(Status.__members__)})$"), None)


@cache
def tables(file: str) -> dict[str, Any]:
    """Return the tables of a file below tests."""
    return dict(yaml.load((Path(__file__).parents[1] / file).read_text(encoding="utf-8"), _Loader))  # noqa: S506  a SafeLoader


def tabled(columns: str, file: str) -> Callable[[Test], Test]:
    """Run a test for each row of the table of its name."""
    return lambda test: each_row(columns, tables(file)[test.__name__.removeprefix("test_")])(test)
