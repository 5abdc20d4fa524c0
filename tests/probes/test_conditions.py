"""Values of conditions that no probe could use are refused before anything is measured."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_accel import probes
from pytest_accel.run.request import request_of


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (probes.matmul, {"m": -1}, "matmul cannot be measured: m: expected a whole number above zero, found -1"),
        (probes.matmul, {"m": 0, "n": 4096.5}, "m: expected a whole number above zero, found 0; n: expected a whole"),
        (probes.soak, {"k": "4096"}, "k: expected a whole number above zero, found '4096'"),
        (probes.exact_matmul, {"m": True}, "m: expected a whole number above zero, found True"),
        (probes.matmul, {"m": None}, "m: expected a whole number above zero, found None"),
        (probes.host_copy, {"mib": 0}, "mib: expected a whole number above zero"),
        (probes.ddp_step, {"layers": -4}, "layers: expected a whole number above zero"),
        (probes.matmul_best, {"shapes": [(64, 64)]}, r"shapes: expected a shape of three sides \(m, n, k\), found"),
        (probes.matmul_best, {"shapes": [(64, 64, -1)]}, "shapes: expected a whole number above zero, found -1"),
        (probes.matmul_best, {"shapes": "64x64x64"}, "shapes: expected a list, found '64x64x64'"),
        (probes.matmul_mamf, {"shapes": [1, 2, 3]}, "shapes: expected a mapping, found"),
        (probes.matmul, {"dtype": "bf61"}, "dtype: 'bf61' is not known; did you mean 'bf16'"),
        (probes.soak, {"dtype": "fp3"}, "dtype: 'fp3' is not known"),
        (probes.stream, {"op": "relu"}, "op: 'relu' is not known"),
        (probes.stream, {"op": 5}, "op: expected a name, found 5"),
        (probes.collective, {"size": "8GB"}, "size: '8GB' is not known: expected a size such as 8GiB"),
        (probes.collective, {"size": "0MiB"}, "size: '0MiB' is not known: expected a size such as 8GiB"),
        (probes.host_copy, {"direction": "up"}, "direction: 'up' is not known; known: both, d2h, h2d"),
        (probes.peer_copy, {"direction": "up"}, "direction: 'up' is not known; known: both, one_way"),
        (probes.peer_copy_all, {"how": "twice"}, "how: 'twice' is not known; known: all, rounds"),
    ],
)
def test_a_value_that_a_packaged_probe_cannot_use(function: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        request_of(function, given, None, None)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (probes.matmul, {"dtype": "fp8", "m": 96}),
        (probes.memory_pattern, {"mib": None}),
        (probes.exact_matmul, {"dtype": "int8"}),  # exists; the probe says that it does not support it
        (probes.matmul_best, {"shapes": [(64, 64, 64)], "published": {"bf16": [[64, 64, 64]]}}),
        (probes.matmul_mamf, {"shapes": {"bf16": [64, 64, 64]}}),
    ],
)
def test_a_value_that_it_can_use(function: Any, given: dict[str, Any]) -> None:
    assert request_of(function, given, None, None).conditions.items() >= given.items()


def own(device: Any, *, m: int = 1) -> None:
    """A user's probe."""


def test_the_values_of_a_users_probe_are_the_users() -> None:
    assert request_of(own, {"m": -1}, None, None).conditions == {"m": -1}
