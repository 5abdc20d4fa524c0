"""Every probe on torch's CUDA build, with its numbers computed on the CPU in the same memory; and with a wrong bit."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from node import H100, H200, HERE, TORCH, Build, Node, uuid

pytestmark = pytest.mark.cuda_build

COMPUTED = {"COMPUTED_BYTES": 1 << 30, "LAUNCH_US": 3000, "L2_BYTES": 16384}
"""All numbers are computed. A device takes longer for an operation than this machine, and its cache is small."""
WORLD = 4


def started(node: Node, folder: Path, where: str, *cases: str, environ: dict[str, str] | None = None) -> Any:
    command: list[str | Path] = [node.build.python, HERE / "inside/every_probe.py", where, *cases]
    return node.start(command, folder, environ)


def lines(process: subprocess.Popen[str], limit: float = 900.0) -> dict[str, Any]:
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()  # it is ours
        out, _ = process.communicate()
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert found or process.returncode < 0, out
    return {each["case"]: each for each in found}


def ranks(node: Node, folder: Path, *cases: str) -> list[dict[str, Any]]:
    """Return the lines of each rank. A rank is a process that sees its own device alone.

    When the first has ended the others have a few seconds: they wait for ever for one that found something wrong.
    """
    meeting = folder / "meeting"
    every = [
        started(node, folder, f"rank:{rank}:{WORLD}:{meeting}", *cases, environ={"CUDA_VISIBLE_DEVICES": uuid(rank)})
        for rank in range(WORLD)
    ]
    until = time.monotonic() + 300
    while time.monotonic() < until and all(each.poll() is None for each in every):
        time.sleep(0.1)
    return [lines(each, 30.0) for each in every]


def errors(found: dict[str, Any]) -> dict[str, str]:
    return {name: each["error"] for name, each in found.items() if "error" in each}


def test_every_probe_of_one_device_finds_its_numbers_right(build: Build, tmp_path: Path) -> None:
    found = lines(started(Node(build, H200, 1, COMPUTED), tmp_path, "alone"))
    assert errors(found) == {}
    assert len(found) == 25
    assert {name: each["metrics"] for name, each in found.items() if name in ("exact.bf16", "memory")} == {
        "exact.bf16": {"exact_matmul.bf16": 0},
        "memory": {"memory_pattern.cold": 0},
    }


def test_every_copy_between_peers_arrives(build: Build, tmp_path: Path) -> None:
    found = lines(started(Node(build, H200, WORLD, COMPUTED), tmp_path, "peers"))
    assert errors(found) == {}
    assert len(found) == 4


@pytest.mark.nightly
def test_every_rank_has_the_sums_of_all(build: Build, tmp_path: Path) -> None:
    for found in ranks(Node(build, H200, WORLD, {**COMPUTED, "LAUNCH_US": 3}), tmp_path):
        assert errors(found) == {}
        assert set(found) == {"all_reduce", "ddp"}


PRODUCTS = [f"matmul.{dtype}=mm.out" for dtype in ("fp64", "fp32", "tf32", "bf16", "fp16")]
FLIPS = {
    **dict.fromkeys([*PRODUCTS, "matmul.fp8=_scaled_mm", "matmul.int8=_int_mm"], "operand set 0"),
    **dict.fromkeys(["best=mm.out", "soak=mm.out"], "operand set 0"),
    **{f"exact.{dtype}=mm.default@0": "integers, against the host" for dtype in ("bf16", "fp16", "fp32")},
    "exact.fp32=mm.out@0": "integers, against the first product",
    "mamf.bf16=mm.out": "from the product in fp64",
    "mamf.fp8=_scaled_mm": "from the product in fp64",
    "stream.copy_kernel=add.out": "the arrays do not hold the expected result",
    "stream.triad=add.out": "the arrays do not hold the expected result",
    "stream.copy=copy_:d2d": "the arrays do not hold the expected result",
    "stream.dot=dot": "the arrays do not hold the expected result",
    "stream.read=sum": "the arrays do not hold the expected result",
    "host_copy.d2h=copy_:d2h": "the data that arrived (d2h) differ",
    "host_copy.h2d=copy_:h2d": "the data that arrived (h2d) differ",
    "host_copy.both=copy_:d2h": "the data that arrived (d2h) differ",
    "host_copy_all=copy_:h2d": "the data that arrived (h2d) differ",
    "training=mm.default*1": "differ from those of its first go",
    "memory=mul_*1@17": "words did not keep what was written",
}


@pytest.mark.skipif(TORCH.startswith("2.6."), reason="its CPU build multiplies no fp8")
def test_one_wrong_bit_in_each_kind_of_data_is_seen_by_its_check(build: Build, tmp_path: Path) -> None:
    found = errors(lines(started(Node(build, H200, 1, COMPUTED), tmp_path, "alone", *FLIPS)))
    unseen = [name for name, words in FLIPS.items() if words not in found.get(name, "")]
    assert not unseen, found


@pytest.mark.parametrize(
    "case",
    ["peer_copy.one_way"]
    + [
        pytest.param(case, marks=pytest.mark.nightly)
        for case in ("peer_copy.both", "peer_copy_all.rounds", "peer_copy_all.all")
    ],
)
def test_one_wrong_bit_between_peers_is_seen(build: Build, tmp_path: Path, case: str) -> None:
    found = lines(started(Node(build, H200, 2, COMPUTED), tmp_path, "peers", f"{case}=copy_:p2p"))
    assert "the data that arrived differ from the data that were sent" in errors(found)[f"{case}=copy_:p2p"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("all_reduce", "values are wrong on rank 0"),
        pytest.param("ddp", "differ from those of", marks=pytest.mark.nightly),
    ],
)
def test_one_wrong_bit_in_a_sum_is_seen(build: Build, tmp_path: Path, case: str, words: str) -> None:
    settings = {**COMPUTED, "LAUNCH_US": 3, "FLIP": "all_reduce"}
    said = [errors(each).get(case, "") for each in ranks(Node(build, H200, WORLD, settings), tmp_path, case)]
    assert any(words in each for each in said), said


def rates(node: Node, folder: Path, case: str, count: int, beside: int) -> Sequence[float]:
    """Return `count` results of a case, measured on one core with `beside` busy loops on it."""
    core = ["taskset", "-c", "0"]
    loops = [subprocess.Popen([*core, "sh", "-c", "while :; do :; done"]) for _ in range(beside)]
    try:
        program: list[str | Path] = [*core, node.build.python, HERE / "inside/every_probe.py", "alone", *[case] * count]
        process = node.start(program, folder)
        out, _ = process.communicate(timeout=600)
    finally:
        for each in loops:
            each.kill()
            each.wait()
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert len(found) == count, out
    return [value for each in found for value in each["metrics"].values()]


@pytest.mark.nightly
def test_a_starved_host_does_not_slow_a_short_product(build: Build, tmp_path: Path) -> None:
    """The device would wait between two calls of 0.14 ms: they are queued behind a spin."""
    node = Node(build, H100, 1, {"COMPUTED_BYTES": 1024})
    (quiet,) = rates(node, tmp_path, "full.mamf", 1, 0)
    busy = rates(node, tmp_path, "full.mamf", 4, 4)
    assert all(each == pytest.approx(quiet, rel=0.01) for each in busy), (quiet, busy)


@pytest.mark.skipif(TORCH.startswith("2.6."), reason="a torch that is too old for them")
@pytest.mark.parametrize("dtype", [pytest.param("mxfp8", marks=pytest.mark.nightly), "nvfp4"])
def test_block_formats_are_multiplied_as_a_blackwell_takes_them(build: Build, tmp_path: Path, dtype: str) -> None:
    """And a Hopper, which has none, says so. Nothing is computed: no CPU multiplies them."""
    for capability, lacks in ((100, False), (90, True)):
        node = Node(build, H200, 1, {"COMPUTED_BYTES": 1024, "CAPABILITY": capability})
        found = lines(started(node, tmp_path, "alone", f"full.{dtype}"))
        said = errors(found).get(f"full.{dtype}", "")
        assert said.startswith("NotApplicable" if lacks else ""), said
        assert bool(said) == lacks, said


@pytest.mark.skipif(TORCH != "2.13.0", reason="other versions use other words for CUDA")
def test_scales_that_torch_refuses_are_not_applicable(build: Build, tmp_path: Path) -> None:
    """With the words that it has for ROCm since 7.13, where it wants our scales in another order."""
    node = Node(build, H200, 1, {"COMPUTED_BYTES": 1024, "CAPABILITY": 100})
    found = errors(lines(started(node, tmp_path, "alone", "mistaken.full.mxfp8")))
    assert found["mistaken.full.mxfp8"].startswith("NotApplicable: this torch cannot multiply mxfp8 on this device")
