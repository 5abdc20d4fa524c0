"""matmul_mamf does what mamf-finder does: its data, its order of calls, its count, its mean."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from support import torch_features
from support.probe_device import Instead, compute

from pytest_accel import probes
from pytest_accel.probes.declare import declaration_for
from pytest_accel.probes.device import fast_paths
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute

SIDES = [48, 64, 96]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compute]:
    """One thread of this processor, on which every dtype counts as fast."""
    monkeypatch.setattr(fast_paths, "refuse_slow", lambda device, dtype: None)
    found, threads = compute(), torch.get_num_threads()
    found.seconds = 0.0
    torch.set_num_threads(1)
    yield found
    torch.set_num_threads(threads)


class Mm:
    """torch.mm that keeps what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, bool]] = []
        self.last: Any = None

    def __call__(self, a: Any, b: Any, out: Any) -> Any:
        self.calls.append((a, b, self.last is not None and torch.equal(out, self.last)))
        torch.mm(a, b, out=out)
        self.last = out.clone()
        return out


def test_the_value_is_the_mean_time_of_a_hundred_calls_after_fifty(device: Compute) -> None:
    mm = Mm()
    device.torch, device.seconds = Instead(torch, mm=mm), 1e-6
    found = probes.matmul_mamf(device, dtype="bf16", shapes={"bf16": SIDES})
    assert (found.metric, found.unit) == ("matmul_mamf.bf16", "TFLOPS")
    assert len(found.samples) == 100
    operations = 2 * 48 * 64 * 96 / 1e12
    assert operations / fmean(found.seconds) == pytest.approx(len(found.samples) / sum(1 / x for x in found.samples))
    assert len(mm.calls) == 1 + 150 + 150 + 1, "one before, a burst that warms up, one that counts, one that is checked"
    assert device.gate.blocks == [True, False]  # type: ignore[attr-defined]


def test_the_operands_are_those_of_the_tool(device: Compute) -> None:
    """Normal data, B column by column, and a result that is written over between two calls."""
    mm = Mm()
    device.torch = Instead(torch, mm=mm)
    probes.matmul_mamf(device, dtype="bf16", shapes={"bf16": [256, 192, 128]})
    a, b, _ = mm.calls[0]
    assert (a.shape, a.stride()) == ((256, 128), (128, 1))
    assert (b.shape, b.stride()) == ((128, 192), (1, 128))
    for data in (a, b):
        assert data.dtype == torch.bfloat16
        assert abs(data.float().mean()) < 0.05
        assert data.float().std() == pytest.approx(1, abs=0.05)
    assert not any(same for _, _, same in mm.calls)


def test_fp8_has_no_scale_and_no_fast_accumulation(device: Compute) -> None:
    torch_features.skip_without_fp8()
    calls: list[tuple[Any, ...]] = []

    def scaled_mm(*operands: Any, **how: Any) -> Any:
        calls.append((*operands, how))
        return torch._scaled_mm(*operands, **how)

    device.torch = Instead(torch, _scaled_mm=scaled_mm)
    found = probes.matmul_mamf(device, dtype="fp8", shapes={"fp8": SIDES})
    a, b, *scales, how = calls[0]
    assert len(found.samples) == 100
    assert a.dtype == b.dtype == how["out"].dtype == torch.float8_e4m3fn
    assert a.float().std() == pytest.approx(1, abs=0.1), "not stretched to the range of the format"
    assert [scale.item() for scale in scales] == [1.0, 1.0]
    assert not how.get("use_fast_accum", False)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_a_wrong_product_is_seen(device: Compute, dtype: str) -> None:
    def wrong(call: Any) -> Any:
        def multiply(*operands: Any, out: Any) -> None:
            call(*operands, out=out)
            out[7, 14] = out[7, 14].float() + 64

        return multiply

    device.torch = Instead(torch, mm=wrong(torch.mm), _scaled_mm=wrong(getattr(torch, "_scaled_mm", None)))
    if dtype == "fp8":
        torch_features.skip_without_fp8()
    with pytest.raises(WrongResult, match=rf"{dtype} 48x64x96 as mamf-finder multiplies it: is off by"):
        probes.matmul_mamf(device, dtype=dtype, shapes={dtype: SIDES})


@pytest.mark.nightly
def test_what_fp8_cannot_represent_is_no_wrong_product(device: Compute) -> None:
    """At 14336 deep some elements exceed 448, the largest number of e4m3; AMD's variant makes no number of them."""
    torch_features.skip_without_fp8()

    def scaled_mm(*operands: Any, out: Any) -> None:
        torch._scaled_mm(*operands, out=out)
        out.copy_(torch.where(out.float().abs() == 448, torch.nan, out.float()))

    device.torch = Instead(torch, _scaled_mm=scaled_mm)
    found = probes.matmul_mamf(device, dtype="fp8", shapes={"fp8": [16, 16, 2**16]})
    assert found.samples


@pytest.mark.parametrize("shapes", [None, {}, {"bf16": SIDES}])
def test_without_a_shape_there_is_nothing_to_compare_with(device: Compute, shapes: dict[str, list[int]] | None) -> None:
    with pytest.raises(NotApplicable, match="no shape of mamf-finder is known for fp8"):
        probes.matmul_mamf(device, dtype="fp8", shapes=shapes)


def test_the_method_names_the_shape_and_the_version() -> None:
    method = declaration_for(probes.matmul_mamf).method_of
    found = method("matmul_mamf.fp8", {"shapes": {"fp8": [1024, 9216, 14336]}})
    assert (found["procedure"], found["shape"]) == ("mamf-finder 2", "1024x9216x14336")
    assert (found["layout"], found["accumulation"], found["scaling"]) == ("TN", "fp32", "1 (no scaling)")
    assert (found["warm_up"], found["calls"], found["statistic"]) == (50, 100, "mean")
    assert "scaling" not in method("matmul_mamf.bf16", {})
    assert method("matmul_mamf.bf16", {})["shape"] == "not set"
