"""Collectives between four processes: what they count, and that no byte of a result may be wrong."""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from support.probe_device import AtOnce, cpu

from pytest_accel import probes
from pytest_accel.probes.collectives import OPERATIONS, Collective, collective_on
from pytest_accel.probes.device.error_class import WrongResult
from pytest_accel.probes.device.torch_device import Compute

pytestmark = pytest.mark.nightly

WORLD, FAULTY, SIZE = 4, 1, 2**20 + 64
BLOCK: dict[str, Any] = {"width": 64, "heads": 4, "sequence": 16, "batch": 2}
SLOWER = 0.3
"""Seconds by which a slow rank takes longer for a step, as no step of this block does."""
CALLS = {
    "all_reduce": ["all_reduce"],
    "all_gather": ["all_gather_single", "all_gather_into_tensor"],
    "reduce_scatter": ["reduce_scatter_single", "reduce_scatter_tensor"],
    "all_to_all": ["all_to_all_single"],
}
"""The functions of torch, by newest name, that an operation may call."""
EVERY_CALL = [name for every in CALLS.values() for name in every]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """What each rank answers, in the order of the ranks."""
    context = multiprocessing.get_context("spawn")
    answers: queue.Queue[dict[str, Any]] = context.Queue()  # type: ignore[assignment]
    meeting = str(tmp_path_factory.mktemp("ranks") / "meet")
    ranks = [context.Process(target=_rank, args=(each, meeting, answers), daemon=True) for each in range(WORLD)]
    try:
        for each in ranks:
            each.start()
        yield sorted((answers.get(timeout=90) for _ in ranks), key=lambda answer: int(answer["rank"]))
    finally:
        for each in ranks:
            each.kill()
            each.join()


def _rank(rank: int, meeting: str, answers: Any) -> None:
    torch.set_num_threads(1)
    gate = AtOnce()
    gate.compute = device = Compute(cpu(), gate)
    device.seconds = 0.3
    device.join(meeting, rank, WORLD)
    device.join(meeting, rank, WORLD)  # the second time it is there already
    every = {each: partial(collective_on, device, each, SIZE) for each in OPERATIONS}
    timed = {each: probes.collective(device, operation=each, size="1MiB") for each in OPERATIONS}
    step = partial(probes.ddp_step, device, **BLOCK)
    timed_step, slow_step = step(), _slow(step) if rank == FAULTY else step()
    gate.compute = None  # a step without the others
    alone = [partial(probes.training_step, device, **BLOCK)(), _slow(partial(probes.training_step, device, **BLOCK))]
    gate.compute = device
    answer: dict[str, Any] = {
        "rank": rank,
        "step": timed_step,
        "blocks": [len(each.samples) for each in (*timed.values(), timed_step)],
        "slow": (slow_step.samples, [each.seconds for each in alone]),
        "per call": {name: each.samples[0] * each.seconds[0] for name, each in timed.items()},
        "conditions": {name: each.conditions for name, each in timed.items()},
        "right": {name: _said(made) for name, made in every.items()},
        "flipped": {name: _said(made, partial(_flipped, rank)) for name, made in every.items()},
        "nothing": {name: _said(made, _idle) for name, made in every.items()},
        "neighbour": _said(lambda: _shifted(every["all_gather"]())),
        "after": _said(partial(probes.collective, device, size="64KiB"), partial(_flipped, rank, after=1)),
        "wrong step": {
            name: _with(names if rank in ranks else {}, step) for name, (ranks, names) in WRONG_STEPS.items()
        },
    }
    answers.put(answer)
    answers.close()
    answers.join_thread()


def _shifted(gathered: Any) -> Any:
    """A gathering whose parts are compared as those of the next rank."""
    gathered.sources.append(gathered.sources.pop(0))
    return gathered


