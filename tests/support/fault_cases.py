"""Every fault that the simulated node can have, and the checks that have to catch it: tests/data/fault-cases.yaml.

One table for the tests (simulate/test_fault_matrix.py) and for what they saw (tests/data/fault-matrix.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.fault_case import Case

_FILE = Path(__file__).parents[1] / "data/fault-cases.yaml"
_READ: dict[str, list[Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))


def _case(entry: dict[str, Any]) -> Case:
    fields: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in entry.items()}
    return Case(**fields)


def _cases(name: str) -> list[Case]:
    return [_case(entry) for entry in _READ[name]]


IN_PROCESS = [*_cases("nvidia"), *_cases("amd")]
"""Run without a process of their own: the whole quick level but its collectives, unless a case says which probes."""
BY_A_USER = [*_cases("nvidia_by_a_user"), *_cases("amd_by_a_user")]
"""Run as a user's pytest, with processes that really hang, die and reduce together."""
CASES = [*IN_PROCESS, *BY_A_USER]
ELSEWHERE: list[tuple[str, str, str]] = [tuple(each) for each in _READ["elsewhere"]]
