"""The predictions about our own method, each against one device: runs V1 to V12, one JSON line each.

Where a run needs a GPU and there is none it says so; the others run on a CPU at small sizes, where no prediction was
made: the figures then only show that the code runs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import Bench, NotRun

from pytest_accel import probes
from pytest_accel.core.run import Run
from pytest_accel.core.stats import LOOKS, estimate, estimate_rate
from pytest_accel.judging.causes.evidence import attainable, flops_per_clock
from pytest_accel.probes.device.gemm import Operands
from pytest_accel.probes.device.shape_search import spread
from pytest_accel.probes.device.timing import time_one_block
from pytest_accel.probes.matmul_best import CPU_SPACE
from pytest_accel.probes.memory_pattern import WINDOW_BYTES
from pytest_accel.run.record import BadRecord, find, read
from pytest_accel.skus.loader import load as load_sku

Found = tuple[dict[str, float], dict[str, Any]]
"""The figures that something was predicted of, by name, and what explains them."""


WAKING = 40_000_000
"""SM cycles after which an idle device has its clock: 20 ms at 1980 MHz, 116 ms at the 345 MHz of an idle H200."""


@dataclass(frozen=True)
class Subject:
    """The device, the part that it is said to be, and a folder with the records `quick` and `soak`."""

    bench: Bench
    sku: str
    records: Path | None

    def record(self, level: str) -> Run:
        """Raises NotRun if there is none that ended."""
        if self.records is None:
            raise NotRun(f"needs a record of {level}: --records")
        try:
            found = read(find(self.records / level))
        except BadRecord as error:
            raise NotRun(f"needs a record of {level}: {str(error).partition(': ')[2]}") from None
        if found.state != "finished":
            raise NotRun(f"the run {level} did not come to its end (state: {found.state})")
        return found

    def counted_mhz(self) -> float:
        """Return the SM clock in MHz right behind the work that is queued, by counted cycles; nan without any."""
        return float(self.bench.device.counted_clock().get("counted_mhz", math.nan))

    def share_of_clock(self, tflops: float, mhz: float) -> float:
        per_clock = flops_per_clock(load_sku(self.sku).datasheet, self.bench.dtype)
        if per_clock is None:
            raise NotRun(f"needs FLOPs per clock of {self.bench.dtype}: name the part with --sku")
        units = self.bench.torch.cuda.get_device_properties(0).multi_processor_count
        return tflops / attainable(units, per_clock, mhz)


@dataclass(frozen=True)
class Verification:
    """One run: what was predicted of one GPU, the function that finds it, and the seconds planned for it on a GPU.

    `predicted` are the least and the most of each figure ("about 1980" is taken within 3 %). `of` are figures that were
    predicted of single parts, by part: with them the run is for these parts alone.
    """

    what: str
    predicted: Mapping[str, tuple[float, float]]
    find: Callable[[Subject], Found]
    seconds: float
    of: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    def of_part(self, sku: str) -> Mapping[str, tuple[float, float]]:
        """All that was predicted of a part."""
        return {**self.predicted, **self.of.get(sku, {})}


def v1(subject: Subject) -> Found:
    bench = subject.bench
    bench.need_gpu("a kernel that counts cycles")
    work, cuda, pairs = bench.product(), bench.torch.cuda, []
    bench.rate(work, work.operations, 5.0)
    for _ in range(20):
        for _ in range(100):
            work()
        driver = cuda.clock_rate()  # while the queue is full
        pairs.append((subject.counted_mhz(), driver))
    cycles, driver = map(statistics.median, zip(*pairs, strict=True))
    time.sleep(3.0)
    cuda._sleep(WAKING)  # noqa: SLF001  torch has no public one
    figures = {"cycles / driver": cycles / driver, "loaded MHz": cycles, "idle MHz": subject.counted_mhz()}
    return figures, {"pairs_mhz": pairs}


def _burst(work: Callable[[], object], subject: Subject) -> list[tuple[float, float]]:
    """Return seconds of a call, and MHz, of five bursts of 20 ms, each after a second of rest.

    So short, neither power nor heat limits the device.
    """
    bench = subject.bench
    clock, found = bench.device.clock, []
    bench.gate.working()
    count = max(1, round(0.02 / time_one_block(work, clock, 0.02)))
    for _ in range(5):
        bench.gate.ready()
        time.sleep(1.0)
        for _ in range(3):
            work()
        start = clock.mark()
        for _ in range(count):
            work()
        end, mhz = clock.mark(), subject.counted_mhz()  # behind the work, before the host waits for it
        found.append((clock.seconds(start, end) / count, mhz))
        bench.gate.report_block(found[-1][0], False)
    return found


def v2(subject: Subject) -> Found:
    bench = subject.bench
    bench.need_gpu("its clock")
    work = bench.product()
    bursts = _burst(work, subject)
    once, fast = map(statistics.median, zip(*bursts, strict=True))
    burst = work.operations / once / 1e12
    sustained, held = bench.rate(work, work.operations, 10.0), []
    for _ in range(10):
        for _ in range(100):
            work()
        held.append(subject.counted_mhz())
    steady = statistics.median(held)
    before, after = subject.share_of_clock(burst, fast), subject.share_of_clock(sustained, steady)
    figures = {"sustained": after, "change from burst": abs(after - before), "rate lost": 1 - sustained / burst}
    details = {"mhz_burst": fast, "mhz_sustained": steady, "sustained_tflops": sustained}
    return {**figures, "burst TFLOPS": burst}, {**details, "bursts_s_mhz": bursts, "held_mhz": held}


def v3(subject: Subject) -> Found:
    bench, torch = subject.bench, subject.bench.torch
    work = bench.product()
    kind = torch.bfloat16 if bench.gpu else torch.float32
    a, b, c = (torch.zeros(bench.side, bench.side, dtype=kind, device=bench.device.torch_device) for _ in range(3))
    rates: dict[str, list[float]] = {"random": [], "zeros": []}
    for turn in range(4):
        for name in ("random", "zeros") if turn % 2 == 0 else ("zeros", "random"):
            call = work if name == "random" else lambda: torch.mm(a, b, out=c)
            rates[name].append(bench.rate(call, work.operations, 2.0))
    return {"zeros / random": statistics.fmean(rates["zeros"]) / statistics.fmean(rates["random"])}, rates


def v4(subject: Subject) -> Found:
    """mamf-finder's way: a buffer of 256 MiB is zeroed before every product, and each has its own pair of marks."""
    bench = subject.bench
    shapes = [(2048, 2048, 13312), (8192, 8192, 8192)] if bench.gpu else [(128, 128, 832), (512, 512, 512)]
    size = 2**28 if bench.gpu else 2**22
    buffer = bench.torch.empty(size, dtype=bench.torch.int8, device=bench.device.torch_device)
    gains, apart_s = [], []
    for shape in shapes:
        work, clock, times = bench.product(*shape), bench.device.clock, []
        bench.rate(work, work.operations, 2.0)
        for _ in range(100):
            buffer.zero_()
            start = clock.mark()
            work()
            times.append((start, clock.mark()))
        apart_s.append([clock.seconds(*marks) for marks in times])
        apart = work.operations / statistics.fmean(apart_s[-1]) / 1e12
        gains.append(apart / bench.rate(work, work.operations, 4.0) - 1)
    return {"small": gains[0], "large": gains[1]}, {"shapes": shapes, "apart_s": apart_s}


