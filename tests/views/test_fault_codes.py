"""docs/fault-codes.md is the table of fault codes."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_accel.core.fault_codes import BY_NAME, TABLE, Action, Severity

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

from fault_codes import ACTIONS, OF_DCGM, SEVERITIES, page  # noqa: E402  a program, not a package

PAGE = CHECKOUT / "docs/fault-codes.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/fault_codes.py"


def test_every_code_is_on_it_and_no_code_or_name_twice() -> None:
    assert [code.code for code in TABLE if f"| {code.code} | {code.name} |" not in page()] == []
    assert len({code.code for code in TABLE}) == len(BY_NAME) == len(TABLE)


def test_every_severity_and_action_is_explained_and_every_name_is_one() -> None:
    assert (set(SEVERITIES), set(ACTIONS)) == (set(Severity), set(Action))
    assert set(OF_DCGM) <= set(BY_NAME)
