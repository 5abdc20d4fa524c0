"""docs/thresholds.md: its file loads and rejects as the page says, and its commands exist."""

from __future__ import annotations

import shlex
from pathlib import Path

from support import pages
from support.rows import each_row

from pytest_accel.cli import main
from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.sku_types import Basis
from pytest_accel.skus import loader, readiness, requirements

PAGE = Path(__file__).parents[2] / "docs" / "thresholds.md"
BLOCKS = pages.blocks(PAGE)
TYPED = {each.line: None for block in BLOCKS if block.language == "console" for each in pages.commands(block)}


def test_the_agreed_floors_reject_and_a_node_can_be_accepted_by_them(tmp_path: Path) -> None:
    (block,) = [each for each in BLOCKS if each.file == "order.yaml"]
    (tmp_path / "order.yaml").write_text(block.text, encoding="utf-8")
    sku = loader.load(str(tmp_path / "order.yaml"))
    platform = sku.platforms["hgx8"]
    agreed = [each for each in sku.limits_on(platform).values() if each.source and each.source.kind == "agreed"]
    assert len(agreed) == 5
    assert all(floor_in_force(each).basis is Basis.AGREED for each in agreed)
    assert {readiness.required_part(each.metric) for each in agreed} | set(readiness.READ) == set(
        readiness.Readiness(sku, platform).required
    )
    assert requirements.unfit(sku, platform, "standard") is None


@each_row("command", [each for each in TYPED if each.startswith("pytest-accel ")])
def test_a_command_of_the_page_exists(command: str) -> None:
    main.parsed(shlex.split(command.partition(" > ")[0])[1:])
