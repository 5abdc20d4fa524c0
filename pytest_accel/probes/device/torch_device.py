"""A device as torch drives it: the object that a probe receives. Used in the worker process only."""

from __future__ import annotations

import fcntl
import gc
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from pytest_accel.core import clock
from pytest_accel.core.details import ProbeDetails
from pytest_accel.core.measurement import Device, Statistic
from pytest_accel.core.messages import FastPath
from pytest_accel.core.reasons import Note
from pytest_accel.core.stats import estimate_rate, significant
from pytest_accel.drivers import registry
from pytest_accel.drivers.vendor import TorchKind
from pytest_accel.drivers.visibility import verified
from pytest_accel.probes.device import blas
from pytest_accel.probes.device.error_class import SOFTWARE, Unmeasurable, main_line
from pytest_accel.probes.device.rank import Rank
from pytest_accel.probes.device.timing import Clock, Gate, Work, time_blocks, time_fastest_of
from pytest_accel.probes.device.torch_backend import Backend

_FABRIC = "the NVLink fabric is not ready, which is not a fault of the GPU: see `systemctl status nvidia-fabricmanager`"
"""Meaning of CUDA error 802 (cudaErrorSystemNotReady)."""

KFD = "/dev/kfd"
"""Device file that HIP needs; the management library does not."""
UVM = "/dev/nvidia-uvm"
"""Device file that CUDA needs and NVML does not. CUDA creates a missing one with `nvidia-modprobe --unified-memory`, if
it has the permission."""

_BLAS_SETTINGS = ("TORCH_BLAS_PREFER_", "PYTORCH_TUNABLEOP_", "HIPBLASLT_", "ROCBLAS_", "CUBLAS")
"""Prefixes of environment variables that choose the kernels of a product. On one stack they changed its speed by a
factor of 500."""

SPINS = (200_000, 600_000)
"""Cycles of two kernels: about a tenth and three tenths of a millisecond, too short for the clock to recover."""

DURATIONS = {"ms": 1e3, "us": 1e6}
"""Units of durations in a second."""
MOST_CALLS = 1000
"""The most calls of which the fastest makes a sample: nothing is heard of a worker as long as they take."""
ENDS_DIGITS = 6
"""Decimals of the seconds at which a block ended."""

INFINITY_CACHE = dict.fromkeys(("gfx942", "gfx950"), 256 * 2**20)
"""Bytes of the cache between L2 and memory: MI300A, MI300X, MI325X; MI350X, MI355X (rocm.docs.amd.com, AMD GPU
specifications, L3)."""


@dataclass
class ProbeResult:
    """The result of a probe for one metric.

    `samples` are in `unit`, one for each block; `seconds` are the durations of one call in the same blocks. Unless
    `value` is set, the value is the `statistic` of the samples.
    """

    metric: str
    unit: str
    value: float | None = None
    samples: list[float] = field(default_factory=list)
    statistic: Statistic = "mean"
    seconds: list[float] = field(default_factory=list)
    peak: dict[str, Any] | None = None
    conditions: dict[str, Any] = field(default_factory=dict)
    details: ProbeDetails = field(default_factory=ProbeDetails)
    notes: list[Note] = field(default_factory=list)
    """Facts beside the value that a verdict takes into account, as `Measurement.notes`."""
    subject: str | None = None
    wrong: str | None = None
    """Sentence about wrong data from the device. It fails the device, and no repeat clears it."""


