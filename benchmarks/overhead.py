"""Our probes against plain loops that do the same work: what does measuring with pytest_accel cost?

Ours runs in the worker processes of an acceptance run. The plain loops (loops.py) run in processes of their own
on the same cores. They take turns, A B B A, and each pair of neighbours gives one ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.util
import itertools
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import harmonic_mean, median, quantiles
from typing import Any

from pytest_accel import probes
from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import Outcome
from pytest_accel.probes.collectives import OPERATIONS
from pytest_accel.probes.declare import declaration_for
from pytest_accel.probes.request import Request
from pytest_accel.run.processes.programs import REAL
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool

HERE = Path(__file__).parent
SUSPICIOUS = 1.01
"""We cannot be faster than the same work without us: a ratio above this is a mistake, and has to be explained."""


@dataclass(frozen=True)
class Plain:
    """A plain loop: its name in loops.py, and its arguments."""

    name: str
    loop: str
    of: Mapping[str, Any]
    ranks: bool = False


@dataclass
class Workload:
    """One probe of ours and the plain loops beside it; the first of them is what the ratio is required of.

    `amount` is what one call does, in units of `unit` times seconds: counted here once more, not taken from us.
    """

    metric: str
    probe: Callable[..., Any]
    conditions: Mapping[str, Any]
    amount: float
    unit: str
    required: float
    plain: list[Plain]
    rates: dict[str, list[float]] = field(default_factory=dict)

    def ratios(self, over: str, under: str) -> list[float]:
        return [a / b for a, b in zip(self.rates[over], self.rates[under], strict=True)]


class Ours:
    """The probes, as an acceptance run runs them: sensor, workers, gates and all."""

    def __init__(self, folder: Path, ranks: int | None) -> None:
        self.pool = WorkerPool(SensorClient(patience=120.0))
        self.pool.begin(REAL, folder)
        found = self.pool.sensor.discover("cpu")
        if "devices" not in found:
            raise SystemExit(f"the sensor found no processor: {found.get('reason')}")
        real = [Device(**fields) for fields in found["devices"]]
        each = itertools.islice(itertools.cycle(real), ranks or len(real))
        self.devices = [replace(device, uuid=f"CPU-{place}", index=place) for place, device in enumerate(each)]

    def rate(self, workload: Workload, seconds: float) -> float:
        """The sum over the devices; of ranks, what the first found (all hold the slowest's time)."""
        found = self.rates(workload, seconds, self.devices)
        return found[0] if declaration_for(workload.probe).runs == "ranks" else math.fsum(found)

    def rates(self, workload: Workload, seconds: float, devices: Sequence[Device]) -> list[float]:
        """What we report of each of `devices`, which work at the same time: work over time."""
        declared = declaration_for(workload.probe)
        # of no precision, so that it is never ended early: the same time as the plain loop
        request = Request(declared, workload.conditions, workload.metric, seconds=seconds)
        outcomes: list[Outcome] = []
        self.pool.measure(request, devices, outcomes.append)
        found = []
        for outcome in outcomes:
            if outcome.trouble:
                raise SystemExit(f"{workload.metric} on {outcome.group[0].name}: {outcome.trouble['reason']}")
            found.append(harmonic_mean(outcome.results[0]["samples"]))
        return found


class Loops:
    """One process per device for the plain loops, on the same cores with as many threads."""

    def __init__(self, folder: Path, devices: Sequence[Device]) -> None:
        self.meeting = str(folder / "plain-rendezvous")
        self.children = [_child(max(1, int(device.facts["cores"])), device.cpus) for device in devices]

    def rate(self, plain: Plain, amount: float, seconds: float) -> float:
        for rank, child in enumerate(self.children):
            world = {"file": self.meeting, "rank": rank, "world": len(self.children)} if plain.ranks else {}
            _tell(child, json.dumps({"loop": plain.loop, "of": {**plain.of, **world}, "seconds": seconds}))
        for child in self.children:
            _hear(child)
        for child in self.children:
            _tell(child, "go")
        rates = [amount * float(_hear(child)) for child in self.children]
        return min(rates) if plain.ranks else math.fsum(rates)

    def stop(self) -> None:
        for child in self.children:
            assert child.stdin
            child.stdin.close()  # the end of its input ends it
            try:
                child.wait(10.0)
            except subprocess.TimeoutExpired:  # a rank that waits for one that is gone
                child.kill()
                child.wait()


def _child(threads: int, cpus: Sequence[int]) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
        "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, str(HERE / "loops.py"), str(threads), *map(str, cpus)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # as our workers: Linux shares a busy processor among sessions, not processes
    )


