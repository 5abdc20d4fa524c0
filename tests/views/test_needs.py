"""docs/needs.md is what the checks declare."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_accel.core.host_facts import HOST_FACTS

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

from needs import page  # noqa: E402  a program, not a package

PAGE = CHECKOUT / "docs/needs.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/needs.py"


def test_every_fact_of_the_host_is_on_it() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `host.")]
    assert len(rows) == len(HOST_FACTS)
    assert all(line.count("|") == 6 for line in rows)


def test_what_takes_root_is_said() -> None:
    (row,) = [line for line in page().splitlines() if line.startswith("| `host.acs`")]
    assert "CAP_SYS_ADMIN" in row