class DeviceClock(Clock):
    """A clock of events on the current stream. Two blocks stay queued, so the device never waits for the host.

    `streams` are the other streams that the work runs on. A mark waits for their work so far, and their next work waits
    for the mark. So the streams wait for each other once a block, and not in every call of the work.
    """

    depth = 2

    def __init__(self, backend: Backend, streams: Sequence[Any] = ()) -> None:
        self._backend, self._streams = backend, streams
        self._hz = 0.0

    def mark(self) -> Any:
        """Record an event and return it."""
        for stream in self._streams:
            self._backend.current_stream().wait_stream(stream)
        event = self._backend.event()
        event.record()
        for stream in self._streams:
            stream.wait_stream(self._backend.current_stream())
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two events. Waits until the device has reached `end`."""
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def hold(self, seconds: float) -> bool:
        """Queue a kernel that spins for about `seconds`. Returns False if torch has none for this device."""
        self._hz = self._hz or max(self.spins_per_second() for _ in range(3))  # a busy host makes it too low
        if self._hz:
            self._backend.offers("_sleep")(int(seconds * self._hz))
        return self._hz > 0

    def reached(self, mark: Any) -> bool:
        """Return whether the device has reached an event, without waiting."""
        return bool(mark.query())

    def spins_per_second(self) -> float:
        """Return the cycles that torch's spinning kernel counts in a second, 0 if it has none or the host disturbed.

        The kernels run right after the work that is still queued.
        """
        spin, marks = self._backend.offers("_sleep"), []
        if spin is None:
            return 0.0
        # The first call loads the kernel, and keeps the device busy until the others are queued: on an idle one the
        # host's way to a launch would count.
        for cycles in (SPINS[1], *SPINS):
            spin(cycles)
            marks.append(self.mark())
        # two lengths, so that the time of a launch cancels out
        shorter, longer = (self.seconds(*pair) for pair in itertools.pairwise(marks))
        return (SPINS[1] - SPINS[0]) / (longer - shorter) if longer > shorter else 0.0


class WaitingClock(Clock):
    """The host's clock for work that a device does: it is read when the device has finished. Launches count."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def mark(self) -> Any:
        """Wait until the device has finished, and return the host's time in seconds."""
        self._backend.synchronize()
        return super().mark()


