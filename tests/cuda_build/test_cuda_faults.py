"""Faults on torch's CUDA build are named by their cause, and fail only the device that has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from node import H100, H200, TORCH, Build, Node, uuid

pytestmark = pytest.mark.cuda_build

SINGLE = ("--accel-sku=h200-sxm", "--accel-platform=single")
PRODUCT = ("-k", "test_matmul and bf16 and not mamf and not best")


@pytest.mark.nightly
def test_a_first_call_that_takes_longer_than_the_patience_is_no_hung_device(build: Build, tmp_path: Path) -> None:
    ran = Node(build, H200, 1, {"FIRST_PRODUCT_S": 8}).suite(tmp_path, *SINGLE, *PRODUCT, "--accel-patience=5")
    assert ran.closing.startswith("HELD"), ran.out


def test_a_first_call_that_never_ends_is_one(build: Build, tmp_path: Path) -> None:
    ran = Node(build, H200, 1, {"FIRST_PRODUCT_S": 600}).suite(tmp_path, *SINGLE, *PRODUCT, "--accel-patience=5")
    assert ran.status == 1, ran.out
    assert "device-hung" in ran.out


def test_an_uncorrectable_error_is_one_of_memory_and_costs_its_own_device(build: Build, tmp_path: Path) -> None:
    node = Node(build, H100, 2, {"ECC": uuid(1), "ECC_AFTER": 40})
    ran = node.suite(tmp_path, "--accel-sku=h100-sxm", "--accel-platform=hgx8", *PRODUCT)
    assert ran.status == 1, ran.out
    assert ran.closing.startswith("REJECTED gpu1: ")
    assert "A201" in ran.out
    held = [each for each in ran.record["measurements"] if each["metric"] == "matmul.bf16" and each.get("value")]
    assert [each["subject"] for each in held] == [uuid(0)]


def test_memory_that_is_told_as_free_and_cannot_be_had_is_no_fault_of_the_device(build: Build, tmp_path: Path) -> None:
    """Another process took it between the question and the allocation."""
    node = Node(build, H200, 1, {"TAKEN_BYTES": 135 << 30})
    ran = node.suite(tmp_path, *SINGLE, "-k", "test_stream and (triad or copy_kernel)")
    assert ran.status == 6, ran.out
    assert ran.closing.startswith("NOT JUDGED"), ran.closing
    assert "out of memory" in ran.out


def test_a_fabric_that_binds_no_multicast_is_no_fault_of_a_device(build: Build, tmp_path: Path) -> None:
    node = Node(build, H100, 2, {"NO_MULTICAST": 1})
    ran = node.suite(tmp_path, "--accel-sku=h100-sxm", "--accel-platform=hgx8", "-k", "all_reduce")
    assert ran.status == 6, ran.out
    assert ran.closing.startswith("NOT JUDGED"), ran.closing
    unsaid = TORCH.startswith("2.15.")  # it passes on no words of NCCL
    assert ("Failed to initialize NCCL communicator" if unsaid else "Failed to bind NVLink SHARP") in ran.out


def test_a_device_that_is_divided_is_named_so(build: Build, tmp_path: Path) -> None:
    ran = Node(build, H200, 1, {"MIG": 1}).suite(tmp_path, *SINGLE, *PRODUCT)
    assert ran.status in (1, 4, 6), ran.out
    assert "MIG" in ran.out