def _said(
    call: Callable[[], Any],
    broken: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    beneath: Sequence[str] = EVERY_CALL,
) -> str:
    """What is found wrong by a probe, or by the check of a collective, with those of torch `broken` beneath it."""
    kept = {name: getattr(dist, name) for name in beneath if broken and hasattr(dist, name)}
    vars(dist).update({name: broken(each) for name, each in kept.items() if broken})
    try:
        made = call()
        return made.wrong() if isinstance(made, Collective) else ""
    except WrongResult as wrong:
        return str(wrong)
    finally:
        vars(dist).update(kept)


def _flipped(rank: int, collective: Callable[..., Any], after: int = 0) -> Callable[..., Any]:
    """A collective that flips one byte of the last value on one rank, in the first payload of ours from `after` on."""
    seen: list[int] = []

    def wrong(result: Any, *more: Any, **how: Any) -> Any:
        done = collective(result, *more, **how)
        if result.numel() > 1 and result.any():
            seen.append(1)
            if rank == FAULTY and len(seen) == after + 1:
                result.view(-1).view(torch.uint8)[-1] ^= 0x80  # the sign alone
        return done

    return wrong


class _FlipsABit(torch.nn.Linear):
    """A layer of which the lowest bit of one number of the gradient is wrong."""

    def __init__(self, inputs: int, outputs: int, **how: Any) -> None:
        super().__init__(inputs, outputs, **how)
        if outputs == 3 * inputs:
            self.weight.register_hook(_flipped_once)  # type: ignore[no-untyped-call]


class _NoNumber(torch.nn.Linear):
    """A layer that computes no number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * torch.nan


def _flipped_once(gradient: torch.Tensor) -> torch.Tensor:
    wrong = gradient.clone()
    wrong.view(-1).view(torch.uint8)[8] ^= 1
    return wrong


def _other_seed(seed: int, draw: Callable[[int], Any] = torch.manual_seed) -> Any:
    return draw(seed + 1)


class _Twice(torch.nn.parallel.DistributedDataParallel):
    """A sum of gradients that arrives changed."""

    def __init__(self, *model: Any, **how: Any) -> None:
        super().__init__(*model, **how)
        self.register_comm_hook(None, lambda _, bucket: self._changed(bucket))

    @staticmethod
    def _changed(bucket: Any) -> Any:
        summed = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return summed.then(lambda done: _flipped_once(done.value()[0]))


WRONG_STEPS: Mapping[str, tuple[Sequence[int], Mapping[str, Any]]] = {
    "bit": ([FAULTY], {"nn.Linear": _FlipsABit}),
    "seed": ([FAULTY], {"manual_seed": _other_seed}),
    "two seeds": ([0, FAULTY], {"manual_seed": _other_seed}),
    "no number": ([FAULTY], {"nn.Linear": _NoNumber, "version.hip": "a library without an order of additions"}),
    "sum": ([FAULTY], {"nn.parallel.DistributedDataParallel": _Twice}),
}
"""Faults of a training step: the ranks that have it, and what takes the place of names of torch there."""


def _with(names: Mapping[str, Any], step: Callable[[], Any]) -> str:
    """The mistake that is found in a step, with other names in torch beneath it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, other in names.items():
            patch.setattr(f"torch.{name}", other)
        try:
            return step().wrong or ""
        except WrongResult as wrong:
            return str(wrong)


def _slow(step: Callable[[], Any]) -> Any:
    """The result of a step whose optimizer takes a while longer."""
    with pytest.MonkeyPatch.context() as patch:
        fast = torch.optim.AdamW.step

        def late(optimizer: torch.optim.AdamW) -> None:
            time.sleep(SLOWER)
            fast(optimizer)

        patch.setattr(torch.optim.AdamW, "step", late)
        return step()