class Compute(Rank):
    """One device (or all of them, for copies between peers) as a probe sees it.

    Probes allocate on `torch_device` and pass their work to `sample`.
    """

    tunes = False
    """True if torch chooses the kernels of products by trying them, which it does within `tune` only."""

    def __init__(self, devices: list[Device], gate: Gate, visible: Sequence[str] = ()) -> None:
        """Open `devices`. `visible` are the UUIDs of all devices that torch sees, in order; by default these alone."""
        import torch

        self.torch: Any = torch
        self.devices = devices
        self.gate = gate
        self._visible = visible or [device.uuid for device in devices]
        self.vendor = registry.vendor(devices[0].driver)
        self.is_cpu = self.vendor.torch is not None and self.vendor.torch.on_host
        """True if torch works on the CPU: for a CPU, for a simulated device, or as the vendor declares."""
        self.backend: Backend
        """The module of torch that drives the devices; not set if torch works on the CPU."""
        self.other = False
        """True for a device that torch drives by another library than CUDA or HIP."""
        self.extra_conditions: dict[str, Any] = {}
        """Conditions that every result of these devices has."""
        positions = [self._visible.index(device.uuid) for device in devices] if visible else range(len(devices))
        self.torch_devices = [self._open(*pair) for pair in zip(positions, devices, strict=True)]
        self.torch_device = self.torch_devices[0]
        self.fast_paths: dict[str, FastPath] = {}
        """On a CPU, which dtypes have a fast path, by dtype: decided once for all devices of the machine."""
        self.seconds = 1.0
        self.precision = 0.01
        self.sustained = False
        """True while a probe runs that is declared as a sustained load."""
        self.pairs: list[tuple[str, str]] = []
        """UUIDs of the (sender, receiver) pairs to measure again; empty: all pairs."""
        self.host_copies: dict[str, None] = {}
        """Directions of the host link that this process has measured, in their order."""
        self.shared: Path | None = None
        """Folder that all workers of this run can read and write; None if there is only one."""

    def _open(self, position: int, device: Device) -> Any:
        """Return the torch.device of a device, after checking that torch opened the right one."""
        torch = self.torch
        self.refuse_modes(device)
        if reason := self.vendor.visibility.unselectable(self.devices):
            raise Unmeasurable(reason)
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
        number = self._number(position, device)
        properties = backend.properties(number)
        if actual := self.vendor.visibility.mistaken(properties, device):
            raise Unmeasurable(f"torch opened another device: {actual} instead of {device.uuid} ({device.pci_address})")
        self.other = not backend.cuda
        if self.other:
            identity = "verified by the PCI address of the device that torch opened"
            if not verified(properties, device):
                identity = f"not verified: {backend.name} does not report the PCI address of the device that it opened"
            self.extra_conditions = {"driven_by": backend.name, "identity": identity}
        backend.set_device(number)
        return torch.device(backend.kind.name, number)

    def _number(self, position: int, device: Device) -> int:
        """Return torch's number of a device: its position among the visible ones.

        Raises Unmeasurable if torch sees fewer devices and does not report the PCI address, or does not see this one.
        """
        backend, expected = self.backend, len(self._visible)
        if (count := backend.device_count()) >= expected:
            return position
        # the numbers behind a missing device are lower, so that only the PCI address can tell
        numbers = [number for number in range(count) if verified(backend.properties(number), device)]
        if not numbers:
            library = "CUDA" if backend.cuda else backend.name
            raise Unmeasurable(f"{library} sees only {count} of {expected} devices")
        return numbers[0]

    def refuse_modes(self, device: Device) -> None:
        """Raise Unmeasurable for a device whose settings prevent a measurement."""
        mode = device.facts.get("compute_mode")
        if mode == "prohibited" or (mode == "exclusive process" and len(self.devices) > 1):
            raise Unmeasurable(f"the compute mode of {device.name} is {mode}: this run needs the default mode")

    def _start_cuda(self, device: Device, kind: TorchKind) -> None:
        """Start CUDA or HIP.

        Raises Unmeasurable if software or a permission is missing, RuntimeError if the device, which the management
        library shows, does not work.
        """
        torch = self.torch
        if not (torch.version.cuda or torch.version.hip):
            raise Unmeasurable(f"torch {torch.__version__} cannot use {device.model}: it is built for CPUs only")
        if bool(torch.version.hip) != kind.hip:
            library = "ROCm" if torch.version.hip else "CUDA"
            raise Unmeasurable(f"torch {torch.__version__} cannot use {device.model}: it is built for {library}")
        if torch.version.hip and not os.access(KFD, os.R_OK | os.W_OK):
            raise Unmeasurable(f"{KFD} cannot be opened: add this user to its group, or pass it into the container")
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
                    f"{text}: {UVM} cannot be opened: run `modprobe nvidia-uvm`, or pass it into the container"
                ) from None
            raise RuntimeError(f"CUDA error: {text}") from error
        if blas.tunes(torch):
            self.tunes = True
            torch.cuda.tunable.tuning_enable(False)

    @property
    def device_errors(self) -> Sequence[str]:
        """Texts in an error that attribute it to the device, as its vendor declares them."""
        return self.vendor.torch.device_errors if self.vendor.torch else ()

    @property
    def blas(self) -> dict[str, Any]:
        """Conditions that name the library of the matrix products and the environment variables that configure it."""
        if self.is_cpu or self.other:
            return {}
        preferred = getattr(self.torch.backends.cuda, "preferred_blas_library", None)
        settings = {name: text for name, text in os.environ.items() if name.startswith(_BLAS_SETTINGS)}
        library = {"blas": str(preferred()).rpartition(".")[2].lower()} if preferred else {}
        return {**library, **({"environment": settings} if settings else {})}

    @property
    def clock(self) -> Clock:
        """Clock that times work on this device."""
        return Clock() if self.is_cpu else DeviceClock(self.backend)

    def clocked(self, work: Work, amount: float, unit: str) -> tuple[Work, float, Clock]:  # noqa: ARG002
        """Return `work`, what one call does, and the clock for single calls. `amount` and `unit` are as in `sample`."""
        return work, amount, self.clock

    @property
    def waiting_clock(self) -> Clock:
        """Clock that times single calls on this device as tools do that wait for every kernel, such as BabelStream."""
        return self.clock if self.is_cpu else WaitingClock(self.backend)

    @property
    def measures_peak(self) -> bool:
        """True for a CPU, whose peak is measured in alternation with the samples because it has no datasheet."""
        return not self.vendor.accelerator

    def run(self, probe: Callable[..., Any], conditions: Mapping[str, Any]) -> Any:
        """Run a probe under the given conditions and return its results."""
        return probe(self, **conditions)

    def wall(self) -> float:
        """Return the time in seconds since the epoch."""
        return clock.now()

    @property
    def cache_bytes(self) -> int:
        """Bytes of the last-level cache of a GPU; 0 for a CPU."""
        if self.is_cpu:
            return 0  # a virtual machine may report any size
        properties = self.backend.properties(self.torch_device)
        size = int(getattr(properties, "last_level_cache_size" if self.other else "L2_cache_size", 0))
        # HIP reports the L2 cache of one compute die (ROCm issue 4203), and not the cache behind it
        return max(size, INFINITY_CACHE.get(str(getattr(properties, "gcnArchName", "")).partition(":")[0], 0))

    def require_memory(self, size: int) -> None:
        """Raise Unmeasurable unless `size` bytes fit into the free memory of the GPU. Does nothing for a CPU.

        Memory of the previous probe is freed first.
        """
        if self.is_cpu:
            return
        gc.collect()  # a DistributedDataParallel is part of reference cycles
        self.backend.release()
        free, total = self.backend.mem_get_info(self.torch_device)
        if size > free:
            raise Unmeasurable(
                f"the probe needs {size / 1e9:.1f} GB of memory; {free / 1e9:.1f} of {total / 1e9:.1f} GB are free"
            )

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a tensor of the host that all workers of the run need: the first one makes it, the others read it.

        Whoever has no such folder, or no room in it, makes its own.
        """
        if self.shared is None:
            return make()
        tensor = None
        try:
            with open(self.shared / f"{name}.lock", "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel frees it when its holder ends, however it ends
                file = self.shared / f"{name}.pt"
                if not file.exists():
                    tensor = make()
                    part = file.with_suffix(".part")
                    self.torch.save(tensor, part)
                    part.rename(file)
                return self.torch.load(file, weights_only=True)
        except (OSError, RuntimeError):  # torch.save raises RuntimeError where the disk is full
            return make() if tensor is None else tensor

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""
        if not self.is_cpu:
            self.backend.synchronize()

    def tune(self, product: Work) -> None:
        """Call a product once, and let torch choose its kernel, as a phase of its own. Does nothing unless torch tunes.

        It may take minutes, in which the process says nothing.
        """
        if not self.tunes:
            return
        tunable = self.torch.cuda.tunable
        self.gate.tuning(True)
        tunable.tuning_enable(True)
        try:
            product()
            self.synchronize()
            # at once, since a worker may be killed; newer versions of torch do so themselves, and have no such function
            getattr(tunable, "write_file", bool)()
        finally:
            tunable.tuning_enable(False)
        self.gate.tuning(False)

    def comparable(self, part: Any) -> Any:
        """Return a tensor that can be converted to fp64: a copy on the host if the device may not support fp64."""
        return part.cpu() if self.other else part

    def host_memory(self, elements: int, dtype: Any) -> Any:
        """Return host memory, pinned unless the device is a CPU.

        Raises Unmeasurable if torch cannot pin it for this device.
        """
        if not self.other:
            return self.torch.empty(elements, dtype=dtype, pin_memory=not self.is_cpu)
        try:
            return self.torch.empty(elements, dtype=dtype, pin_memory=True)
        except (RuntimeError, NotImplementedError) as error:
            raise Unmeasurable(f"torch cannot pin host memory for {self.backend.name}: {main_line(error)}") from None

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
        streams: Sequence[Any] = (),
        fastest_of: int = 0,
        statistic: Statistic = "mean",
    ) -> ProbeResult:
        """Time `work` and return `amount` per second in `unit`; for the units "ms" and "us" the duration of a call.

        Args:
            work: Call to time.
            amount: What one call does, in `unit` times seconds: 2 m n k / 1e12 for TFLOPS.
            unit: Unit of the samples. For "ms" and "us" `amount` has no effect.
            metric: Name of the metric; the metric of the probe by default.
            beside: Reference that is measured in alternation and is the peak of the value: (work, amount, description).
            precision: Relative half-width of the confidence interval at which sampling ends; 0: never.
            seconds: Longest duration of the sampling.
            collective: True if every rank of a process group has to do the same number of calls.
            conditions: Conditions of the result.
            streams: Streams that `work` runs on, if it does not use the current one.
            fastest_of: If set, a sample is the fastest of this many calls, each timed by the host, and not a block.
            statistic: What the value is of the samples.

        Raises ValueError for an amount that is not finite and above 0, and for what no sampling can be done by.
        """
        for name, value, valid, rule in (
            ("amount", amount, 0 < amount < math.inf, "it is what one call does, finite and above 0"),
            ("seconds", seconds, seconds is None or 0 <= seconds < math.inf, "finite, and 0 or above"),
            ("precision", precision, precision is None or 0 <= precision < math.inf, "finite, and 0 or above"),
            ("fastest_of", fastest_of, 0 <= fastest_of <= MOST_CALLS, f"a number of calls up to {MOST_CALLS}"),
            ("statistic", statistic, statistic in get_args(Statistic), "mean or median"),
        ):
            if not valid:
                raise ValueError(f"sample: {name}={value!r}; {rule}")
        options: dict[str, Any] = {
            "seconds": self.seconds if seconds is None else seconds,
            "precision": self.precision if precision is None else precision,
            "reference": beside[0] if beside else None,
        }
        details, peak = ProbeDetails(), None
        self.tune(work)
        if fastest_of:
            timing, means = time_fastest_of(work, self.waiting_clock, self.gate, calls=fastest_of, **options)
            details["mean_of_calls"] = amount / fmean(means)
        else:
            blocks = DeviceClock(self.backend, streams) if streams else self.clock
            timing = time_blocks(work, blocks, self.gate, collective=collective, sustained=self.sustained, **options)
            details = {"launch_bound": True} if timing.launch_bound else {}
        if beside:
            rates = [beside[1] / duration for duration in timing.reference]
            peak = {
                "value": estimate_rate(rates).mean,
                "source": beside[2],
                "samples": rates,
                "provisional": True,
            }
        durations = [significant(span) for span in timing.seconds]
        return ProbeResult(
            metric=metric,
            unit=unit,
            samples=[significant(span * DURATIONS[unit] if unit in DURATIONS else amount / span) for span in durations],
            seconds=durations,
            peak=peak,
            conditions=dict(conditions or {}, operations_per_block=timing.calls_per_block),
            details={
                **details,
                "ended_by": timing.why_ended,
                "ends": [round(end, ENDS_DIGITS) for end in timing.ends],
                "warmup_blocks": len(timing.warmup),
            },
            statistic=statistic,
        )

    def counted_clock(self) -> ProbeDetails:
        """Return the detail `counted_mhz`: the SM clock in MHz, measured with kernels of a known number of cycles.

        The mapping is empty for devices without CUDA, for versions of torch without such a kernel, and if the longer
        kernel did not take longer.
        """
        countable = not (self.is_cpu or self.other or self.torch.version.hip)
        hertz = DeviceClock(self.backend).spins_per_second() if countable else 0.0
        return {"counted_mhz": hertz / 1e6} if hertz else {}
