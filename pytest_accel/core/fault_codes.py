"""The fault codes of fault_codes.yaml: meaning, severity and next step of each.

`judging/causes/findings.py` chooses the code of a verdict, `scripts/fault_codes.py` writes docs/fault-codes.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from pytest_accel.core.data_file import read


class Severity(str, Enum):
    """The severity of a finding. The members are in order, worst first."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"


class Action(str, Enum):
    """The next step for a device, as one word that a program can match."""

    RETURN = "return"
    RESET = "reset"
    REBOOT = "reboot"
    RESEAT = "reseat"
    CHECK_COOLING = "check-cooling"
    CHECK_POWER = "check-power"
    CHECK_LINKS = "check-links"
    CHECK_HOST = "check-host"
    CONFIGURE = "configure"
    INVESTIGATE = "investigate"
    WATCH = "watch"
    MEASURE_AGAIN = "measure-again"
    NONE = "none"


@dataclass(frozen=True)
class FaultCode:
    """A kind of finding. `do` is the next step."""

    code: str
    name: str
    severity: Severity
    """The severity of a FAIL; other verdicts have less."""
    action: Action
    means: str
    do: str
    metrics: tuple[str, ...] = ()
    """The metrics whose verdicts have this code; `*` stands for any text."""
    do_by: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The next step by the metric, or by the kind of the reason that decided; `do` for others."""


def _code(severity: str, action: str, metrics: Sequence[str] = (), **texts: Any) -> FaultCode:
    return FaultCode(severity=Severity(severity), action=Action(action), metrics=tuple(metrics), **texts)


HEADINGS = {heading: [_code(**row) for row in rows] for heading, rows in read(__file__).items()}
"""The codes by the heading that they stand under in the file, and on the page."""
TABLE = tuple(code for codes in HEADINGS.values() for code in codes)
"""All codes."""
BY_NAME = {code.name: code for code in TABLE}


@cache
def of_metric(metric: str) -> FaultCode:
    """Return the code of a metric whose limit is broken: that which names it in full, else the first that matches."""
    exactly = next((code for code in TABLE if metric in code.metrics), None)
    return exactly or next(code for code in TABLE if any(fnmatchcase(metric, pattern) for pattern in code.metrics))
