"""docs/checks.md has what the tables of facts say."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.host_facts import HOST_FACTS

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

from facts import BEGIN, page  # noqa: E402  a program, not a package

PAGE = CHECKOUT / "docs/checks.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{page()}"), "run scripts/facts.py"
    assert PAGE.read_text(encoding="utf-8").count(BEGIN) == 1


def test_every_fact_has_a_row() -> None:
    facts = page().partition("## What other checks need")[0]
    rows = [line for line in facts.splitlines() if line.startswith("| `") and not line.startswith("| `0x")]
    assert len(rows) == len(DEVICE_FACTS) + len(HOST_FACTS)
    assert {line.count("|") for line in rows[: len(DEVICE_FACTS)]} == {6}
    assert {line.count("|") for line in rows[len(DEVICE_FACTS) :]} == {8}
