"""The table of what judges what: every metric and fact has something that judges it, or the reason why nothing does."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_accel.core.device_facts import DEVICE_FACTS, GROUPS
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.probes.declare import declarations

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

from judged_by import NOTHING, UNJUDGED, page  # noqa: E402  a program, not a package


def rows() -> dict[str, list[str]]:
    """The cells of every row, by what the row is about."""
    cells = ([each.strip() for each in line.split("|")] for line in page().splitlines() if line.startswith("| `"))
    return {name.strip("`"): more[:-1] for _, name, *more in cells}


def test_everything_is_on_it_with_what_judges_it_or_why_nothing_does() -> None:
    found = rows()
    measured = {name for each in declarations() if each.packaged and not each.fact for name in each.names()}
    assert {*measured, *DEVICE_FACTS, *(f"host.{name}" for name in HOST_FACTS)} <= set(found)
    silent = [name for name, cells in found.items() if not any(cells)]
    assert silent == []


def test_no_reason_is_kept_that_nobody_needs() -> None:
    found = rows()
    assert {name for name in found if found[name][-1] in NOTHING.values()} == {
        name for name in NOTHING if found[name][-1]
    }
    assert set(UNJUDGED) == set(GROUPS)
