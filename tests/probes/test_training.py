"""The training step on one device: it is a step of the block that torch has itself, and it has the same bits again."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from support.probe_device import AtOnce, cpu

from pytest_accel import probes
from pytest_accel.probes.device import blas
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute
from pytest_accel.probes.training import Training, operations

WIDTH, HEADS = 64, 4
BLOCK: dict[str, Any] = {"width": WIDTH, "heads": HEADS, "sequence": 16, "batch": 2}
NAMES = {
    "norm.weight": "norm1.weight",
    "norm.bias": "norm1.bias",
    "qkv.weight": "self_attn.in_proj_weight",
    "qkv.bias": "self_attn.in_proj_bias",
    "out.weight": "self_attn.out_proj.weight",
    "out.bias": "self_attn.out_proj.bias",
    "mlp_norm.weight": "norm2.weight",
    "mlp_norm.bias": "norm2.bias",
    "up.weight": "linear1.weight",
    "up.bias": "linear1.bias",
    "down.weight": "linear2.weight",
    "down.bias": "linear2.bias",
}
"""The names of our weights in torch's own layer."""


@pytest.fixture
def device() -> Compute:
    found = Compute(cpu(), AtOnce())
    found.seconds = 0.1
    return found


def test_a_step_is_that_of_torchs_own_transformer_layer(device: Compute) -> None:
    ours = Training(device, "fp32", **BLOCK)
    theirs = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    layer = dict(theirs.named_parameters())
    weights = dict(ours.model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            layer[NAMES[name]].copy_(weight)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-4)
    loss = torch.nn.functional.mse_loss(theirs(ours._data), ours._target)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    torch.testing.assert_close(ours.step(), loss.detach())
    for name, weight in weights.items():
        torch.testing.assert_close(weight.grad, layer[NAMES[name]].grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(weight, layer[NAMES[name]], rtol=1e-4, atol=2e-6)


def test_its_operations_are_those_that_torch_counts(device: Compute) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    training = Training(device, "fp32", **BLOCK)
    with FlopCounterMode(display=False) as counted:
        training.step()
    inputs = 2 * 2 * 16 * WIDTH * 3 * WIDTH  # nobody asks for the gradient of the data
    assert counted.get_total_flops() in (operations(width=WIDTH, sequence=16, batch=2) - n for n in (0, inputs))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_same_step_has_the_same_bits(device: Compute, dtype: str) -> None:
    device.fast_paths = {dtype: {"speed": 1.0, "why_not": ""}}
    found = probes.training_step(device, dtype=dtype, **BLOCK)
    assert (found.wrong, found.statistic, found.conditions["dtype"]) == (None, "median", dtype)
    low, middle, high = found.details["step_ms"]
    assert 0 < low <= middle <= high
    again = probes.training_step(device, dtype=dtype, **BLOCK)
    assert again.details["checksum"] == found.details["checksum"]
    assert again.details["checksum_of"] == found.details["checksum_of"]


def test_without_a_fast_path_it_is_done_in_fp32(device: Compute) -> None:
    device.fast_paths = {"bf16": {"speed": 0.1, "why_not": "emulated"}}
    assert probes.training_step(device, **BLOCK).conditions["dtype"] == "fp32"


def test_a_bit_that_flips_in_one_gradient_later_is_seen(device: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    class Flips(torch.optim.AdamW):
        """Flip one bit of the gradients after the optimizer has used them, from the second step on."""

        def step(self, *more: Any) -> None:  # type: ignore[override]
            super().step(*more)
            steps.append(1)
            if len(steps) > 1:
                self.param_groups[0]["params"][2].grad.view(-1).view(torch.uint8)[8] ^= 1

    monkeypatch.setattr(torch.optim, "AdamW", Flips)
    said = probes.training_step(device, **BLOCK).wrong
    assert said == "in the same training step the bits of its gradients differ from those of its first go"


def test_a_loss_that_is_no_number_is_wrong_on_a_device_that_is_compared_with_none(
    device: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", "a library without an order of additions")
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda x: x * torch.inf)
    device.fast_paths = {"bf16": {"speed": 1.0, "why_not": ""}}
    with pytest.raises(WrongResult, match="the loss of a training step is no finite number"):
        probes.training_step(device, **BLOCK)


def test_an_operation_without_a_deterministic_algorithm_is_said_and_not_judged(
    device: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's softmax stands for it: it warns as torch does, and gives other bits every time."""
    softmax, goes = torch.Tensor.softmax, iter(range(10**6))
    words = "softmax_cpu does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms'"

    def any_order(scores: torch.Tensor, dim: int) -> torch.Tensor:
        if torch.are_deterministic_algorithms_enabled():
            warnings.warn(words, UserWarning, stacklevel=1)
        return softmax(scores + next(goes) * 1e-3 * scores, dim)

    monkeypatch.setattr(torch.Tensor, "softmax", any_order)
    found = probes.training_step(device, **BLOCK)
    assert (found.wrong, found.details["bits"]) == (None, "softmax_cpu does not have a deterministic implementation")
    assert "checksum" not in found.details


def test_the_settings_of_torch_are_as_before() -> None:
    with blas.deterministic(torch) as doubts:
        assert torch.are_deterministic_algorithms_enabled()
        warnings.warn("CUBLAS_WORKSPACE_CONFIG=:4096:8", UserWarning, stacklevel=1)
    assert (doubts, torch.are_deterministic_algorithms_enabled()) == ([], False)


def test_a_width_that_the_heads_do_not_divide_is_refused(device: Compute) -> None:
    with pytest.raises(NotApplicable, match="width=64 is not a multiple of heads=5"):
        probes.training_step(device, **{**BLOCK, "heads": 5})