def _tell(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin
    child.stdin.write(line + "\n")
    child.stdin.flush()


def _hear(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    line = child.stdout.readline()
    if not line:
        raise SystemExit("a process with a plain loop has ended before its answer; its last words are above")
    return line


def workloads(options: argparse.Namespace, library: Path | None, world: int) -> list[Workload]:
    """What is compared; `options` give the sizes."""
    side, mib, kib = options.side, options.mib, options.collective_kib
    numpy = [Plain("numpy", "numpy_matmul", {"side": side})] if importlib.util.find_spec("numpy") else []
    found = [
        Workload(
            "matmul.fp32",
            probes.matmul,
            {"dtype": "fp32", "m": side, "n": side, "k": side},
            2 * side**3 / 1e12,
            "TFLOPS",
            0.98,
            [Plain("torch", "torch_matmul", {"side": side, "dtype": "float32"}), *numpy],
        )
    ]
    for op, arrays in (("copy", 2), ("triad", 3), ("read", 1)):
        plain = [Plain("torch", "torch_stream", {"op": op, "mib": mib})]
        if library:
            plain.append(Plain("C", "c_stream", {"op": op, "mib": mib, "library": str(library)}))
        conditions = {"op": op, "mib": mib, "dtype": "fp32", "calls": 1}  # no fastest of several: the loops have none
        amount = arrays * mib * 2**20 / 1e9
        found.append(Workload(f"stream.{op}", probes.stream, conditions, amount, "GB/s", 0.95, plain))
    size, share = f"{kib}KiB" if kib % 1024 else f"{kib // 1024}MiB", (world - 1) / world
    factors = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}
    for operation in OPERATIONS if world > 1 else ():
        amount = kib * 2**10 / 1e9 * factors.get(operation, 1.0)
        plain = [Plain("torch", "torch_collective", {"operation": operation, "size": kib * 2**10}, ranks=True)]
        metric, conditions = f"{operation}.busbw@{size}", {"operation": operation, "size": size}
        found.append(Workload(metric, probes.collective, conditions, amount, "GB/s", 0.97, plain))
    return [each for each in found if not options.only or any(word in each.metric for word in options.only)]


def compile_c(folder: Path) -> tuple[Path | None, str]:
    """The library made of stream.c, if there is a compiler, and what to know about it."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        return None, "no C compiler: no comparison with C"
    library, listing = folder / "stream.so", folder / "stream.s"
    flags = [compiler, "-O3", "-march=native", "-fopenmp", "-fPIC", str(HERE / "stream.c")]
    for more in (["-shared", "-o", str(library)], ["-S", "-o", str(listing)]):
        done = subprocess.run([*flags, *more], capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"no comparison with C: {compiler} failed: {done.stderr.strip().splitlines()[-1]}"
    text = listing.read_text(encoding="utf-8")
    stores = "non-temporal stores" if "movnt" in text or "stnp" in text else "no non-temporal stores"
    copies = (
        "; its copy is a call of memcpy or memmove, which may make them"
        if "memcpy" in text or "memmove" in text
        else ""
    )
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return library, f"C: {version.splitlines()[0]}, -O3 -march=native -fopenmp: {stores}{copies}"


def measure(workload: Workload, ours: Ours, loops: Loops, pairs: int, seconds: float) -> None:
    """Everybody in turn, there and back again: A B B A."""
    turns = [None, *workload.plain]
    workload.rates = {name: [] for name in ("ours", *(plain.name for plain in workload.plain))}
    for pair in range(pairs):
        for plain in turns if pair % 2 == 0 else reversed(turns):
            if plain is None:
                workload.rates["ours"].append(ours.rate(workload, seconds))
            else:
                workload.rates[plain.name].append(loops.rate(plain, workload.amount, seconds))


def lines(workload: Workload) -> Iterator[str]:
    """The table's rows: ours over each plain loop."""
    for plain in workload.plain:
        ratios = workload.ratios("ours", plain.name)
        middle = median(ratios)
        low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else (middle, middle, middle)
        judged, required = "", ""
        if plain is workload.plain[0]:
            required = f">= {workload.required}"
            judged = "ok" if middle >= workload.required else "TOO LOW"
            judged = "SUSPICIOUS" if middle > SUSPICIOUS else judged
        yield (
            f"{workload.metric:<27}{plain.name:<7}{median(workload.rates['ours']):9.4g}"
            f"{median(workload.rates[plain.name]):9.4g} {workload.unit:<7}{middle:7.3f}"
            f"   {low:.3f} .. {high:.3f}"
            f"   {min(ratios):.3f} .. {max(ratios):.3f}   {required:<8}{judged}"
        ).rstrip()


HEADER = (
    f"{'metric':<27}{'plain':<7}{'ours':>9}{'plain':>9} {'unit':<7}{'ratio':>7}"
    f"   {'half of pairs':<14}   {'all pairs':<14}   required"
)


def about(devices: Sequence[Device], options: argparse.Namespace) -> dict[str, Any]:
    """What the figures depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, Any] = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "cpu": devices[0].model,
        "devices": {each.name: list(each.cpus) for each in devices},
        "python": platform.python_version(),
    }
    for name in ("pytest-accel", "torch", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return {**found, "pairs": options.pairs, "seconds": options.seconds}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="pairs of ours and plain")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn, a quarter of them warm-up")
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only metrics that contain one of the words")
    parser.add_argument("--side", type=int, default=1024, help="matrices are SIDE x SIDE")
    parser.add_argument("--mib", type=int, default=256, help="MiB of each array of stream")
    parser.add_argument("--collective-kib", type=int, default=16384, help="KiB of a collective", metavar="KIB")
    parser.add_argument(
        "--ranks", type=int, help="of a collective, more than there are devices too; default: the devices"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    return parser.parse_args()


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        ours = Ours(folder, options.ranks)
        stack.callback(ours.pool.stop)
        loops = Loops(folder, ours.devices)
        stack.callback(loops.stop)
        library, remark = compile_c(folder)
        facts = {**about(ours.devices, options), "c": remark}
        for key, value in facts.items():
            print(f"{key}: {value}")
        print(f"\n{HEADER}", flush=True)
        done = workloads(options, library, len(ours.devices))
        for workload in done:
            measure(workload, ours, loops, options.pairs, options.seconds)
            print("\n".join(lines(workload)), flush=True)
    if options.json:
        results = {each.metric: {"unit": each.unit, "required": each.required, "rates": each.rates} for each in done}
        options.json.write_text(json.dumps({"about": facts, "results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
