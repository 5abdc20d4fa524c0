"""A training step of a transformer block: its rate on each device, and over all of them with DistributedDataParallel.

Every device does the same step with the same weights and the same data, so that the bits of loss and gradients tell a
device that computes wrongly. With DistributedDataParallel all ranks take as long as the slowest one, so the rate of a
device is that of a step without the others.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.stats import significant
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device import blas, fast_paths, gemm
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.exact_matmul import NOT_COMPARED, checksum

if TYPE_CHECKING:
    from torch import Tensor

SEED = 20
RATE = 1e-4
"""The learning rate: steps of AdamW are about as long, and most weights in bf16 still change by them."""
OF_PRODUCTS = 0.58
"""The rate of a step as a share of that of a large product, for a simulated node: 400 TFLOPS for each H100 with bf16
(Llama 3, arXiv 2407.21783, table 4) of about 690."""
SAME = "in the same training step the bits of"
NOT_FINITE = "the loss of a training step is no finite number"
SMALL = {"width": 32, "heads": 4, "sequence": 16, "batch": 2}


def operations(*, width: int, sequence: int, batch: int) -> float:
    """Return the floating-point operations of the products of one step.

    A token takes 2 for each of 12 `width`^2 weights, and 4 `sequence` `width` in the attention; the backward pass takes
    twice as many as the forward pass (Narayanan et al., arXiv 2104.04473, appendix).
    """
    return 3.0 * batch * sequence * (24 * width**2 + 4 * sequence * width)


class Training:
    """A transformer block of one layer with its data and its optimizer (AdamW), everything from one seed.

    The block is `x + attention(norm(x))`, then `x + mlp(norm(x))`, as in GPT-2. The loss is the mean square of the
    distance to a random target. Data and target have `batch` x `sequence` x `width` elements.
    """

    def __init__(self, device: Compute, dtype: str, *, width: int, heads: int, sequence: int, batch: int) -> None:
        if width % heads:
            raise NotApplicable(f"width={width} is not a multiple of heads={heads}")
        dtype = dtype_on(device, dtype)
        shape = {"width": width, "heads": heads, "sequence": sequence, "batch": batch}
        self.conditions = {"dtype": dtype, **shape, "optimizer": "AdamW", **device.blas}
        torch, size = device.torch, gemm.RESULT_BYTES[dtype]
        weights, activations = 12 * width**2, batch * sequence * (24 * width + 5 * heads * sequence)
        device.require_memory(size * (6 * weights + 2 * activations))
        blas.settle(torch, dtype, device.is_cpu or device.other)
        options = {"device": device.torch_device, "dtype": gemm.torch_dtype(device, dtype)}
        self._torch, self._heads = torch, heads
        sides = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
        norms = {name: torch.nn.LayerNorm(width, **options) for name in ("norm", "mlp_norm")}
        linear = {name: torch.nn.Linear(*sizes, **options) for name, sizes in sides.items()}
        self.model = torch.nn.ModuleDict(norms | linear)
        self.model.forward = self._forward
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self._data, self._target = (torch.empty(batch, sequence, width, **options) for _ in range(2))
        self.begin()

    def begin(self) -> None:
        """Return to the first step: the same weights and data on every device of a kind, and no history."""
        self._torch.manual_seed(SEED)
        for layer in self.model.values():
            layer.reset_parameters()
        self.optimizer.state.clear()
        for tensor in (self._data, self._target):
            tensor.normal_()

    def backward(self, model: Any = None) -> Tensor:
        """Compute the gradients by the block, or by the `model` that wraps it, and return the loss."""
        self.optimizer.zero_grad()
        loss: Tensor = (((model or self.model)(self._data) - self._target).float().square()).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def step(self, model: Any = None) -> Tensor:
        """Do a whole step, and return the loss before it."""
        loss = self.backward(model)
        self.optimizer.step()
        return loss

    def sums(self, loss: Tensor) -> dict[str, int]:
        """Return the checksums of the bits of loss, gradients and weights."""
        weights = list(self.model.parameters())
        parts = {"loss": [loss], "gradients": [weight.grad for weight in weights], "weights": weights}
        return {part: self._sum(tensors) for part, tensors in parts.items()}

    def _sum(self, tensors: Iterable[Any]) -> int:
        total = 0
        for tensor in tensors:
            rows = tensor.detach().view(-1, tensor.shape[-1] if tensor.dim() else 1)
            bits = rows.view({2: self._torch.int16, 4: self._torch.int32}[tensor.element_size()])
            total = (31 * total + checksum(self._torch, bits)) % 2**63
        return total

    def _forward(self, x: Tensor) -> Tensor:
        layers, (batch, sequence, width) = self.model, x.shape
        split = layers["qkv"](layers["norm"](x)).view(batch, sequence, 3, self._heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        # torch's own function for attention may select a nondeterministic algorithm (scaled_dot_product_attention)
        weights = (query @ key.transpose(-1, -2) / math.sqrt(width // self._heads)).softmax(-1)
        x = x + layers["out"]((weights @ value).transpose(1, 2).reshape(x.shape))
        result: Tensor = x + layers["down"](self._torch.nn.functional.gelu(layers["up"](layers["mlp_norm"](x))))
        return result


def dtype_on(device: Compute, dtype: str) -> str:
    """Return the dtype, or fp32 if the device does not multiply it fast."""
    try:
        gemm.refuse_unsupported(device, dtype, (64, 64, 64))
        fast_paths.refuse_slow(device, dtype)
    except NotApplicable:
        return "fp32"
    return dtype


@probe(
    "training.rate",
    unit="TFLOPS",
    stresses=["compute"],
    budgets={"quick": 0.0, "standard": 3.0, "long": 7.0},
    verifies="products",
    cost=Cost("matmul.{dtype}", share=OF_PRODUCTS, operations=operations),
    small=SMALL,
)
def training_step(
    device: Compute, *, dtype: str = "bf16", width: int = 4096, heads: int = 32, sequence: int = 2048, batch: int = 2
) -> ProbeResult:
    """Measure the median rate in TFLOPS of a training step, by the operations of its products (`operations`).

    The step is that of `Training`: forward and backward pass and AdamW, in bf16, or in fp32 where bf16 is not fast. No
    device waits for another one. The detail `step_ms` has the quartiles of its duration.

    The first step is done before the timing and once more after it, with torch's deterministic algorithms: loss,
    gradients and new weights have to be the same to the bit, and the same as those of the other devices of its kind.
    The detail `bits` says so, or why nothing was compared: the library promises no order of additions, or torch knows
    no deterministic algorithm for an operation.

    Raises NotApplicable for a width that is no multiple of `heads`, WrongResult for a loss that is no finite number.
    """
    training = Training(device, dtype, width=width, heads=heads, sequence=sequence, batch=batch)
    with blas.deterministic(device.torch) as doubts:
        first = training.sums(loss := training.step())
    if not math.isfinite(loss):
        raise WrongResult(NOT_FINITE)
    amount = operations(width=width, sequence=sequence, batch=batch) / 1e12
    options: dict[str, Any] = {"metric": "training.rate", "statistic": "median", "conditions": training.conditions}
    result = device.sample(training.step, amount=amount, unit="TFLOPS", **options)
    quartiles = quantiles(result.seconds, n=4) if len(result.seconds) > 1 else result.seconds * 3
    result.details["step_ms"] = [significant(1e3 * seconds) for seconds in quartiles]
    training.begin()
    with blas.deterministic(device.torch):
        repeat = training.sums(training.step())
    result.details["bits"], kind = bits_of(device, doubts)
    if kind:
        result.details["checksum"], result.details["checksum_of"] = sum(first.values()) % 2**63, kind
        if differing := [part for part in first if first[part] != repeat[part]]:
            result.wrong = f"{SAME} its {' and '.join(differing)} differ from those of its first go"
    return result


@probe(
    "ddp.step_ms",
    runs="ranks",
    unit="ms",
    stresses=["compute", "link"],
    budgets={"quick": 0.0, "standard": 1.0, "long": 3.0},
    verifies="sums",
    cost=Cost("matmul.{dtype}", share=OF_PRODUCTS, operations=operations),
    small=SMALL,
)
def ddp_step(
    device: Compute, *, dtype: str = "bf16", width: int = 4096, heads: int = 32, sequence: int = 2048, batch: int = 2
) -> ProbeResult:
    """Measure the milliseconds of the step of `training_step` with torch's DistributedDataParallel, on all devices.

    Afterwards every rank does the first step once more, with the same weights and data. Loss and gradients before they
    are summed, if the ranks are of one kind, and gradients and weights afterwards have to be the same to the bit on all
    ranks. The rank that differs from most is named.

    Raises NotApplicable for a single device, WrongResult on a rank that differs from the majority, or
    whose loss is no finite number.
    """
    torch = device.torch
    if device.world < 2:
        raise NotApplicable("data-parallel training needs at least two devices")
    training = Training(device, dtype, width=width, heads=heads, sequence=sequence, batch=batch)
    ids = None if device.is_cpu else [device.torch_device]
    ddp = torch.nn.parallel.DistributedDataParallel(training.model, device_ids=ids)
    conditions = {**training.conditions, "ranks": device.world, **device.collectives}
    options: dict[str, Any] = {"metric": "ddp.step_ms", "collective": True, "conditions": conditions}
    result = device.sample(lambda: training.step(ddp), amount=1.0, unit="ms", **options)
    summed = training.sums(training.step(ddp))
    training.begin()
    with blas.deterministic(torch) as doubts, ddp.no_sync():
        local = training.sums(loss := training.backward(ddp))
    result.details["bits"], kind = bits_of(device, doubts)
    sums = {"loss": local["loss"], "gradients": local["gradients"]}
    columns = _of_all_ranks(device, [zlib.crc32(kind.encode()), *sums.values(), summed["gradients"], summed["weights"]])
    if not math.isfinite(loss):  # after the exchange: the other ranks wait for this one
        raise WrongResult(NOT_FINITE)
    if len(set(columns[0])) > 1:
        kind, result.details["bits"] = "", "compared after the sum only: the ranks are of different kinds"
    if not kind:
        columns[1:-2], sums = [], {}
    for part, column in zip([*sums, "summed gradients", "new weights"], columns[1:], strict=True):
        common, count = Counter(column).most_common(1)[0]
        if 2 * count <= device.world:
            text = f"{SAME} {part} differ between ranks, and no majority tells which are wrong: {_sets(column)}"
            result.wrong = result.wrong or text
        elif column[device.rank] != common:
            raise WrongResult(f"{SAME} its {part} differ from those of {count} of {device.world} ranks")
    return result


def bits_of(device: Compute, doubts: Sequence[str]) -> tuple[str, str]:
    """Return a sentence on the comparison of a step's bits, and the kind of the device, "" if nothing is compared."""
    torch = device.torch
    if torch.version.hip or device.other or doubts:
        return "; ".join(doubts) or NOT_COMPARED, ""
    units = f"{torch.get_num_threads()} threads"
    if not device.is_cpu:
        units = f"{device.backend.properties(device.torch_device).multi_processor_count} SMs"
    # devices of a kind show the same bits: cuBLAS (2.1.4) requires the same architecture and number of SMs
    kind = f"{device.devices[0].model}, {units}, torch {torch.__version__}"
    return f"compared among devices of the kind {kind}", kind


def _of_all_ranks(device: Compute, values: Sequence[int]) -> list[tuple[int, ...]]:
    """Return numbers of every rank, a tuple for each number, exchanged by the hosts."""
    sent = device.torch.tensor(values)
    received = [device.torch.empty_like(sent) for _ in range(device.world)]
    device.torch.distributed.all_gather(received, sent)
    return list(zip(*(numbers.tolist() for numbers in received), strict=True))


def _sets(column: Sequence[int]) -> str:
    """Return the ranks that have the same number, set by set: "0, 2 | 1, 3"."""
    sets = grouped(range(len(column)), lambda rank: column[rank])
    return " | ".join(", ".join(map(str, ranks)) for ranks in sets.values())
