"""thresholds/CHANGELOG.md, which a person writes and reads."""

from __future__ import annotations

import re

from pytest_accel.skus import loader

NAME = re.compile(r"`([a-z0-9/-]+)`")


def test_the_page_names_every_threshold_file_and_no_other() -> None:
    page = (loader.SHIPPED / "CHANGELOG.md").read_text(encoding="utf-8")
    files = {str(path.relative_to(loader.SHIPPED).with_suffix("")) for path in loader.SHIPPED.rglob("*.yaml")}
    assert set(NAME.findall(page)) == files