def v5(subject: Subject) -> Found:
    bench = subject.bench
    began = time.perf_counter()
    found = bench.probe(probes.matmul_best, 10.0, dtype=bench.dtype)
    searched = time.perf_counter() - began
    sides = range(1024, 16385, 1024)
    space = [(m, n, k) for m in sides for n in sides for k in sides] if bench.gpu else spread(CPU_SPACE, 40)
    operands = Operands(bench.device, bench.dtype, max(max(m, n) * k for m, n, k in space))

    def rate(shape: tuple[int, ...], seconds: float) -> float:
        work = bench.product(*shape, operands=operands)
        return work.operations / time_one_block(work, bench.device.clock, seconds)

    began, rates = time.perf_counter(), {}
    for shape in spread(space, len(space)):
        if time.perf_counter() - began < SWEEP:
            rates[shape] = rate(shape, 0.0)
    swept = time.perf_counter() - began
    ours, theirs = tuple(found.conditions[key] for key in "mnk"), max(rates, key=rates.__getitem__)
    again = [(rate(ours, 0.3), rate(theirs, 0.3)) for _ in range(5)]
    details = {"search_s": searched, "sweep_s": swept, "swept": len(rates), "of": len(space)}
    ratio = statistics.median(a / b for a, b in again)
    return {"search / sweep": ratio}, {**details, "ours": ours, "sweep": theirs}


