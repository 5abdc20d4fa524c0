"""A training step of torch's DistributedDataParallel: its time, and the communication that it does not hide."""

from __future__ import annotations

from typing import Any

from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


def operations(*, layers: int, width: int, batch: int) -> float:
    """Return the floating-point operations of one step: those of the forward pass, and twice as many backward."""
    return 6.0 * layers * width**2 * batch


@probe(
    "ddp.step_ms",
    runs="ranks",
    unit="ms",
    stresses=["compute", "link"],
    also={"ddp.exposed": "1"},
    budgets={"quick": 3.0, "standard": 10.0, "long": 30.0},
    verifies="sums",
    cost=Cost("matmul.fp32", operations=operations),
    small={"layers": 2, "width": 64, "batch": 16},
)
def ddp_step(device: Compute, *, layers: int = 4, width: int = 8192, batch: int = 1024) -> list[ProbeResult]:
    """Milliseconds of one step (forward, backward, SGD) of `layers` linear layers of `width` x `width`, fp32.

    Also `ddp.exposed` = (step - step without synchronisation) / bare all-reduce of the same gradients: 0 when
    communication is hidden behind the backward pass, 1 when none of it is (on a CPU both share the cores, so it
    says little). Afterwards gradients and parameters must be equal, bit for bit, on all ranks.
    """
    import torch.distributed as dist

    torch, budget = device.torch, device.seconds / 3
    if device.world < 2:
        raise NotApplicable("one device has nobody to train with")
    device.require_memory(6 * 4 * layers * width**2 + 4 * 4 * layers * batch * width)
    torch.set_float32_matmul_precision("highest")  # whatever the probe before it left
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

    def step_unsynchronised() -> None:
        with ddp.no_sync():
            step()

    conditions = {"layers": layers, "width": width, "batch": batch, "ranks": device.world, "dtype": "fp32"}
    conditions.update(device.blas)
    conditions.update(device.collectives)
    timed: dict[str, Any] = {
        "amount": 1.0,
        "unit": "ms",
        "as_duration": True,
        "collective": True,
        "seconds": budget,
    }
    synchronised = device.sample(step, metric="ddp.step_ms", conditions=conditions, **timed)
    step()
    _check_equal(device, ddp, dist)
    gradients = torch.cat([each.grad.flatten() for each in ddp.parameters()])
    bare = device.sample(lambda: dist.all_reduce(gradients), **timed)
    local = device.sample(step_unsynchronised, **timed)
    exposed = (_mean(synchronised) - _mean(local)) / _mean(bare)
    synchronised.details["without_sync_ms"], synchronised.details["all_reduce_ms"] = _mean(local), _mean(bare)
    share = ProbeResult("ddp.exposed", "1", value=exposed, conditions=conditions)
    return [synchronised, share]


def _mean(finding: ProbeResult) -> float:
    return sum(finding.samples) / len(finding.samples)


def _check_equal(device: Compute, ddp: Any, dist: Any) -> None:
    """Every rank compares its gradients and parameters with those of rank 0, as integers."""
    torch = device.torch
    for what in ("gradient", "parameter"):
        for place, parameter in enumerate(ddp.parameters()):
            own = (parameter.grad if what == "gradient" else parameter).detach()
            first = own.clone()
            dist.broadcast(first, 0)
            if not torch.equal(own.view(torch.int32), first.view(torch.int32)):
                raise WrongResult(f"ddp: {what} {place} of rank {device.rank} differs from that of rank 0")
