"""A driver of a third party: docs/architecture.md, followed to the letter in an environment of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support import as_user, pages, wheels

from pytest_accel.run import telemetry_file
from pytest_accel.run.record import PACKED

pytest.importorskip("torch")

PAGE = wheels.CHECKOUT / "docs" / "architecture.md"
CHAPTER = "A driver"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
"""The environment has every requirement already. pip takes the last one, "no isolation: no", as no isolation."""


@pytest.mark.nightly
@pytest.mark.devices
def test_the_page_makes_a_driver_whose_device_is_judged(tmp_path: Path) -> None:
    """As a wheel beside ours: no file of the checkout is read."""
    built = wheels.build(tmp_path / "build")
    binaries = wheels.environment(tmp_path / "venv", wheels.only(built, "*.whl"))
    folder = tmp_path / "user"
    folder.mkdir()

    as_user.check_serial()
    pages.follow(
        pages.chapter(PAGE, CHAPTER, tmp_path),
        folder,
        {**as_user.environment(OFFLINE), "PATH": f"{binaries}:{os.environ['PATH']}"},
    )

    record = json.loads((folder / "first" / "record.json").read_text())
    [device] = record["devices"]
    assert (device["uuid"], device["driver"], device["called"]) == ("ACME-X1-000042", "acme", "acme")
    assert device["facts"]["power_limit_w"] == 75.0
    statuses = {each["metric"]: each["status"] for each in record["verdicts"]}
    assert statuses["stream.copy_kernel"] == "FAIL"
    for holding in ("inventory.driver", "inventory.sku", "inventory.driver_version", "inventory.power_limit",
                    "health.ecc_uncorrectable_volatile", "exact_matmul.fp32", "soak.power"):  # fmt: skip
        assert statuses[holding] == "PASS", holding
    readings = telemetry_file.readings(folder / "first" / PACKED)
    assert {each["temperature_c"] for each in readings if "temperature_c" in each} == {44.0}


def test_every_file_of_the_page_is_named(tmp_path: Path) -> None:
    """A block of code without a name would not be tried."""
    found = [block for block in pages.blocks(pages.chapter(PAGE, CHAPTER, tmp_path)) if block.language != "console"]
    assert found
    assert not [block for block in found if not block.file]
