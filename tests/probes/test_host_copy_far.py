"""Copies to the farthest NUMA node: which node that is, and that the worker is back on its own CPUs afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.host_copy import farthest, processors


def nodes(root: Path, listed: dict[int, str], distances: str) -> Path:
    for number, cpus in listed.items():
        (root / f"node{number}").mkdir()
        (root / f"node{number}/cpulist").write_text(f"{cpus}\n")
        (root / f"node{number}/distance").write_text(f"{distances}\n")
    return root


def test_the_farthest_node_with_processors_counts(tmp_path: Path) -> None:
    root = nodes(tmp_path, {0: "0-3", 1: "4-7", 2: "8-9,12", 3: ""}, "10 21 32 40")
    assert farthest(0, root) == (2, {8, 9, 12})


def test_of_two_that_are_as_far_the_first_counts(tmp_path: Path) -> None:
    assert farthest(0, nodes(tmp_path, {0: "0", 1: "1", 2: "2"}, "10 21 21")) == (1, {1})


@pytest.mark.parametrize(
    ("near", "listed", "why"),
    [
        (None, {0: "0", 1: "1"}, "the NUMA node of the device is not known"),
        (-1, {0: "0", 1: "1"}, "the NUMA node of the device is not known"),
        (0, {0: "0-3"}, "this host has one NUMA node"),
        (0, {0: "0-3", 1: ""}, "this host has one NUMA node"),
        (7, {0: "0-3", 1: "4"}, "the NUMA nodes of this host cannot be read"),
        (0, {0: "x", 1: "4"}, "the NUMA nodes of this host cannot be read"),
    ],
)
def test_where_there_is_no_far_node(tmp_path: Path, near: int | None, listed: dict[int, str], why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        farthest(near, nodes(tmp_path, listed, "10 21"))


def test_the_worker_returns_to_its_processors() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    with processors(one, 1):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before
    with pytest.raises(NotApplicable, match="the cpuset excludes every CPU of NUMA node 1"), processors({4000}, 1):
        raise AssertionError
