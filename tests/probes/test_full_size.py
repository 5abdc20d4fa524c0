"""Our probes at the size of an H200, judged by torch's own checks on fake CUDA tensors: see `fake_cuda`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from fake_cuda import HOST_LINK, LINK, Queue, gpus

from pytest_accel import probes
from pytest_accel.core.stats import estimate_rate
from pytest_accel.probes.device.torch_device import ProbeResult

HOPPER = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
MAMF = {"bf16": [2048, 2048, 13312], "fp8": [1024, 9216, 14336]}
ALONE: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    *((probes.matmul, {"dtype": dtype}) for dtype in HOPPER),
    *((probes.matmul_best, {"dtype": dtype}) for dtype in ("bf16", "fp8")),
    *((probes.matmul_mamf, {"dtype": dtype, "shapes": MAMF}) for dtype in MAMF),
    *((probes.exact_matmul, {"dtype": dtype}) for dtype in ("bf16", "fp32")),
    *((probes.stream, {"op": op}) for op in ("copy_kernel", "triad", "dot", "copy", "read")),
    *((probes.host_copy, {"direction": direction}) for direction in ("h2d", "d2h", "both")),
    (probes.memory_pattern, {}),
    (probes.soak, {}),
    (probes.collective, {"size": "8GiB"}),
]
SMALL = 2**21
"""Bytes that nobody asks for: scales, sums, the small change of an allocator."""


def findings(found: Any) -> list[ProbeResult]:
    return list(found) if isinstance(found, (list, Iterator)) else [found]


def rate(finding: ProbeResult) -> float:
    return estimate_rate(finding.samples).mean


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """There are no other ranks to wait for."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda payload: payload.zero_())
    return monkeypatch


def measure(
    monkeypatch: pytest.MonkeyPatch, probe: Callable[..., Any], conditions: dict[str, Any], **part: Any
) -> list[ProbeResult]:
    """What the probe found on one device, which takes no more memory than it asked for."""
    with gpus(monkeypatch, **part) as (device, node):
        asked: list[int] = []
        require = device.require_memory

        def ask(size: int) -> None:
            asked.append(node.live[0] + size)
            require(size)

        monkeypatch.setattr(device, "require_memory", ask)
        device.world = 8
        found = findings(device.run(probe, conditions))
        if probe is not probes.memory_pattern:  # which takes whatever is free
            assert node.peak[0] <= max(asked, default=0) + SMALL, "what it asked for would not have been enough"
    return found


def listed() -> list[Any]:
    """`ALONE`, with readable names; what fakes more than a second of work is slow."""
    slow = ("matmul_best-bf16", "matmul_best-fp8", "matmul-fp64", "exact_matmul-bf16")
    words = [[each for each in how.values() if isinstance(each, str)] for _, how in ALONE]
    names = {f"{each.__name__}-{'-'.join(own)}": (each, how) for (each, how), own in zip(ALONE, words, strict=True)}
    assert set(slow) <= set(names)
    return [pytest.param(*case, id=name, marks=[pytest.mark.nightly] * (name in slow)) for name, case in names.items()]


@pytest.mark.nightly
@pytest.mark.parametrize(("probe", "conditions"), listed())
def test_torch_takes_every_call_and_the_memory_is_what_was_asked_for(
    quick: pytest.MonkeyPatch, probe: Callable[..., Any], conditions: dict[str, Any]
) -> None:
    found = measure(quick, probe, conditions)
    assert all(each.samples or each.value is not None for each in found)
    assert not any(each.wrong for each in found)


@pytest.mark.nightly
def test_a_product_that_would_take_seconds_is_made_smaller(quick: pytest.MonkeyPatch) -> None:
    """fp64 on a card for graphics. Every kernel takes 10 ms here, so 2048 cubed is 1.7 TFLOPS."""
    (slow,), (usual,) = (measure(quick, probes.matmul, {"dtype": dtype}) for dtype in ("fp64", "fp32"))
    assert (slow.conditions["m"], slow.conditions["shape"]) == (4096, "4096x4096x4096")
    assert usual.conditions["m"] == 8192
    assert "shape" not in usual.conditions, "it is the one that the method declares"


# -- copies, by the time that they take


@pytest.mark.parametrize(("direction", "ways"), [("h2d", 1), ("d2h", 1), ("both", 2)])
def test_both_directions_of_the_host_link_are_copied_at_once(
    quick: pytest.MonkeyPatch, direction: str, ways: int
) -> None:
    with gpus(quick) as (device, _):
        assert rate(probes.host_copy(device, direction=direction)) == pytest.approx(ways * HOST_LINK / 1e9, rel=0.01)


def test_the_two_directions_wait_for_each_other_once_a_block_and_not_in_every_copy(quick: pytest.MonkeyPatch) -> None:
    waits: list[Queue] = []
    wait_stream = Queue.wait_stream

    def counted(queue: Queue, other: Queue) -> None:
        waits.append(other)
        wait_stream(queue, other)

    quick.setattr(Queue, "wait_stream", counted)
    with gpus(quick) as (device, _):
        device.seconds = 2.0
        found = probes.host_copy(device, direction="both")
    blocks = len(found.samples) + found.details["warmup_blocks"]
    assert len(waits) < 2 * found.conditions["operations_per_block"] * blocks, "fewer than there were copies"


@pytest.mark.parametrize(("direction", "ways"), [("one_way", 1), ("both", 2)])
def test_a_copy_to_a_peer_waits_for_nothing_but_the_one_before_it(
    quick: pytest.MonkeyPatch, direction: str, ways: int
) -> None:
    with gpus(quick, 3) as (device, _):
        device.seconds = 0.9
        for row in probes.peer_copy(device, direction=direction):
            for cell in row.details["cells"].values():
                assert estimate_rate(cell["samples"]).mean == pytest.approx(ways * LINK / 1e9, rel=0.005)


@pytest.mark.parametrize(("how", "sent"), [("rounds", 2), ("all", 3)])
def test_no_copy_waits_for_those_between_others(quick: pytest.MonkeyPatch, how: str, sent: int) -> None:
    """torch orders a copy behind all work on the receiver's current stream: on one stream, all that it receives."""
    with gpus(quick, 4) as (device, _):
        device.seconds = 0.4
        for found in probes.peer_copy_all(device, how=how):
            assert rate(found) == pytest.approx(sent * LINK / 1e9, rel=0.02)


def test_peers_compare_where_the_copy_arrived(quick: pytest.MonkeyPatch) -> None:
    """The stand-in compares tensors of one device only."""
    with gpus(quick, 2) as (device, node):
        assert [each.subject for each in probes.peer_copy(device)] == [each.uuid for each in device.devices]
        assert max(node.peak) < 2**31