def v6(subject: Subject) -> Found:
    bench = subject.bench
    mib = 4096 if bench.gpu else 16
    found = {
        name: estimate_rate(bench.probe(probes.stream, 2.0, op=name.partition(" ")[0], mib=mib).samples).mean / 1000
        for name in ("copy TB/s", "triad", "read", "copy_kernel")
    }
    by_kernel = found.pop("copy_kernel")  # nothing was predicted of it; the driver's copy depends on its version
    return found, {"mib": mib, "copy_kernel TB/s": by_kernel}


def v7(subject: Subject) -> Found:
    bench = subject.bench
    mib = 256 if bench.gpu else 16
    idle = _link(bench) if bench.gpu else ""
    figures = {
        name: estimate_rate(bench.probe(probes.host_copy, 2.0, direction=name[:3], mib=mib).samples).mean
        for name in ("h2d GB/s", "d2h")
    }
    if not bench.gpu:
        return figures, {}
    here = bench.torch.empty(2**30, dtype=bench.torch.int8, pin_memory=True)
    there = bench.torch.empty(2**30, dtype=bench.torch.int8, device="cuda")
    for _ in range(60):
        there.copy_(here, non_blocking=True)
    loaded = _link(bench)
    generations = [_generation(each) for each in (idle, loaded)]
    ratio = generations[0] / generations[1] if generations[1] else math.nan
    return {**figures, "gen idle / loaded": ratio}, {"idle": idle, "loaded": loaded}


def _link(bench: Bench) -> str:
    """The PCIe link as nvidia-smi states it ("5, 16"; in a virtual machine "[N/A], [N/A]"), or why it states none."""
    query = "--query-gpu=pcie.link.gen.current,pcie.link.width.current"
    command = ["nvidia-smi", query, "--format=csv,noheader", "-i", bench.device.devices[0].uuid]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def _generation(link: str) -> float:
    """The first figure of what `_link` returns; nan if it is no number."""
    try:
        return float(link.partition(",")[0])
    except ValueError:
        return math.nan


def v8(subject: Subject) -> Found:
    bench = subject.bench
    shape = dict.fromkeys("mnk", 4096 if bench.gpu else 256)
    found = bench.probe(probes.exact_matmul, 3.0, dtype=bench.dtype, **shape)
    torch, where, k = bench.torch, bench.device.torch_device, shape["k"]
    kind = torch.bfloat16 if bench.gpu else torch.float32
    a, b = (torch.randint(-32, 33, (k, k), device=where).to(kind) for _ in range(2))
    order = torch.randperm(k, device=where)
    permuted = (a @ b != a[:, order] @ b[order]).sum().item()
    figures = {"wrong elements": float(found.value or 0), "wrong with K permuted": float(permuted)}
    details: dict[str, Any] = {"products": found.details["compared_products"]}
    if bench.gpu:
        for name, fast in (("fp8", False), ("fp8 fast", True)):
            try:
                details[f"{name} wrong by sum"] = wrong = _fp8(bench, fast)
                figures[f"{name} first wrong at 2^"] = next(
                    (power for power, count in wrong.items() if count), math.inf
                )
            except (RuntimeError, ValueError) as error:
                details[name] = str(error).splitlines()[0]
    return figures, details


