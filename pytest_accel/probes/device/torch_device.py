"""A device as torch drives it: what a probe is handed. Lives in the worker process only."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.details import ProbeDetails
from pytest_accel.core.measurement import Device
from pytest_accel.core.stats import estimate_rate
from pytest_accel.drivers import registry
from pytest_accel.drivers.vendor import TorchKind
from pytest_accel.drivers.visibility import verified
from pytest_accel.probes.device.error_class import SOFTWARE, Unmeasurable
from pytest_accel.probes.device.timing import Clock, Gate, HostClock, time_blocks
from pytest_accel.probes.device.torch_backend import Backend, first_line

__all__ = ["Compute", "DeviceClock", "ProbeResult"]

_FABRIC = "the fabric is not ready, which is no fault of the GPU: look at `systemctl status nvidia-fabricmanager`"
"""What CUDA error 802 means (cudaErrorSystemNotReady)."""

KFD = "/dev/kfd"
"""Through which HIP computes; the management library gets by without."""
UVM = "/dev/nvidia-uvm"
"""And CUDA, whose library has it made where it may (nvidia-modprobe --unified-memory); NVML gets by without."""

_BLAS_SETTINGS = ("TORCH_BLAS_PREFER_", "PYTORCH_TUNABLEOP_", "HIPBLASLT_", "ROCBLAS_", "CUBLAS")
"""Variables that choose the kernels of a product. On one stack they changed its speed by a factor of 500."""

_COLLECTIVES_SETTINGS = ("NCCL_", "CCL_", "HCCL_")

SPINS = (200_000, 600_000)
"""Cycles: a tenth of a millisecond and three, too short for the clock to recover."""

INFINITY_CACHE = dict.fromkeys(("gfx942", "gfx950"), 256 * 2**20)
"""Bytes of the cache between L2 and memory: MI300A, MI300X, MI325X; MI350X, MI355X (rocm.docs.amd.com, AMD GPU
specifications, L3)."""


@dataclass
class ProbeResult:
    """One metric as a probe found it. `samples` are in `unit`, one a block; `seconds` the same as durations."""

    metric: str
    unit: str
    value: float | None = None
    samples: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    peak: dict[str, Any] | None = None
    conditions: dict[str, Any] = field(default_factory=dict)
    details: ProbeDetails = field(default_factory=ProbeDetails)
    subject: str | None = None
    wrong: str | None = None
    """What the device computed or kept wrongly: a failure that no repeat clears. The figure stays as evidence."""


class DeviceClock:
    """Events on the current stream. Two blocks stay queued, so the device never waits for the host.

    `streams` are the others that the work runs on: a mark comes after what they did and before what they do next. So
    they wait for each other once a block, and not in every call of the work.
    """

    depth = 2

    def __init__(self, backend: Backend, streams: Sequence[Any] = ()) -> None:
        self._backend, self._streams = backend, streams

    def mark(self) -> Any:
        for stream in self._streams:
            self._backend.current_stream().wait_stream(stream)
        event = self._backend.event()
        event.record()
        for stream in self._streams:
            stream.wait_stream(self._backend.current_stream())
        return event

    def seconds(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def now(self) -> float:
        return time.perf_counter()


class Compute:
    """One device (or, for peer copies, all of them) in this process.

    Probes allocate on `torch_device` and hand their work to `sample`.
    """

    def __init__(self, devices: list[Device], gate: Gate) -> None:
        import torch

        self.torch: Any = torch
        self.devices = devices
        self.gate = gate
        self.vendor = registry.vendor(devices[0].driver)
        self.is_cpu = self.vendor.torch is not None and self.vendor.torch.on_host
        """True where torch works on the CPU: for a CPU, for a simulated device, or as its vendor declares."""
        self.backend: Backend
        """What drives the devices, where torch does not work on the CPU."""
        self.other = False
        """True for a device that torch drives by another library than CUDA or HIP."""
        self.said: dict[str, Any] = {}
        """What every figure of these devices has to say among its conditions."""
        self.torch_devices = [self._open(place, device) for place, device in enumerate(devices)]
        self.torch_device = self.torch_devices[0]
        self.seconds = 1.0
        self.precision = 0.01
        self.pairs: list[tuple[str, str]] = []
        """UUIDs of senders and receivers whose copies are to be measured again; none: all."""
        self.rank, self.world = 0, 1
        self._rendezvous: str | None = None

    def _open(self, place: int, device: Device) -> Any:
        torch = self.torch
        self.refuse_modes(device)
        if why := self.vendor.visibility.unselectable(self.devices):
            raise Unmeasurable(why)
        kind = self.vendor.torch
        if kind is None:
            raise Unmeasurable(self.vendor.no_torch)
        if kind.on_host:
            return torch.device(kind.name)
        backend = self.backend = Backend(torch, kind)
        if backend.cuda:
            self._start_cuda(device, kind)
        else:
            backend.start(device.product)
        if place >= (count := backend.device_count()):
            library = "CUDA" if backend.cuda else backend.name
            raise Unmeasurable(f"{library} sees {count} devices of {len(self.devices)}")
        properties = backend.properties(place)
        if found := self.vendor.visibility.mistaken(properties, device):
            raise Unmeasurable(f"torch opened the device {found}, not {device.uuid} at {device.pci_address}")
        self.other = not backend.cuda
        if self.other:
            self.said = {"driven_by": backend.name, "identity": _identity(properties, device, backend.name)}
        backend.set_device(place)
        return torch.device(backend.kind.name, place)

    def refuse_modes(self, device: Device) -> None:
        """Raise Unmeasurable for a device whose settings keep us out."""
        if device.facts.get("mig"):
            raise Unmeasurable(f"MIG mode of {device.name} is on: parts of a device are not accepted, nor the whole")
        if (partition := device.facts.get("compute_partition", "SPX")) != "SPX":
            raise Unmeasurable(f"{device.name} is a part of a GPU ({partition} mode): parts are not accepted")
        mode = device.facts.get("compute_mode")
        if mode == "prohibited" or (mode == "exclusive process" and len(self.devices) > 1):
            raise Unmeasurable(f"the compute mode of {device.name} is {mode}, which keeps a second process out")

    def _start_cuda(self, device: Device, kind: TorchKind) -> None:
        """Start CUDA, or say why it cannot: what is lacking, or that the device which NVML shows does not work."""
        torch = self.torch
        if not (torch.version.cuda or torch.version.hip):
            raise Unmeasurable(f"torch {torch.__version__} cannot use {device.model}: it is built for CPUs only")
        if bool(torch.version.hip) != kind.hip:
            other = "ROCm" if torch.version.hip else "CUDA"
            raise Unmeasurable(f"torch {torch.__version__} cannot use {device.model}: it is built for {other}")
        if torch.version.hip and not os.access(KFD, os.R_OK | os.W_OK):
            raise Unmeasurable(f"{KFD} cannot be opened: add this user to its group, or give the container the device")
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            text = str(error).strip().splitlines()[0]
            if "system not yet initialized" in text:
                raise Unmeasurable(f"{text}: {_FABRIC}") from None
            if any(words in text for words in SOFTWARE):
                raise Unmeasurable(f"torch {torch.__version__} cannot use {device.model}: {text}") from None
            if not torch.version.hip and not os.access(UVM, os.R_OK | os.W_OK):
                raise Unmeasurable(
                    f"{text}: {UVM} cannot be opened: `modprobe nvidia-uvm`, or give the container the device"
                ) from None
            raise RuntimeError(f"CUDA error: {text}") from error

    @property
    def device_errors(self) -> Sequence[str]:
        """Words of an error that lay it to the device, as its vendor declares them."""
        return self.vendor.torch.device_errors if self.vendor.torch else ()

    @property
    def blas(self) -> dict[str, Any]:
        """The library of the matrix products and what the environment tells it, for the conditions."""
        if self.is_cpu or self.other:
            return {}
        preferred = getattr(self.torch.backends.cuda, "preferred_blas_library", None)
        settings = {name: text for name, text in os.environ.items() if name.startswith(_BLAS_SETTINGS)}
        library = {"blas": str(preferred()).rpartition(".")[2].lower()} if preferred else {}
        return {**library, **({"environment": settings} if settings else {})}

    @property
    def clock(self) -> Clock:
        return HostClock() if self.is_cpu else DeviceClock(self.backend)

    @property
    def measures_peak(self) -> bool:
        """True for what is no accelerator, a CPU: it has no datasheet, so its peak is measured beside the samples."""
        return not self.vendor.accelerator

    def run(self, probe: Callable[..., Any], conditions: Mapping[str, Any]) -> Any:
        """Run a probe under these conditions; returns what it found."""
        return probe(self, **conditions)

    def wall(self) -> float:
        """Now, in seconds since the epoch."""
        return clock.now()

    @property
    def cache_bytes(self) -> int:
        """Size of the last-level cache of a GPU; 0 for a CPU, whose virtual machine may say anything.

        HIP tells the L2 of one compute die (ROCm issue 4203); what lies behind it is known by the architecture.
        """
        if self.is_cpu:
            return 0
        properties = self.backend.properties(self.torch_device)
        told = int(getattr(properties, "last_level_cache_size" if self.other else "L2_cache_size", 0))
        return max(told, INFINITY_CACHE.get(str(getattr(properties, "gcnArchName", "")).partition(":")[0], 0))

    def require_memory(self, size: int) -> None:
        """Raise Unmeasurable unless `size` bytes fit into the device's free memory (of a GPU; a CPU's is shared).

        What the probe before left behind is freed first: a DistributedDataParallel is part of reference cycles.
        """
        if self.is_cpu:
            return
        gc.collect()
        self.backend.release()
        free, total = self.backend.mem_get_info(self.torch_device)
        if size > free:
            raise Unmeasurable(
                f"it needs {size / 1e9:.1f} GB of memory, and {free / 1e9:.1f} of {total / 1e9:.1f} are free"
            )

    def synchronize(self) -> None:
        if not self.is_cpu:
            self.backend.synchronize()

    def comparable(self, part: Any) -> Any:
        """The same tensor where it can become fp64: on the host, for a device that may not know fp64."""
        return part.cpu() if self.other else part

    def host_memory(self, elements: int, dtype: Any) -> Any:
        """Memory of the host, pinned for a device. Raises Unmeasurable where torch cannot pin it for this one."""
        if not self.other:
            return self.torch.empty(elements, dtype=dtype, pin_memory=not self.is_cpu)
        try:
            return self.torch.empty(elements, dtype=dtype, pin_memory=True)
        except (RuntimeError, NotImplementedError) as error:
            raise Unmeasurable(f"torch pins no host memory for {self.backend.name}: {first_line(error)}") from None

    def sample(
        self,
        work: Callable[[], object],
        *,
        amount: float,
        unit: str,
        metric: str = "",
        beside: tuple[Callable[[], object], float, str] | None = None,
        precision: float | None = None,
        seconds: float | None = None,
        collective: bool = False,
        conditions: dict[str, Any] | None = None,
        as_duration: bool = False,
        streams: Sequence[Any] = (),
    ) -> ProbeResult:
        """Time `work` and return `amount` per second in `unit` (or, `as_duration`, milliseconds).

        `amount` is what one call does, in units of `unit` times seconds: 2 m n k / 1e12 for TFLOPS.
        `beside` is (work, amount, what it is): a reference measured in alternation, the peak of the value.
        `streams` are those that it runs on, if it is not the current one.
        """
        timed = time_blocks(
            work,
            DeviceClock(self.backend, streams) if streams else self.clock,
            self.gate,
            seconds=self.seconds if seconds is None else seconds,
            precision=self.precision if precision is None else precision,
            beside=beside[0] if beside else None,
            collective=collective,
        )
        peak = None
        if beside:
            rates = [beside[1] / once for once in timed.beside]
            peak = {
                "value": estimate_rate(rates).mean,
                "source": beside[2],
                "samples": rates,
                "provisional": True,
            }
        return ProbeResult(
            metric=metric,
            unit=unit,
            samples=[once * 1000 if as_duration else amount / once for once in timed.seconds],
            seconds=timed.seconds,
            peak=peak,
            conditions=dict(conditions or {}, operations_per_block=timed.operations_per_block),
            details={"ended_by": timed.why_ended, "ends": timed.ends, "warmup_blocks": len(timed.warmup)},
        )

    def counted_clock(self) -> ProbeDetails:
        """The SM clock in MHz by a kernel that counts its cycles, right behind the work that is still queued; of two
        lengths, so that what a launch costs cancels. Nothing where torch has no such kernel, or it counts other cycles.
        """
        spin = None if self.is_cpu or self.other or self.torch.version.hip else self.backend.offers("_sleep")
        if spin is None:
            return {}
        clock, marks = self.clock, []
        for cycles in (1, *SPINS):  # the first call loads the kernel
            spin(cycles)
            marks.append(clock.mark())
        short, long = (clock.seconds(*pair) for pair in itertools.pairwise(marks))
        return {"counted_mhz": (SPINS[1] - SPINS[0]) / (long - short) / 1e6} if long > short else {}

    def join(self, rendezvous: str, rank: int, world: int) -> None:
        """Become a rank of the process group that meets in the file `rendezvous` (gloo on CPUs, else the vendor's).

        The hosts talk by gloo beside it, over the loopback: all ranks are on this node, and what its name resolves
        to may be any of many interfaces, or none.
        """
        import torch.distributed as dist

        if rendezvous == self._rendezvous:
            return
        with contextlib.suppress(Exception):
            dist.destroy_process_group()  # what is left of one that failed as it began
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        backend = "gloo" if self.is_cpu else self.backend.collectives()
        dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=rank, world_size=world)
        self.rank, self.world, self._rendezvous = rank, world, rendezvous

    @property
    def collectives(self) -> dict[str, Any]:
        """The library of the collectives and what the environment tells it, for the conditions."""
        settings = {name: text for name, text in os.environ.items() if name.startswith(_COLLECTIVES_SETTINGS)}
        library = "gloo" if self.is_cpu else self.backend.kind.collectives
        return {"backend": library, **({"environment": settings} if settings else {})}

    def agree(self, value: float) -> float:
        """The largest `value` over all ranks, exchanged by the hosts so that no device queue is disturbed."""
        import torch.distributed as dist

        shared = self.torch.tensor([value], dtype=self.torch.float64)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return float(shared.item())


def _identity(properties: Any, device: Device, backend: str) -> str:
    if verified(properties, device):
        return "PCI address compared with what torch opened"
    return f"not verified: {backend} does not tell the PCI address of what it opened"