def _idle(collective: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: []


def test_bus_bandwidth_is_counted_as_nccl_tests_do(found: list[dict[str, Any]]) -> None:
    """Its factors for four ranks, by the size of 1 MiB (doc/PERFORMANCE.md)."""
    for answer in found:
        per_call: Mapping[str, float] = answer["per call"]
        assert per_call == {
            each: pytest.approx(2**20 / 1e9 * (1.5 if each == "all_reduce" else 0.75), rel=1e-6) for each in OPERATIONS
        }
        assert {answer["conditions"][each]["operation"] for each in OPERATIONS} == set(OPERATIONS)
        told = answer["conditions"]["all_reduce"]
        assert (told["ranks"], told["dtype"], told["backend"]) == (WORLD, "fp32", "gloo")
        assert answer["conditions"]["all_gather"]["ranks"] == WORLD


def test_a_step_of_training_is_timed_in_ms_and_compared_between_ranks(found: list[dict[str, Any]]) -> None:
    for step in (answer["step"] for answer in found):
        assert step.samples == pytest.approx([once * 1000 for once in step.seconds])
        assert (step.wrong, step.conditions["ranks"], step.conditions["backend"]) == (None, WORLD, "gloo")
        assert step.details["bits"].startswith("compared among devices of the kind a processor, 1 threads")


@pytest.mark.parametrize(("fault", "what"), [("bit", "gradients"), ("seed", "loss"), ("sum", "summed gradients")])
def test_the_rank_whose_step_has_other_bits_is_named(found: list[dict[str, Any]], fault: str, what: str) -> None:
    said = [answer["wrong step"][fault] for answer in found]
    text = f"in the same training step the bits of its {what} differ from those of 3 of 4 ranks"
    assert said == [text if rank == FAULTY else "" for rank in range(WORLD)]


def test_the_rank_whose_loss_is_no_number_is_named_where_its_bits_are_not_compared(found: list[dict[str, Any]]) -> None:
    said = [answer["wrong step"]["no number"] for answer in found]
    text = "the loss of a training step is no finite number"
    assert said == [text if rank == FAULTY else "" for rank in range(WORLD)]


def test_ranks_that_no_majority_acquits_are_listed(found: list[dict[str, Any]]) -> None:
    for answer in found:
        assert answer["wrong step"]["two seeds"].endswith(
            "of loss differ between ranks, and no majority tells which are wrong: 0, 1 | 2, 3"
        )


def test_a_slow_rank_makes_all_slow_together_and_is_told_by_its_step_without_them(found: list[dict[str, Any]]) -> None:
    for answer in found:
        together, (alone, slow) = answer["slow"]
        assert min(together) > SLOWER * 1000
        assert min(slow) > SLOWER > min(alone)


def test_all_ranks_end_after_the_same_block(found: list[dict[str, Any]]) -> None:
    assert [answer["blocks"] for answer in found] == [found[0]["blocks"]] * WORLD


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_result_of_every_operation_is_exact(found: list[dict[str, Any]], name: str) -> None:
    assert [answer["right"][name] for answer in found] == [""] * WORLD


@pytest.mark.parametrize("name", OPERATIONS)
def test_one_flipped_byte_in_one_rank_is_seen(found: list[dict[str, Any]], name: str) -> None:
    said = [answer["flipped"][name] for answer in found]
    values = (2**20 + 64) // 4 // (WORLD if name == "reduce_scatter" else 1)
    assert said[FAULTY] == f"{name}: 1 of {values} values are wrong on rank {FAULTY}"
    assert [each for place, each in enumerate(said) if place != FAULTY] == [""] * (WORLD - 1)


@pytest.mark.parametrize("name", OPERATIONS)
def test_data_that_never_arrived_are_seen(found: list[dict[str, Any]], name: str) -> None:
    assert all(answer["nothing"][name] for answer in found)


def test_data_of_another_rank_are_seen(found: list[dict[str, Any]]) -> None:
    assert all("all_gather: " in answer["neighbour"] for answer in found)


def test_a_byte_that_is_wrong_after_the_timing_is_seen(found: list[dict[str, Any]]) -> None:
    assert "1 of 16384 values are wrong on rank 1" in found[FAULTY]["after"]
    assert found[0]["after"] == ""
