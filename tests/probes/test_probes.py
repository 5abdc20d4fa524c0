"""Every probe for real on the CPU, at tiny sizes: values, counts, wrong payloads, refusals."""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.core.reasons import Note

pytest.importorskip("torch")

import torch
from support import torch_features
from support.probe_device import AtOnce, Instead, compute, cpu, gpu, with_cuda

from pytest_accel import probes
from pytest_accel.core.messages import FastPath, fastest
from pytest_accel.core.method import AS_FOUND
from pytest_accel.drivers.vendor import TorchKind
from pytest_accel.probes.declare import declaration_for
from pytest_accel.probes.device import fast_paths, worker
from pytest_accel.probes.device.error_class import NotApplicable, Unmeasurable, WrongResult
from pytest_accel.probes.device.gemm import Gemm, refuse_unsupported
from pytest_accel.probes.device.timing import Clock
from pytest_accel.probes.device.torch_backend import Backend
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.host_copy import memory_location
from pytest_accel.probes.peer_copy import at_fault
from pytest_accel.probes.soak import droop

CASES = data_files.tables("probes/refused")


class Rotten(torch.Tensor):
    """Memory that does not keep what is copied into it."""

    def copy_(self, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        super().copy_(source, non_blocking)
        self.view(-1)[-1] += 1
        return self


@pytest.fixture
def device() -> Compute:
    return compute()


@pytest.fixture
def all_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dtype counts as fast: whether this machine emulates one is not the question."""
    monkeypatch.setattr(fast_paths, "refuse_slow", lambda device, dtype: None)


def per_call(finding: ProbeResult) -> float:
    """What one call did, by its samples and its seconds."""
    assert finding.samples
    assert all(rate > 0 for rate in finding.samples)
    amounts = [rate * once for rate, once in zip(finding.samples, finding.seconds, strict=True)]
    assert max(amounts) == pytest.approx(min(amounts))
    return amounts[0]


# -- counting


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_matmul_counts_two_operations_for_each_product(device: Compute, dtype: str) -> None:
    finding = probes.matmul(device, dtype=dtype, m=64, n=96, k=128)
    assert (finding.metric, finding.unit) == (f"matmul.{dtype}", "TFLOPS")
    assert per_call(finding) == pytest.approx(2 * 64 * 96 * 128 / 1e12)
    assert finding.peak
    assert finding.peak["value"] > 0
    assert len(finding.peak["samples"]) == len(finding.samples)


def test_the_best_shape_is_one_of_those_tried_and_says_which(device: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    anchors = ((64, 64, 64), (512, 512, 512))
    monkeypatch.setattr(sys.modules["pytest_accel.probes.matmul_best"], "ANCHORS", anchors)
    shapes = [(64, 64, 64), (96, 64, 128), (64, 128, 256)]
    finding = probes.matmul_best(device, dtype="fp32", shapes=shapes)
    assert finding.metric == "matmul_best.fp32"
    assert finding.conditions["searched"] >= len(shapes)
    winner = "x".join(str(finding.conditions[side]) for side in "mnk")
    assert winner in finding.details["finalists"]
    m, n, k = (finding.conditions[side] for side in "mnk")
    assert per_call(finding) == pytest.approx(2 * m * n * k / 1e12)
    assert (finding.conditions["layout"], finding.conditions["operand_sets"]) == ("row-major", 1)
    assert list(finding.details["anchors"]) == ["64x64x64"]


@pytest.mark.parametrize("dtype", ["fp64", "fp32"])
@pytest.mark.parametrize(("op", "arrays"), [("copy", 2), ("copy_kernel", 2), ("triad", 3), ("dot", 2), ("read", 1)])
def test_stream_counts_bytes_read_and_written(device: Compute, op: str, arrays: int, dtype: str) -> None:
    finding = probes.stream(device, op=op, mib=2, dtype=dtype, calls=2)
    assert (finding.metric, finding.unit) == (f"stream.{op}", "GB/s")
    assert per_call(finding) == pytest.approx(arrays * 2 * 2**20 / 1e9)


class Uneven(Compute):
    """A device whose calls take 1 ms and, every second one, 3 ms."""

    @property
    def clock(self) -> Any:
        took, at = itertools.cycle([0.0, 0.001, 0.0, 0.003]), [0.0]

        def mark() -> float:
            at[0] += next(took)
            return at[0]

        return SimpleNamespace(mark=mark, seconds=lambda start, end: end - start, now=lambda: at[0])


def test_a_rate_of_stream_is_that_of_its_fastest_calls_and_the_mean_is_in_the_details() -> None:
    finding = probes.stream(Uneven(cpu(), AtOnce()), op="copy_kernel", mib=1, calls=4)
    assert finding.seconds == pytest.approx([0.001] * len(finding.seconds))
    assert finding.details["mean_of_calls"] == pytest.approx(finding.samples[0] / 2)


@pytest.mark.parametrize(("direction", "ways"), [("h2d", 1), ("d2h", 1), ("both", 2)])
@pytest.mark.parametrize("probe", [probes.host_copy, probes.host_copy_all])
def test_host_copy_counts_every_direction(
    device: Compute, probe: Callable[..., ProbeResult], direction: str, ways: int
) -> None:
    finding = probe(device, direction=direction, mib=1)
    assert finding.unit == "GB/s"
    assert per_call(finding) == pytest.approx(ways * 2**20 / 1e9)


def test_a_kernel_of_memory_that_writes_only_once_is_seen(device: Compute) -> None:
    """Its result is overwritten before the call that is checked."""
    calls = itertools.count()
    device.torch = Instead(torch, add=lambda a, zero, out: out if next(calls) else torch.add(a, zero, out=out))
    with pytest.raises(WrongResult, match="the arrays do not hold the expected result"):
        probes.stream(device, op="copy_kernel", mib=1, calls=1)


@pytest.mark.parametrize(("direction", "ways"), [("one_way", 1), ("both", 2)])
def test_peer_copy_finds_every_cell_and_announces_it(direction: str, ways: int) -> None:
    device = compute(3)
    found = list(probes.peer_copy(device, direction=direction, mib=1))
    assert [finding.subject for finding in found] == ["CPU-test-0", "CPU-test-1", "CPU-test-2"]
    for finding in found:
        assert finding.unit == "GB/s"
        assert per_call(finding) == pytest.approx(ways * 2**20 / 1e9)
        assert set(finding.details["cells"]) == {f"CPU-test-{i}" for i in range(3)} - {finding.subject}
    assert device.gate.steps[1] == ("cpu0 to cpu2", ("CPU-test-0", "CPU-test-2"))  # type: ignore[attr-defined]
    assert len(device.gate.steps) == 6  # type: ignore[attr-defined]


def test_peer_copy_measures_the_pairs_again_that_it_is_told_to() -> None:
    device = compute(3)
    device.pairs = [("CPU-test-2", "CPU-test-0"), ("CPU-test-0", "CPU-test-1"), ("CPU-test-2", "CPU-lost")]
    budgets, sample = [], device.sample

    def heard(work: Callable[[], object], **how: Any) -> Any:
        budgets.append(how["seconds"])
        return sample(work, **how)

    device.sample = heard  # type: ignore[method-assign]
    found = list(probes.peer_copy(device, mib=1))
    assert {each.subject: set(each.details["cells"]) for each in found} == {
        "CPU-test-0": {"CPU-test-1"},
        "CPU-test-2": {"CPU-test-0"},
    }
    assert budgets == [device.seconds / 2] * 2


@pytest.mark.parametrize(
    ("bad", "guilty"),
    [({5}, {5}), ({2, 5}, {2, 5}), (set(range(8)), set(range(8)))],
)
def test_only_the_device_whose_copies_are_wrong_is_blamed(bad: set[int], guilty: set[int]) -> None:
    """Every healthy neighbour has a wrong copy with it, too."""
    ways = {(a, b): f"{a} to {b}" for a in range(8) for b in range(8) if a != b and {a, b} & bad}
    found = at_fault(ways)
    assert set(found) == guilty
    assert all(str(place) in text for place, text in found.items())
    assert set(at_fault({(1, 2): "1 to 2"})) == {1, 2}


@pytest.mark.parametrize("how", ["rounds", "all"])
def test_a_wrong_copy_among_many_at_once_is_found_however_fast_it_was(how: str) -> None:
    device = compute(4)
    made: Iterator[Any] = iter([Rotten, *[torch.Tensor] * 99])
    device.torch = Instead(torch, zeros=lambda *size, **kind: torch.zeros(*size, **kind).as_subclass(next(made)))
    found = {each.subject: each.wrong for each in probes.peer_copy_all(device, how=how, mib=1) if each.wrong}
    first = ("cpu0", "cpu3") if how == "rounds" else ("cpu0", "cpu1")
    text = f"{first[0]} to {first[1]}: the data that arrived differ from the data that were sent"
    assert found == {name.replace("cpu", "CPU-test-"): text for name in first}


@pytest.mark.parametrize(("how", "sent"), [("rounds", 2), ("all", 3)])
def test_peer_copies_at_once_count_what_one_device_moves(how: str, sent: int) -> None:
    found = list(probes.peer_copy_all(compute(4), how=how, mib=1))
    assert [finding.subject for finding in found] == [f"CPU-test-{place}" for place in range(4)]
    assert per_call(found[0]) == pytest.approx(sent * 2**20 / 1e9)
    assert found[0].conditions["copies_at_once"] == (4 if how == "rounds" else 12)


def test_soak_finds_rate_and_droop(device: Compute) -> None:
    device.seconds = 0.6
    rate, slow, *steady = probes.soak(device, dtype="fp32", m=64, n=64, k=64)
    assert per_call(rate) == pytest.approx(2 * 64**3 / 1e12)
    assert rate.details["ended_by"] == "budget"
    assert (slow.metric, slow.unit) == ("soak.droop_slow", "1")
    assert slow.value is not None
    assert slow.value < 1
    assert [each.metric for each in steady] == ["soak.slowest_window", "matmul.fp32"]


@pytest.mark.parametrize(("end", "early", "late", "expected"), [(100, 100.0, 95.0, 0.05), (30, 50.0, 60.0, -0.2)])
def test_droop_is_the_share_lost_once_warm(end: int, early: float, late: float, expected: float) -> None:
    ends = [float(at) for at in range(1, end + 1)]
    samples = [early if at <= end / 2 else late for at in ends]
    found = droop(ProbeResult("soak.rate", "TFLOPS", samples=samples, details={"ends": ends}))
    assert found.value == pytest.approx(expected)


# -- what is wrong is seen


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16", "fp8", "int8"])
def test_the_product_of_every_dtype_is_right(device: Compute, dtype: str) -> None:
    if dtype == "fp8":
        torch_features.skip_without_fp8()
    gemm = Gemm(device, dtype, 96, 144, 128)
    gemm.check()  # raises WrongResult
    assert gemm.conditions["dtype"] == dtype


@pytest.mark.parametrize("place", [(0, 0), (7, 14), (441, 441)])
def test_a_wrong_element_in_any_tile_is_seen(device: Compute, place: tuple[int, int]) -> None:
    def mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.mm(a, b, out=out)
        out[place] += 1
        return out

    device.torch = Instead(torch, mm=mm)
    with pytest.raises(WrongResult, match="fp32 448x448x64: operand set 0 is off by"):
        Gemm(device, "fp32", 448, 448, 64).check()


def test_a_product_that_is_no_number_is_wrong(device: Compute) -> None:
    device.torch = Instead(torch, mm=lambda a, b, out: out.fill_(float("nan")))
    with pytest.raises(WrongResult):
        Gemm(device, "fp32", 64, 64, 64).check()


@pytest.mark.parametrize(
    ("op", "broken"),
    [
        ("copy", {"ones_like": lambda like: torch.ones_like(like).as_subclass(Rotten)}),
        ("triad", {"add": lambda b, c, alpha, out: torch.add(b, c, alpha=alpha, out=out)[-1:].add_(1)}),
        ("copy_kernel", {"add": lambda a, zero, out: torch.add(a, zero, out=out)[-1:].add_(1)}),
        ("read", {"sum": lambda a: torch.sum(a[: a.numel() * 9 // 10])}),
        ("dot", {"dot": lambda a, b: torch.dot(a, b) + 1}),
    ],
)
def test_wrong_memory_is_seen(device: Compute, op: str, broken: dict[str, Any]) -> None:
    device.torch = Instead(torch, **broken)
    with pytest.raises(WrongResult, match="the arrays do not hold the expected result"):
        probes.stream(device, op=op, mib=1)


@pytest.mark.parametrize("direction", ["h2d", "d2h", "both"])
def test_a_wrong_host_copy_is_seen(device: Compute, direction: str) -> None:
    device.torch = Instead(torch, empty=lambda *size, **how: torch.empty(*size, dtype=torch.int32).as_subclass(Rotten))
    with pytest.raises(WrongResult, match="the data that arrived"):
        probes.host_copy(device, direction=direction, mib=1)


@pytest.mark.parametrize("direction", ["one_way", "both"])
def test_a_wrong_peer_copy_is_seen(direction: str) -> None:
    device = compute(2)
    device.torch = Instead(torch, zeros=lambda *size, **how: torch.zeros(*size, **how).as_subclass(Rotten))
    first = next(probes.peer_copy(device, direction=direction, mib=1))
    wrong = first.details["cells"]["CPU-test-1"]["wrong"]
    assert wrong is not None
    assert "the data that arrived differ from the data that were sent" in wrong


# -- what cannot be measured says so


@pytest.mark.parametrize(
    ("call", "choices"),
    [
        (
            lambda device: probes.matmul(device, dtype="fp3"),
            "fp64, fp32, tf32, bf16, fp16, fp8, mxfp8, fp4, nvfp4, mxfp4, int8",
        ),
        (lambda device: probes.soak(device, dtype="fp3"), "fp64, fp32"),
        (lambda device: probes.stream(device, dtype="fp16"), "dtype 'fp16' is not supported"),
        (lambda device: next(probes.peer_copy(device)), "copies between devices need at least two devices"),
        (lambda device: probes.collective(device, size="1MiB"), "all_reduce needs at least two devices"),
        (probes.ddp_step, "training needs at least two devices"),
    ],
)
def test_what_does_not_exist_names_the_choices(
    device: Compute, call: Callable[[Compute], object], choices: str
) -> None:
    with pytest.raises(NotApplicable, match=choices):
        call(device)


def test_an_emulated_dtype_is_refused_before_it_takes_minutes(device: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_paths, "_rate", lambda gemm: 0.01 if gemm.dtype == "fp16" else 1.0)
    monkeypatch.setattr(device, "fast_paths", {})
    with pytest.raises(NotApplicable, match=r"this CPU has no fast path for fp16: 0\.01 times the speed of fp32"):
        probes.matmul(device, dtype="fp16")


def test_a_device_uses_the_decision_of_the_machine(device: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_paths, "_rate", lambda gemm: pytest.fail("tried again"))
    monkeypatch.setattr(device, "fast_paths", {"fp16": {"speed": 0.9, "why_not": "decided: 0.9"}})
    with pytest.raises(NotApplicable, match=r"decided: 0\.9"):
        probes.matmul(device, dtype="fp16")


def test_the_fastest_device_decides_for_all() -> None:
    slow: FastPath = {"speed": 0.91, "why_not": "this CPU has no fast path"}
    fast: FastPath = {"speed": 1.4, "why_not": ""}
    assert fastest([{"int8": slow}, {"int8": fast, "bf16": slow}]) == {"int8": fast, "bf16": slow}


def test_a_pilot_that_is_interrupted_once_refuses_nothing() -> None:
    """By a processor that did something else for nine seconds of the first call."""
    spent = iter([9.0])
    clock = SimpleNamespace(depth=0, mark=lambda: 0.0, seconds=lambda start, end: next(spent, 0.004))

    class Work:
        operations = 1e6

        def __call__(self) -> None:
            pass

    matmul = sys.modules["pytest_accel.probes.matmul"]
    assert Gemm.rate(Work(), clock, matmul.PILOT_SECONDS, matmul.PILOT_BLOCKS) == pytest.approx(1e6 / 0.004)  # type: ignore[arg-type]


# -- what only CUDA runs, with as little of CUDA as it takes


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    with_cuda(monkeypatch, L2_cache_size=60 << 20)
    return monkeypatch


def fails_with(text: str) -> Callable[[], None]:
    def fail() -> None:
        raise RuntimeError(text)

    return fail


def test_torch_without_cuda_cannot_measure_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(Unmeasurable, match="cannot use NVIDIA H200: it is built for CPUs only"):
        Compute([gpu()], AtOnce())


def test_a_gpu_is_opened_by_its_uuid(cuda: pytest.MonkeyPatch) -> None:
    assert Compute([gpu()], AtOnce()).cache_bytes == 60 << 20
    cuda.setattr(torch.cuda, "get_device_properties", lambda place: SimpleNamespace(uuid="0ther"))
    with pytest.raises(Unmeasurable, match="torch opened another device: 0ther instead of GPU-8932f937"):
        Compute([gpu()], AtOnce())


def test_software_that_does_not_fit_is_a_need(cuda: pytest.MonkeyPatch) -> None:
    cuda.setattr(torch.cuda, "init", fails_with("Unexpected error. Error 802: system not yet initialized"))
    with pytest.raises(Unmeasurable, match="system not yet initialized"):
        Compute([gpu()], AtOnce())


def test_a_gpu_that_cuda_cannot_start_is_to_blame(cuda: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuda.setattr(torch.cuda, "init", fails_with("Unexpected error. Error 999: unknown error"))
    cuda.setattr("pytest_accel.probes.device.torch_device.UVM", str(tmp_path / "nvidia-uvm"))
    with pytest.raises(Unmeasurable, match=r"unknown error: .*nvidia-uvm cannot be opened: run `modprobe nvidia-uvm`"):
        Compute([gpu()], AtOnce())
    (tmp_path / "nvidia-uvm").touch()
    with pytest.raises(RuntimeError, match=r"CUDA error: .*unknown error"):
        Compute([gpu()], AtOnce())


def test_modes_and_missing_devices_are_needs(cuda: pytest.MonkeyPatch) -> None:
    alone = gpu(compute_mode="exclusive process")
    Compute([alone], AtOnce())
    with pytest.raises(Unmeasurable, match="compute mode of gpu0 is exclusive process"):
        Compute([alone, alone], AtOnce())
    with pytest.raises(Unmeasurable, match="CUDA sees only 1 of 2 devices"):
        Compute([gpu(), gpu()], AtOnce())


def test_memory_that_is_not_there_is_a_need(cuda: pytest.MonkeyPatch) -> None:
    device = Compute([gpu()], AtOnce())
    device.world = 2
    with pytest.raises(Unmeasurable, match=r"the probe needs 137\.7 GB of memory; 80\.0 of 81\.0 GB are free"):
        probes.collective(device, size="128GiB")


@pytest.mark.parametrize(("capability", "dtype", "shape", "why"), CASES["gpu"])
def test_what_a_gpu_cannot_multiply_is_not_applicable(
    cuda: pytest.MonkeyPatch, capability: list[int], dtype: str, shape: list[int], why: str
) -> None:
    if dtype == "fp4" and not torch_features.blocks():
        pytest.skip("this torch has no formats of blocks")
    cuda.setattr(torch.cuda, "get_device_capability", lambda place: tuple(capability))
    device = Compute([gpu()], AtOnce())
    with pytest.raises(NotApplicable, match=why):
        probes.matmul(device, dtype=dtype, m=shape[0], n=shape[1], k=shape[2])


@pytest.mark.parametrize(
    ("shape", "refused"),
    [
        ((5000, 300, 5000), True),
        ((8192, 8192, 5000), False),  # enough tiles
        ((5000, 300, 5120), False),  # whole steps along k
        ((300, 300, 200), False),  # too few steps to be split
    ],
)
def test_a_product_that_cublas_may_split_with_a_rest_is_refused(
    cuda: pytest.MonkeyPatch, shape: tuple[int, int, int], refused: bool
) -> None:
    device = Compute([gpu()], AtOnce())
    try:
        refuse_unsupported(device, "bf16", shape)
        found = False
    except NotApplicable:
        found = True
    assert found == refused


@pytest.fixture
def gpu_on_cpu(cuda: pytest.MonkeyPatch) -> Compute:
    """A device that takes the paths of a GPU and allocates on the CPU."""
    with_cuda(cuda, L2_cache_size=0)
    cuda.delattr(torch.cuda, "_sleep", raising=False)  # which a build for CPUs has in name only
    device = Compute([gpu()], AtOnce())
    device.torch_device = torch.device("cpu")
    return device


@pytest.mark.parametrize("op", ["read", "dot"])
def test_a_sum_in_fp32_that_is_off_is_a_doubt_on_an_accelerator(device: Compute, gpu_on_cpu: Compute, op: str) -> None:
    """Its library may add in any order. In fp64 these sums are exact in each, and what a CPU shows was seen."""
    gpu_on_cpu.sample = lambda *work, **how: ProbeResult("stream", "GB/s", samples=[1.0])  # type: ignore[method-assign]
    off = Instead(torch, sum=lambda a: torch.sum(a) * 1.001, dot=lambda a, b: torch.dot(a, b) * 1.001)
    device.torch = gpu_on_cpu.torch = off
    for where, dtype in ((device, "fp32"), (gpu_on_cpu, "fp64")):
        with pytest.raises(WrongResult):
            probes.stream(where, op=op, mib=1, dtype=dtype, calls=1)
    found = probes.stream(gpu_on_cpu, op=op, mib=1, dtype="fp32", calls=1)
    assert found.notes == [Note("doubt", "the sum in fp32 is off by more than 1e-04 of the exact one")]


@pytest.mark.parametrize(
    ("dtype", "layout", "accumulation", "tf32"),
    [("bf16", "row-major", "fp32", False), ("tf32", "row-major", "fp32", True), ("int8", "TN", "int32", False)],
)
def test_a_product_says_what_its_rate_depends_on(
    gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch, dtype: str, layout: str, accumulation: str, tf32: bool
) -> None:
    cuda.setattr(torch.cuda.tunable, "is_enabled", lambda: True)
    newer = hasattr(torch.backends.cuda.matmul, "allow_fp16_accumulation")  # than torch 2.6
    if newer:
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
    found = Gemm(gpu_on_cpu, dtype, 32, 64, 96).conditions
    assert [found[side] for side in "mnk"] == [32, 64, 96]
    assert (found["layout"], found["accumulation"], found["tunable_op"]) == (layout, accumulation, True)
    assert found["allow"]["tf32"] is tf32
    if newer:
        assert not found["allow"]["fp16_accumulation"], "what others allowed is not what is measured"
    assert "blas" in found


class Tunable:
    """torch.cuda.tunable as it is where a user has set PYTORCH_TUNABLEOP_ENABLED=1."""

    def __init__(self) -> None:
        self.tuning, self.file, self.written, self.tried = True, "", 0, [0]

    def is_enabled(self) -> bool:
        return True

    def tuning_is_enabled(self) -> bool:
        return self.tuning

    def tuning_enable(self, on: bool) -> None:
        self.tuning = on

    def set_filename(self, name: str) -> None:
        self.file = name

    def write_file(self) -> None:
        self.written += 1

    def mm(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        self.tried.append(int(self.tuning))
        return torch.mm(a, b, out=out)


@pytest.fixture
def tunable(cuda: pytest.MonkeyPatch) -> Tunable:
    found = Tunable()
    cuda.setattr(torch.cuda, "tunable", found)
    cuda.delattr(torch.cuda, "_sleep", raising=False)
    return found


def test_torch_tunes_a_product_in_a_phase_of_its_own_and_at_no_other_time(
    tunable: Tunable, gpu_on_cpu: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product that is timed or checked is never tuned, and what was chosen is written before the worker may end."""
    monkeypatch.setattr(Compute, "clock", property(lambda self: Clock()))
    gpu_on_cpu.torch = Instead(torch, mm=tunable.mm)
    gpu_on_cpu.seconds = 0.05
    gate = cast(AtOnce, gpu_on_cpu.gate)
    assert not tunable.tuning
    probes.matmul(gpu_on_cpu, dtype="fp32", m=32, n=32, k=32)
    assert gate.tuned == [True, False] * (len(gate.tuned) // 2)
    assert sum(tunable.tried) == tunable.written == len(gate.tuned) // 2 > 0
    assert sum(tunable.tried) < len(tunable.tried) // 2
    with pytest.raises(NotApplicable, match="TunableOp"):
        probes.matmul_best(gpu_on_cpu, dtype="bf16")


@pytest.mark.parametrize(("named", "kept"), [(None, "/run/logs/gpu0.tunableop.csv"), ("mine.csv", "")])
def test_what_torch_tunes_is_kept_with_the_run_unless_the_user_names_a_file(
    tunable: Tunable, gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch, named: str | None, kept: str
) -> None:
    cuda.delenv("PYTORCH_TUNABLEOP_FILENAME", raising=False)
    if named:
        cuda.setenv("PYTORCH_TUNABLEOP_FILENAME", named)
    message = {"event": "open", "devices": [], "threads": 1, "tuned": "/run/logs/gpu0.tunableop.csv", "shared": "."}
    worker._open(message, cast(Any, gpu_on_cpu.gate), lambda devices, gate, visible: gpu_on_cpu)
    assert tunable.file == kept


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"])
def test_the_declared_method_is_what_the_run_says(gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch, dtype: str) -> None:
    if dtype == "fp8":
        torch_features.skip_without_fp8()
    cuda.setattr(torch.cuda.tunable, "is_enabled", lambda: True)
    declared = declaration_for(probes.matmul).method_of(f"matmul.{dtype}", {})
    found = Gemm(gpu_on_cpu, dtype, 32, 64, 96).conditions
    assert declared["shape"] == "8192x8192x8192"
    assert declared["tunable_op"] == AS_FOUND
    assert found["tunable_op"] is True
    shared = declared.keys() & found.keys() - {"tunable_op"}
    assert {key: declared[key] for key in shared} == {key: found[key] for key in shared}
    assert {"layout", "data", "accumulation"} <= shared


@pytest.mark.nightly
def test_mamf_finder_leaves_the_switches_of_torch_as_they_are(gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch) -> None:
    """And the products after it do not."""
    gpu = Cycles()
    cuda.setattr(torch.cuda, "Event", gpu.event)

    def mm(*operands: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        gpu.sleep(1000)
        return torch.mm(*operands, out=out)

    gpu_on_cpu.torch = Instead(torch, mm=mm)
    gpu_on_cpu.seconds = 0.0
    found = probes.matmul_mamf(gpu_on_cpu, dtype="bf16", shapes={"bf16": [32, 64, 96]})
    assert found.conditions["allow"]["bf16_reduced_precision_reduction"] is True
    assert found.conditions["cleared_mib"] == 256
    after = Gemm(gpu_on_cpu, "bf16", 32, 64, 96).conditions
    assert after["allow"]["bf16_reduced_precision_reduction"] is False


@pytest.mark.parametrize(
    ("architecture", "told", "size"),
    [("gfx942:sramecc+:xnack-", 4 << 20, 256 << 20), ("gfx90a", 8 << 20, 8 << 20), ("", 126 << 20, 126 << 20)],
)
def test_operands_go_beyond_the_cache_that_hip_does_not_tell(
    gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch, architecture: str, told: int, size: int
) -> None:
    """An MI300X tells 4 MB, the L2 of one of its eight dies; before the memory lie 256 MB more."""
    properties = SimpleNamespace(L2_cache_size=told, gcnArchName=architecture)
    cuda.setattr(torch.cuda, "get_device_properties", lambda place: properties)
    assert gpu_on_cpu.cache_bytes == size


class Cycles:
    """Events and a spinning kernel of a GPU at 1500 MHz, whose launches take 20 us each."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, cycles: int) -> None:
        self.now += cycles / 1.5e9 + 20e-6

    def event(self, **how: Any) -> SimpleNamespace:
        made = SimpleNamespace(at=0.0, synchronize=lambda: None)
        made.record = lambda: setattr(made, "at", self.now)
        made.elapsed_time = lambda other: 1000 * (other.at - made.at)
        return made


def test_the_clock_is_counted_behind_the_work(gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch) -> None:
    gpu = Cycles()
    cuda.setattr(torch.cuda, "_sleep", gpu.sleep, raising=False)
    cuda.setattr(torch.cuda, "Event", gpu.event)
    assert gpu_on_cpu.counted_clock()["counted_mhz"] == pytest.approx(1500)
    gpu_on_cpu.sample = lambda *work, **how: ProbeResult("matmul.fp32", "TFLOPS", samples=[1.0])  # type: ignore[method-assign]
    assert probes.matmul(gpu_on_cpu, dtype="fp32", m=32, n=32, k=32).details["counted_mhz"] == pytest.approx(1500)


def test_the_recipe_of_fp8_is_said(gpu_on_cpu: Compute) -> None:
    torch_features.skip_without_fp8()
    calls: list[dict[str, Any]] = []

    def scaled_mm(*operands: torch.Tensor, **how: Any) -> torch.Tensor:
        calls.append(how)
        return torch._scaled_mm(*operands, **how)  # type: ignore[arg-type]

    gpu_on_cpu.torch = Instead(torch, _scaled_mm=scaled_mm)
    gemm = Gemm(gpu_on_cpu, "fp8", 32, 64, 96)
    gemm.check()
    assert (gemm.conditions["scaling"], gemm.conditions["accumulation"]) == ("tensor", "fp32")
    assert not calls[0]["use_fast_accum"]
    assert calls[0]["scale_a"].numel() == 1


@pytest.mark.parametrize(
    ("near", "numa"), [(set(range(4096)), "near"), ({4095}, "far"), (None, "unknown")], ids=["near", "far", "unknown"]
)
def test_where_the_end_at_the_host_lies(
    gpu_on_cpu: Compute, cuda: pytest.MonkeyPatch, near: set[int] | None, numa: str
) -> None:
    def read_text(path: Path, **how: Any) -> str:
        assert str(path) == "/sys/devices/system/node/node1/cpulist"
        if near is None:
            raise FileNotFoundError
        return f"{min(near)}-{max(near)}\n"

    cuda.setattr(Path, "read_text", read_text)
    gpu_on_cpu.devices = [replace(gpu(), numa_node=1)]
    assert memory_location(gpu_on_cpu)["numa"] == numa


def test_a_host_copy_says_which_directions_came_before_it(device: Compute) -> None:
    found = [probes.host_copy(device, direction=way, mib=1) for way in ("d2h", "h2d", "d2h")]
    assert [each.conditions["earlier_copies"] for each in found] == ["none", "d2h", "d2h, h2d"]


def test_an_operation_that_the_library_does_not_have_cannot_be_measured(
    device: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch raises for a backend without it: Backend.hpp."""

    def refuse(*_: object) -> None:
        raise RuntimeError("Backend hccl does not support alltoall_base")

    monkeypatch.setattr(torch.distributed, "all_to_all_single", refuse)
    device.world = 2
    with pytest.raises(NotApplicable, match="hccl does not support alltoall_base"):
        probes.collective(device, operation="all_to_all", size="64KiB")


# -- corruption


def flipping(torch_module: Any, at: int, wrong: Callable[[torch.Tensor], None]) -> Instead:
    """torch whose product number `at` comes out wrong: a bit flipped beneath the probe."""
    calls = itertools.count(1)

    def mm(*operands: torch.Tensor, **more: Any) -> torch.Tensor:
        result = torch.mm(*operands, **more)
        if next(calls) == at:
            wrong(result)
        return result

    return Instead(torch_module, mm=mm)


def flip(bit: int, row: int = 3, column: int = 5) -> Callable[[torch.Tensor], None]:
    def wrong(result: torch.Tensor) -> None:
        bits = result.view(torch.int32 if result.element_size() == 4 else torch.int16)
        bits[row, column] ^= 1 << bit if bit < 8 * result.element_size() - 1 else -(1 << bit)

    return wrong


def exact(device: Compute, dtype: str = "fp32") -> ProbeResult:
    return probes.exact_matmul(device, dtype=dtype, m=96, n=64, k=128)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_right_products_are_right_to_the_last_bit(device: Compute, dtype: str, all_fast: None) -> None:
    finding = exact(device, dtype)
    assert (finding.value, finding.wrong) == (0, None)
    assert finding.details["compared_products"] > 10
    assert finding.details["excluded_error_rate_95"] == pytest.approx(3 / finding.details["compared_products"])


QUICK_BITS = (0, 8, 16, 24, 31)


@pytest.mark.parametrize(
    "bits", [QUICK_BITS, pytest.param(sorted({*range(32)} - {*QUICK_BITS}), marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("at", [3, 7])
def test_every_flipped_bit_of_a_product_is_found(device: Compute, bits: Sequence[int], at: int) -> None:
    """At place 3 and 7 of the products: one of normal data, one of integers. None is measured again."""
    for bit in bits:
        device.torch = flipping(torch, at, flip(bit))
        finding = exact(device)
        assert finding.value == 1, bit
        assert "row 3, column 5" in str(finding.wrong), bit


def test_a_device_that_is_wrong_from_the_first_product_on_is_found_by_the_host(device: Compute) -> None:
    """Compared with itself alone it would pass."""
    device.torch = flipping(torch, 1, flip(20, row=0))
    finding = exact(device)
    assert "against the host" in str(finding.wrong)


def test_one_worker_computes_the_product_of_the_host_for_all(device: Compute, tmp_path: Path) -> None:
    other, made = compute(), []
    device.shared = other.shared = tmp_path
    assert exact(device).value == exact(other).value == 0
    assert len(list(tmp_path.glob("*.pt"))) == 3
    assert torch.equal(other.once("a", lambda: torch.ones(2)), torch.ones(2))
    assert torch.equal(device.once("a", lambda: made.append(1)), torch.ones(2))
    assert not made


def test_what_another_worker_computed_wrongly_blames_no_device(device: Compute, tmp_path: Path) -> None:
    device.shared = tmp_path
    assert exact(device).value == 0
    for file in tmp_path.glob("*.pt"):
        torch.save(torch.load(file) + 1, file)
    assert exact(device).value == 0


def test_without_room_each_worker_computes_its_own(device: Compute, tmp_path: Path) -> None:
    device.shared = tmp_path / "gone"
    assert exact(device).value == 0
    device.shared = tmp_path
    (tmp_path / "a.part").symlink_to("/dev/full")
    assert torch.equal(device.once("a", lambda: torch.ones(2)), torch.ones(2))


def test_the_checksum_is_that_of_the_exact_result_whatever_adds_it(device: Compute) -> None:
    """So that devices can be compared: another order of the sums changes nothing."""
    before = exact(device).details["checksum"]
    torch.set_num_threads(1)
    other = compute()
    other.torch = in_any_order(torch)
    assert exact(other).details["checksum"] == before
    assert exact(compute()).details["checksum"] != 0


def differs_once(at: int) -> Instead:
    """torch whose comparison number `at` sees a difference that is not there when it is looked for."""
    calls = itertools.count(1)
    return Instead(torch, equal=lambda one, other: torch.equal(one, other) and next(calls) != at)


def test_products_that_differ_at_first_sight_only_count_as_wrong(device: Compute) -> None:
    """Whatever was wrong, the product or the comparison: the device did it, and nothing is tried until it is right."""
    device.torch = differs_once(5)
    finding = exact(device)
    assert (finding.value, finding.details["differing_products"]) == (1, 1)
    assert "normal data, against itself, seen by the device's comparison only" in str(finding.wrong)


@pytest.fixture
def rocm(gpu_on_cpu: Compute, monkeypatch: pytest.MonkeyPatch) -> Compute:
    monkeypatch.setattr(torch.version, "hip", "7.0")
    gpu_on_cpu.seconds = 0.15
    return gpu_on_cpu


def in_any_order(torch_module: Any, seed: int = 0) -> Instead:
    """torch that adds a product in two parts, split somewhere else every time: other rounding, the same integers."""
    where = random.Random(seed)  # noqa: S311  nothing secret

    def mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        split = where.randrange(1, a.shape[1])
        result = torch.mm(a[:, split:], b[split:]) + torch.mm(a[:, :split], b[:split])
        return result if out is None else out.copy_(result)

    return Instead(torch_module, mm=mm)


@pytest.mark.parametrize("repeats", [0, 20])
def test_a_library_that_adds_in_any_order_is_no_fault_of_the_device(rocm: Compute, repeats: int) -> None:
    """hipBLAS with atomics: products of normal data then say nothing, those of integers everything.

    Also one that repeats itself at first: a busy device may be given another kernel later.
    """
    products, other = itertools.count(1), in_any_order(torch)

    def mm(*operands: torch.Tensor, **more: Any) -> torch.Tensor:
        result: torch.Tensor = (torch if next(products) < repeats else other).mm(*operands, **more)
        return result

    rocm.torch = Instead(torch, mm=mm)
    finding = exact(rocm)
    assert (finding.value, finding.wrong) == (0, None)
    assert finding.details["normal_data"].startswith("not compared")
    assert finding.details["compared_products"] > 10


@pytest.mark.parametrize(("bit", "wrong"), [(3, False), (22, True)])
def test_a_fault_in_every_product_of_normal_data_is_not_taken_for_rounding(
    rocm: Compute, bit: int, wrong: bool
) -> None:
    """A low bit of one element warns: of hipBLASLt nothing published excludes it."""
    places = itertools.count(1)

    def mm(*operands: torch.Tensor, **more: Any) -> torch.Tensor:
        result = torch.mm(*operands, **more)
        if operands[0].frac().any():
            flip(bit, row=next(places) % 96)(result)
        return result

    rocm.torch = Instead(torch, mm=mm)
    finding = exact(rocm)
    assert ("normal data, against itself" in str(finding.wrong)) is wrong
    assert ("differ in few elements" in str(finding.notes)) is not wrong


def test_nowhere_else_is_another_order_an_excuse(device: Compute) -> None:
    device.torch = in_any_order(torch)
    assert "normal data, against itself" in str(exact(device).wrong)


def test_rocm_is_told_to_repeat_itself_and_then_left_as_it_was(rocm: Compute) -> None:
    seen = set()

    def mm(*operands: torch.Tensor, **more: Any) -> torch.Tensor:
        seen.add(torch.are_deterministic_algorithms_enabled())
        return torch.mm(*operands, **more)

    rocm.torch = Instead(torch, mm=mm)
    exact(rocm)
    assert seen == {True}
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.nightly
def test_exact_products_in_fp16_are_numbers(device: Compute, all_fast: None) -> None:
    """A sum beyond 65504 is infinite, whatever was added wrongly: it would compare as equal."""
    infinite = []

    def mm(*operands: torch.Tensor, **more: Any) -> torch.Tensor:
        result = torch.mm(*operands, **more)
        infinite.append(int(result.isinf().sum()))
        return result

    device.torch = Instead(torch, mm=mm)
    finding = probes.exact_matmul(device, dtype="fp16", m=128, n=128, k=8192)
    assert (finding.value, sum(infinite)) == (0, 0)
    assert finding.conditions["largest_integers"][0] > 10


@pytest.mark.parametrize("skipped", range(1, 7))
def test_an_exact_product_that_is_not_written_is_wrong(device: Compute, skipped: int) -> None:
    """Whatever its memory held before."""
    device.torch = torch_that_skips(skipped)
    assert exact(device).wrong


def torch_that_skips(skipped: int) -> Instead:
    """torch whose product number `skipped` leaves its result as it was."""
    calls = itertools.count(1)

    def mm(*operands: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if next(calls) == skipped:
            return torch.zeros(operands[0].shape[0], operands[1].shape[1]) if out is None else out
        return torch.mm(*operands) if out is None else torch.mm(*operands, out=out)

    return Instead(torch, mm=mm)


def test_a_product_without_an_exact_reference_is_not_applicable(device: Compute) -> None:
    with pytest.raises(NotApplicable, match=r"exact_matmul does not support fp8 \(supported: bf16, fp16, fp32\)"):
        exact(device, "fp8")


class Weak(torch.Tensor):
    """Memory with a fault. What is written through a block of it lands in the same cells."""

    wears: Callable[[torch.Tensor], object]

    def _written(self, result: torch.Tensor) -> torch.Tensor:
        cells = self.as_subclass(torch.Tensor)
        if cells.storage_offset() == 0 and cells.numel() > 130:
            type(self).wears(cells)
        return result

    def mul_(self, other: Any) -> torch.Tensor:
        return self._written(super().mul_(other))

    def fill_(self, value: Any) -> torch.Tensor:
        return self._written(super().fill_(value))

    def bitwise_not_(self) -> torch.Tensor:
        return self._written(super().bitwise_not_())


@pytest.mark.parametrize(
    ("fault", "words", "bits"),
    [
        (lambda cells: cells[77].bitwise_or_(1 << 9), [77], {f"{1 << 9:#018x}"}),
        (lambda cells: cells[100:130].bitwise_or_(1 << 9), range(100, 130), {f"{1 << 9:#018x}"}),
        (lambda cells: cells[78].copy_(cells[77]), [78], None),  # one cell at two addresses
    ],
)
def test_weak_memory_is_found_with_every_address_and_its_bits(
    device: Compute,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[torch.Tensor], object],
    words: Sequence[int],
    bits: set[str] | None,
) -> None:
    monkeypatch.setattr(Weak, "wears", staticmethod(fault), raising=False)
    sound = torch.empty_like
    device.torch = Instead(
        torch,
        empty=lambda *args, **more: torch.empty(*args, **more).as_subclass(Weak),
        empty_like=lambda like: sound(like.as_subclass(torch.Tensor)),  # the expected words lie elsewhere
    )
    finding = probes.memory_pattern(device, mib=1)
    mismatches = finding.details["mismatches"]
    assert finding.value
    assert {each["address"] for each in mismatches} == {8 * word for word in words}
    assert f"first at byte {8 * words[0]:#x}" in str(finding.wrong)
    if bits:
        assert {each["bits"] for each in mismatches} == bits
    else:  # a constant pattern cannot see it
        assert all("inversions" not in each["pattern"] for each in mismatches)


def test_a_word_that_was_read_wrongly_once_counts(device: Compute) -> None:
    device.torch = differs_once(3)
    finding = probes.memory_pattern(device, mib=1)
    assert finding.value == 1
    assert "a second read showed no mismatch" in str(finding.wrong)


def test_sound_memory_passes_and_says_how_much_was_covered(device: Compute) -> None:
    finding = probes.memory_pattern(device, mib=2, state="hot")
    assert (finding.metric, finding.value, finding.wrong) == ("memory_pattern.hot", 0, None)
    assert finding.details["covered_bytes"] == 2 * 2**20


@pytest.mark.parametrize(("free", "had"), [(20, "19.3"), (120, "126.7")])
def test_memory_that_others_hold_leaves_too_little_to_test(
    device: Compute, monkeypatch: pytest.MonkeyPatch, free: int, had: str
) -> None:
    """Or a gigabyte of 141 would pass for all of them."""
    gib = 2**30
    cuda = Instead(torch.cuda, mem_get_info=lambda device: (free * gib, 141 * gib), empty_cache=lambda: None)
    device.backend = Backend(Instead(torch, get_device_module=lambda kind: cuda), TorchKind("cuda", "nccl"))
    device.torch = Instead(torch, empty=lambda count, **how: SimpleNamespace(numel=lambda: count))
    monkeypatch.setattr(device, "is_cpu", False)
    monkeypatch.setattr(device, "synchronize", lambda: None)
    with pytest.raises(Unmeasurable, match=rf"only {had} of 151\.4 GB could be allocated: the rest is in use"):
        probes.memory_pattern(device)


@each_row(("given", "said"), CASES["sampling"])
def test_what_no_sampling_can_be_done_by_is_refused(given: dict[str, Any], said: str) -> None:
    """A billion calls before the first sample would look like a device that hangs."""
    with pytest.raises(ValueError, match=re.escape(f"sample: {said}")):
        compute().sample(lambda: None, **{"amount": 1.0, "unit": "GB/s", **given})
