"""A training step of torch's DistributedDataParallel: its duration, and equal parameters on all ranks."""

from __future__ import annotations

from typing import Any

from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


def operations(*, layers: int, width: int, batch: int) -> float:
    """Return the floating-point operations of one step: the forward pass, and twice as many for the backward pass."""
    return 6.0 * layers * width**2 * batch


@probe(
    "ddp.step_ms",
    runs="ranks",
    unit="ms",
    stresses=["compute", "link"],
    budgets={"quick": 0.0, "standard": 4.0, "long": 10.0},
    verifies="sums",
    cost=Cost("matmul.fp32", operations=operations),
    small={"layers": 2, "width": 64, "batch": 16},
)
def ddp_step(device: Compute, *, layers: int = 4, width: int = 8192, batch: int = 1024) -> ProbeResult:
    """Measure the milliseconds of one step (forward, backward, SGD) of `layers` fp32 layers of `width` x `width`.

    Afterwards the gradients and parameters of all ranks have to be equal to the last bit.

    Raises NotApplicable for a single device, WrongResult if the ranks differ.
    """
    import torch.distributed as dist

    torch = device.torch
    if device.world < 2:
        raise NotApplicable("data-parallel training needs at least two devices")
    device.require_memory(6 * 4 * layers * width**2 + 4 * 4 * layers * batch * width)
    torch.set_float32_matmul_precision("highest")  # an earlier probe may have set another precision
    torch.manual_seed(0)
    stack = [torch.nn.Linear(width, width, bias=False, device=device.torch_device) for _ in range(layers)]
    model = torch.nn.Sequential(*stack)
    ids = None if device.is_cpu else [device.torch_device]
    ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-6)
    torch.manual_seed(device.rank + 1)
    data = torch.randn(batch, width, device=device.torch_device)

    def step() -> None:
        optimizer.zero_grad()
        ddp(data).square().mean().backward()
        optimizer.step()

    conditions = {"layers": layers, "width": width, "batch": batch, "ranks": device.world, "dtype": "fp32"}
    conditions.update(device.blas)
    conditions.update(device.collectives)
    result = device.sample(
        step,
        amount=1.0,
        unit="ms",
        metric="ddp.step_ms",
        collective=True,
        conditions=conditions,
    )
    step()
    _check_equal(device, ddp, dist)
    return result


def _check_equal(device: Compute, ddp: Any, dist: Any) -> None:
    """Compare gradients and parameters of this rank with those of rank 0, bit by bit. Raises WrongResult."""
    torch = device.torch
    for what in ("gradient", "parameter"):
        for place, parameter in enumerate(ddp.parameters()):
            own = (parameter.grad if what == "gradient" else parameter).detach()
            first = own.clone()
            dist.broadcast(first, 0)
            if not torch.equal(own.view(torch.int32), first.view(torch.int32)):
                raise WrongResult(f"ddp_step: {what} {place} of rank {device.rank} differs from that of rank 0")
