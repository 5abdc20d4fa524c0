"""Compares a training step with a plain loop, and shows that its faults are seen. The ranks are processes here.

    python benchmarks/training.py --ranks 2 4 --turns 4

Each rank is a process with one thread. The plain loop is a block of its own, written with torch alone, in
DistributedDataParallel; the two take turns, A B B A. Then the faults: one bit of one gradient, another seed, and a rank
that is a tenth slower. Prints Markdown. Exits with 1 if a fault is not seen.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import Any
from unittest import mock

from loops import calls_per_second_of_ranks

from pytest_accel.core.measurement import Device
from pytest_accel.probes.device.error_class import WrongResult
from pytest_accel.probes.device.fast_paths import ThreadClock
from pytest_accel.probes.device.timing import Clock
from pytest_accel.probes.device.torch_device import Compute
from pytest_accel.probes.training import ddp_step, training_step

FAULTY, SLOWER = 1, 0.1
BLOCK: dict[str, Any] = {"dtype": "fp32", "width": 256, "heads": 4, "sequence": 128, "batch": 2}
"""The block of the SKU `cpu`."""


class Gate:
    """A gate for ranks: always open, and in step by the collective itself."""

    def __init__(self) -> None:
        self.agree: Callable[[float], float] = float

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: name == "released"


class OfThread(Compute):
    """A device whose steps without the others are timed by processor time: other programs on its core add none."""

    alone = False

    @property
    def clock(self) -> Clock:
        return ThreadClock() if self.alone else super().clock


def plain(world: int) -> Callable[[], object]:
    """Return a step of the same block with torch alone."""
    import torch

    width, heads, rows, batch = (BLOCK[name] for name in ("width", "heads", "sequence", "batch"))

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
            self.mlp = torch.nn.Sequential(
                torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            q, k, v = (part(y).view(batch, rows, heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
            y = torch.softmax(q @ k.mT / (width // heads) ** 0.5, -1) @ v
            x = x + self.out(y.transpose(1, 2).reshape(batch, rows, width))
            return x + self.mlp(self.second(x))

    torch.manual_seed(0)
    model = Block()
    called = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data, target = (torch.randn(batch, rows, width) for _ in range(2))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(called(data), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def said(step: Callable[[], Any]) -> str:
    """Return what is found wrong in a step."""
    try:
        return step().wrong or ""
    except WrongResult as wrong:
        return str(wrong)


def rank_of(rank: int, world: int, folder: str, how: tuple[float, int], answers: Any) -> None:
    """Be a rank: time both, then have the faults on one rank."""
    import torch

    seconds, turns = how
    torch.set_num_threads(1)
    gate = Gate()
    device = OfThread([Device(f"cpu-{rank}", rank, "cpu", "a processor")], gate)
    device.seconds = seconds
    device.join(f"{folder}/meet", rank, world)
    gate.agree = device.agree
    loop, answer = plain(world), {"rank": rank, "ours": [], "plain": [], "whole": []}
    for turn in range(turns):
        for ours in (turn % 2 == 0, turn % 2 == 1):
            began = time.perf_counter()
            if ours:
                answer["ours"].append(fmean(ddp_step(device, **BLOCK).samples))
                answer["whole"].append(time.perf_counter() - began)
            else:
                answer["plain"].append(1000 / calls_per_second_of_ranks(loop, seconds))
    gate.agree, device.alone = float, True
    alone = [training_step(device, **BLOCK) for _ in range(2)]
    answer["alone"] = alone[0].details["step_ms"]
    answer["same"] = len({each.details["checksum"] for each in alone})
    answer["checksum"] = alone[0].details["checksum"]
    backward, draw, late = torch.nn.Linear.forward, torch.manual_seed, answer["alone"][1] / 1000 * SLOWER

    def flips(layer: Any, x: Any) -> Any:
        def flipped(gradient: Any) -> Any:
            wrong = gradient.clone()
            wrong.view(-1).view(torch.uint8)[8] ^= 1
            return wrong

        if rank == FAULTY and layer.out_features == 3 * layer.in_features and not getattr(layer, "flips", False):
            layer.flips = True
            layer.weight.register_hook(flipped)
        return backward(layer, x)

    def other(seed: int) -> Any:
        return draw(seed + (rank == FAULTY))

    fast = torch.optim.AdamW.step

    def slowly(optimizer: Any) -> None:
        until = time.thread_time() + late * (rank == FAULTY)
        while time.thread_time() < until:
            pass
        fast(optimizer)

    gate.agree, device.alone = device.agree, False
    with mock.patch.object(torch.nn.Linear, "forward", flips):
        answer["bit"] = said(lambda: ddp_step(device, **BLOCK))
    with mock.patch.object(torch, "manual_seed", other):
        answer["seed"] = said(lambda: ddp_step(device, **BLOCK))
    gate.agree, device.alone = float, True
    slow: tuple[list[float], list[float]] = [], []
    for turn in range(2 * turns):
        with mock.patch.object(torch.optim.AdamW, "step", slowly if turn % 2 else fast):
            slow[turn % 2].append(training_step(device, **BLOCK).details["step_ms"][1])
        device.agree(0.0)  # all ranks begin the next turn together
    answer["slow"] = median(slow[1]) / median(slow[0])
    answers.put(answer)
    answers.close()
    answers.join_thread()


def of_ranks(world: int, seconds: float, turns: int) -> list[dict[str, Any]]:
    """Return what each rank answers, in their order."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        every = [
            context.Process(target=rank_of, args=(rank, world, folder, (seconds, turns), answers), daemon=True)
            for rank in range(world)
        ]
        for process in every:
            process.start()
        found = [answers.get(timeout=600) for _ in every]
        for process in every:
            process.join()
    return sorted(found, key=lambda answer: int(answer["rank"]))


def main() -> int:
    """Print the tables, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seconds", type=float, default=2.0, help="for which each is timed, per turn")
    parser.add_argument("--turns", type=int, default=4)
    asked, unseen = parser.parse_args(), 0
    print("| ranks | step, ms | plain loop, ms | ours / plain | whole probe, s | bits, of repeats and of ranks |")
    print("| --- | --- | --- | --- | --- | --- |")
    every = {world: of_ranks(world, asked.seconds, asked.turns) for world in asked.ranks}
    for world, found in every.items():
        first = found[0]
        ratio = median(ours / loop for ours, loop in zip(first["ours"], first["plain"], strict=True))
        alike = {each["checksum"] for each in found}
        bits = "equal" if len(alike) == 1 and {each["same"] for each in found} == {1} else "DIFFERENT"
        figures = f"{median(first['ours']):.2f} | {median(first['plain']):.2f} | {ratio:.3f}"
        print(f"| {world} | {figures} | {median(first['whole']):.2f} | {bits} |")
        unseen += bits != "equal"
    print("\n| ranks | fault of rank 1 | what is said, by rank |\n| --- | --- | --- |")
    for world, found in every.items():
        for fault in ("bit", "seed"):
            words = {each[fault] for each in found if each[fault]}
            who = ", ".join(str(each["rank"]) for each in found if each[fault])
            print(f"| {world} | {fault} | {who}: {'; '.join(words)} |")
            unseen += not words or (world > 2 and who != str(FAULTY))
        steps = ", ".join(f"{each['slow']:.2f}" for each in found)
        print(f"| {world} | {SLOWER:.0%} slower | the step alone, as a share of that without: {steps} |")
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
