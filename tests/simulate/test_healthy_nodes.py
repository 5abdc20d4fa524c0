"""Healthy nodes are not rejected: the small version of benchmarks/healthy_nodes.py, whose result is in docs/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import shipped
from support.data_files import content

from pytest_accel.core.sku_types import DeclaredBy
from pytest_accel.simulate.model import rates
from pytest_accel.simulate.node import SIMULATED_VENDORS, SimulatedNode
from pytest_accel.skus import classes, loader

SCRIPT = Path(__file__).parents[2] / "benchmarks/healthy_nodes.py"
FILE = content("simulate/known-h100.yaml")


def drawn(folder: Path, *args: str, floor: str = "derived") -> str:
    """What the tool prints about nodes of a SKU whose limits may reject, whatever stands in the shipped files."""
    file = folder / "known.yaml"
    file.write_text(FILE % floor)
    command = [sys.executable, str(SCRIPT), "--sku", str(file), "--level", "quick", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def cells(text: str, row: int) -> list[str]:
    """The cells of a table's first row; `row` counts the rows of all tables that begin with the SKU."""
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [each.strip() for each in rows[row].strip("|").split("|")]


@pytest.mark.nightly
def test_healthy_nodes_are_accepted_and_a_short_part_is_found(tmp_path: Path) -> None:
    text = drawn(tmp_path, "--nodes", "20")
    assert "20 healthy nodes, 0 rejected" in text
    _, _, _, _, host, peers, collectives = cells(text, 1)[1:]
    assert {host, peers, collectives} == {"100% / 100%"}


@pytest.mark.nightly
def test_a_floor_above_what_is_published_as_healthy_rejects(tmp_path: Path) -> None:
    """The population is not made of the floors that it tests: it shows a wrong one."""
    text = drawn(tmp_path, "--nodes", "10", floor="688")
    assert "FAIL | `matmul.bf16`" in text
    assert "10 healthy nodes, 0 rejected" not in text


def of_classes(*args: str) -> dict[str, int]:
    """How many drawn nodes of every row of the classes the floor rejects or leaves without a verdict."""
    command = [sys.executable, str(SCRIPT.with_name("class_floors.py")), *args]
    text = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    table = [line.split(" | ") for line in text.partition("| row | left out")[0].splitlines()[2:] if line]
    return {cells[0].strip("| "): int(cells[5]) + int(cells[6]) for cells in table}


@pytest.mark.nightly
def test_floors_of_the_classes_reject_no_healthy_node() -> None:
    names = {row.name for row in classes.read(loader.SHIPPED / classes.FILE).rows}
    assert of_classes("--nodes", "25") == dict.fromkeys(names, 0)
    worse = of_classes("--nodes", "5", "--noise", "30")
    assert sum(worse.values()) > len(names)  # the count could be another


@pytest.mark.parametrize("vendor", SIMULATED_VENDORS)
def test_a_simulated_healthy_device_reaches_what_its_class_does(vendor: str) -> None:
    """What only the floor of a class limits is simulated at the lowest healthy figure of that class."""
    for sku in shipped.every():
        for platform in sku.platforms.values() if sku.vendor == vendor else ():
            known = rates(SimulatedNode("a test", sku, sku.name, platform))
            for metric, limit in sku.limits_on(platform).items():
                if floor := limit.class_floor:
                    share = known[metric].value / floor.value * floor.share
                    alone = limit.declared_by is DeclaredBy.CLASS and limit.published is None
                    least = floor.lowest - 1e-6 if alone else 1.05 * floor.share
                    assert share >= least, (sku.name, platform.name, metric)