def _fp8(bench: Bench, fast: bool) -> dict[int, int]:
    """How many sums of fp8 products are wrong, by the power of two below the sums: a third are threes.

    `fast` is torch's use_fast_accum, which our own products leave off: the partial sums are then promoted to fp32. The
    tiles outnumber the SMs, since cuBLAS splits the sums of few and long ones: each part would then be short again.
    """
    torch, one = bench.torch, bench.torch.ones((), device="cuda")
    wrong = {}
    for power in range(11, 18):
        k = 2**power
        a, b = (torch.ones(2048, k, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        a[:, ::3] = (3 * one).to(torch.float8_e4m3fn)
        exact = k + 2 * len(range(0, k, 3))
        found = torch._scaled_mm(  # noqa: SLF001  torch has no public one
            a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast
        )
        wrong[power] = int((found != exact).sum())
    return wrong


def v9(subject: Subject) -> Found:
    soaks = [each for each in subject.record("soak").measurements if each.metric == "soak.rate"]
    if not soaks:
        raise NotRun("the record has no soak")
    seen = soaks[-1].details["telemetry"]
    thermal = seen.get("sw_thermal_s", math.nan), seen.get("hw_thermal_s", math.nan)
    share = seen.get("sw_power_cap_s", math.nan) / seen.get("seconds", math.nan)
    figures = {"power-cap share": share, "thermal s": sum(thermal)}
    names = ("hw_power_brake_s", "seconds", "reasons", "sampled", "power_w")
    return figures, {name: seen.get(name) for name in names}


def v10(subject: Subject) -> Found:
    """Seconds of samples until the 99.9 % interval is within 5 %: what a margin over 5 % costs."""
    work = subject.bench.product()
    found = subject.bench.sample(work, work.operations / 1e12, "TFLOPS", 6.0)
    enough = [n for n in LOOKS if n <= len(found.seconds) and estimate(found.seconds[:n]).relative_half_width < 0.05]
    block = found.conditions["operations_per_block"] * statistics.fmean(found.seconds)
    seconds = enough[0] * block if enough else math.inf
    return {"seconds": seconds}, {"blocks": enough[:1], "block_s": block, "had": len(found.seconds)}


def v11(subject: Subject) -> Found:
    seconds = subject.record("quick").info["seconds"]
    return {"seconds": seconds["wall"]}, seconds


def v12(subject: Subject) -> Found:
    bench = subject.bench
    bench.gate.seconds = []
    found = bench.probe(probes.memory_pattern, 0.0, mib=None if bench.gpu else 64)
    covered = found.details["covered_bytes"]
    windows = -(-covered // WINDOW_BYTES)
    figures = {"s a pattern": sum(bench.gate.seconds[: 2 * windows]) / 2}
    return figures, {"covered_gb": covered / 1e9, "wrong_words": found.value}


ANY = math.inf
SWEEP = 35.0
"""Seconds of V5's sweep, in random order: how much of it that was is in the details."""
RUNS = {
    "V1": Verification(
        "clock by counted cycles against the driver's, after 8192^3 bf16",
        {"cycles / driver": (0.97, 1.03)}, v1, 14,
        of={"h200-sxm": {"loaded MHz": (1450, 1700), "idle MHz": (1920, 2040)}},
    ),
    "V2": Verification(
        "share of what the held clock gives, 8192^3 bf16",
        {"sustained": (0.87, 0.95), "change from burst": (0, 0.015), "rate lost": (0.05, 0.15)}, v2, 20,
        of={part: {"burst TFLOPS": (769, 798)} for part in ("h100-sxm", "h200-sxm")},
    ),
    "V3": Verification("operands of zeros, sustained", {"zeros / random": (1.13, 1.35)}, v3, 20),
    "V4": Verification(
        "gain by mamf-finder's gaps: 2048x2048x13312, 8192^3", {"small": (0.05, 0.15), "large": (-ANY, 0.04)}, v4, 16
    ),
    "V5": Verification("search of 10 s, a sweep in steps of 1024", {"search / sweep": (0.99, ANY)}, v5, 54),
    "V6": Verification(
        "memory at 4 GiB",
        {},
        v6, 12,
        of={
            "h100-sxm": {"copy TB/s": (2.9, 3.1)},
            "h200-sxm": {"copy TB/s": (4.2, 4.4), "triad": (4.1, 4.3), "read": (4.4, 4.6)},
        },
    ),
    "V7": Verification(
        "host link, pinned", {"h2d GB/s": (53, 56), "d2h": (53, 56), "gen idle / loaded": (0, 1)}, v7, 10
    ),
    "V8": Verification(
        "exact products: the same bits; fp8 is right up to sums of 2^13 with fast accumulation, up to 2^17 without",
        {
            "wrong elements": (0, 0), "wrong with K permuted": (0, 0), "fp8 fast first wrong at 2^": (13, 17),
            "fp8 first wrong at 2^": (18, ANY),
        },
        v8, 10,
    ),
    "V9": Verification("counters of a soak of 60 s", {"power-cap share": (0.5, 1.01), "thermal s": (0, 0)}, v9, 1),
    "V10": Verification("samples until the interval is within 5 %", {"seconds": (0, 1)}, v10, 8),
    "V11": Verification(
        "wall time of the level quick (predicted as under 45 s at first, when its budgets alone were 53 s: wrong)",
        {"seconds": (0, 85)}, v11, 1,
    ),
    "V12": Verification(
        "address hash over 90 % of the memory", {}, v12, 12, of={"h200-sxm": {"s a pattern": (0.2, 0.5)}}
    ),
}  # fmt: skip
STARTING = 8.0
"""Seconds until torch and the device are there."""


def predicted(run: Verification, sku: str) -> str:
    """The prediction in words: "copy 4 to 4.3, triad 4.1 to 4.3 TB/s"."""

    def text(low: float, high: float) -> str:
        if low == high:
            return f"{low:g}"
        if high == ANY:
            return f"at least {low:g}"
        return f"at most {high:g}" if low in (0, -ANY) else f"{low:g} to {high:g}"

    return ", ".join(f"{name} {text(*limits)}" for name, limits in run.of_part(sku).items())


def judge(run: Verification, found: Mapping[str, float], gpu: bool, sku: str) -> str:
    """HELD, NOT HELD and by which figures, HELD IN PART and without which figures, or NOT RUN and why."""
    if not gpu:
        return "NOT RUN: predicted of a GPU, this is a CPU's figure"
    if run.of and sku not in run.of:
        return f"NOT RUN: predicted of {' and '.join(run.of)}, this is {sku}"
    expected = run.of_part(sku)
    missing = [name for name in expected if math.isnan(found.get(name, math.nan))]
    broken = [name for name, (low, high) in expected.items() if name not in missing and not low <= found[name] <= high]
    if broken:
        return f"NOT HELD: {', '.join(broken)}"
    if not missing:
        return "HELD"
    return f"{'NOT RUN' if len(missing) == len(expected) else 'HELD IN PART'}: no figure of {', '.join(missing)}"


def blank(name: str, why: str, sku: str) -> dict[str, Any]:
    """The row of a run that did not take place."""
    run = RUNS[name]
    row = {"run": name, "what": run.what, "predicted": predicted(run, sku), "found": {}}
    return {**row, "result": f"NOT RUN: {why}", "seconds": 0.0}


def verify(name: str, subject: Subject, left: float) -> dict[str, Any]:
    """One run as a row of the table."""
    run, began = RUNS[name], time.perf_counter()
    if left < run.seconds:
        return blank(name, f"it is planned with {run.seconds:g} s, and {max(0.0, left):.0f} were left", subject.sku)
    row = blank(name, "", subject.sku)
    try:
        row["found"], row["details"] = run.find(subject)
        row["result"] = judge(run, row["found"], subject.bench.gpu, subject.sku)
        row["found"] = {key: value if math.isfinite(value) else None for key, value in row["found"].items()}
        subject.bench.release()
    except NotRun as why:
        row["result"] = f"NOT RUN: {why}"
    except Exception as error:  # noqa: BLE001  one run that breaks costs its own row
        row["result"] = f"NOT RUN: broke: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        row["traceback"] = traceback.format_exc()
    return {**row, "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", default=list(RUNS), metavar="RUN", help="of V1 to V12; all without")
    parser.add_argument("--sku", default="h200-sxm", help="the part that this is: its FLOPs per clock")
    parser.add_argument("--records", type=Path, metavar="DIR", help="with the records quick (V11) and soak (V9)")
    parser.add_argument("--seconds", type=float, default=600.0, help="what no longer fits in these is not run")
    options = parser.parse_args()
    if unknown := [each for each in options.runs if each not in RUNS]:
        sys.exit(f"no run {unknown[0]!r}; choose of {', '.join(RUNS)}")
    until = time.monotonic() + options.seconds
    subject = Subject(Bench(), options.sku, options.records)
    for name in options.runs:
        print(json.dumps(verify(name, subject, until - time.monotonic()), default=str), flush=True)


if __name__ == "__main__":
    main()
