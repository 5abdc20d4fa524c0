"""The packaged suite on torch's CUDA build: what it reports are the rates that the stand-in keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from node import H200, Build, Node, Ran

pytestmark = pytest.mark.cuda_build

RATES = {
    "matmul.bf16": "TFLOPS_BF16",
    "matmul.fp8": "TFLOPS_FP8",
    "soak.rate": "TFLOPS_BF16",
    "host_copy.h2d": "H2D_GBS",
    "host_copy.d2h": "D2H_GBS",
    "stream.copy_kernel": "MEMORY_GBS",
    "stream.triad": "MEMORY_GBS",
}
TOGETHER = {"peer_copy.one_way": "PEER_GBS", "all_reduce.busbw@8GiB": "BUS_GBS"}
WITHIN = 0.01
LAUNCHES = {"stream.copy_kernel": 0.25, "stream.triad": 0.25}
"""The host times each call of `stream`, as BabelStream does: five milliseconds, of which a busy one takes its share."""
CROWDED = {**LAUNCHES, "matmul.fp8": 0.5}
"""A product in fp8 takes 0.8 ms: eight workers on two cores launch it later than their device computes it."""


def refuse_other_rates(
    ran: Ran, rates: Mapping[str, str], part: Mapping[str, object], launches: Mapping[str, float]
) -> None:
    """Hold each figure of each device against the rate that its node keeps: at most that, and hardly less.

    `launches` has, by metric, the largest share of a figure that the host's launches may take.
    """
    for metric, name in rates.items():
        kept = float(str(part[name]))
        found = [each["value"] for each in ran.record["measurements"] if each["metric"] == metric]
        assert found, metric
        below = launches.get(metric, WITHIN)
        assert all(kept * (1 - below) < each < kept * 1.002 for each in found), (metric, kept, found)


def test_one_gpu_of_a_microvm_is_accepted_at_the_rates_that_it_keeps(build: Build, tmp_path: Path) -> None:
    """fp8 is 1 % short of what an older torch had, and the host link is that of another host: neither rejects."""
    part = {**H200, "MICROVM": 1, "TFLOPS_FP8": 1365, "D2H_GBS": 46.8}
    ran = Node(build, part).suite(tmp_path, "--accel-sku=h200-sxm", "--accel-platform=single")

    assert ran.status == 0, ran.out
    assert ran.closing.startswith("ACCEPTED 1/1 devices as h200-sxm at quick")
    assert " notes; " in ran.closing, "below single means that others published"
    refuse_other_rates(ran, RATES, part, LAUNCHES)


@pytest.mark.nightly
@pytest.mark.devices  # by itself: eight workers take the whole machine
def test_eight_gpus_are_accepted_at_the_rates_that_they_keep(build: Build, tmp_path: Path) -> None:
    """Their host is another one than that of the published figures: it sends what healthy hosts of an H100 send."""
    part = {**H200, "D2H_GBS": 46.8}
    ran = Node(build, part, 8).suite(tmp_path, "--accel-sku=h200-sxm", "--accel-platform=hgx8")

    assert ran.status == 0, ran.out
    assert ran.closing.startswith("ACCEPTED 8/8 devices as h200-sxm at quick")
    refuse_other_rates(ran, {**RATES, **TOGETHER}, part, CROWDED)
