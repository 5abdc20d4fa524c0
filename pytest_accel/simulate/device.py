"""A simulated device in a worker process: the CPU does the work at small sizes, and a model gives its duration."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core.details import CollectiveAccount
from pytest_accel.core.measurement import Device
from pytest_accel.core.stats import significant
from pytest_accel.core.units import in_bytes
from pytest_accel.probes.declare import Cost, declaration_for, declarations, finder_of
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.rank import HERE
from pytest_accel.probes.device.timing import Clock, Gate, Work, block_seconds
from pytest_accel.probes.device.torch_device import DURATIONS, Compute, ProbeResult
from pytest_accel.simulate.board import SharedState
from pytest_accel.simulate.faults import Symptoms
from pytest_accel.simulate.libraries import never
from pytest_accel.simulate.model import Model, applied, stressed_part
from pytest_accel.simulate.node import PROBES

SPEEDUP = 10.0
"""Simulated seconds that pass in a real second, at most, so that the sensor has time to read what happens."""

CALLS_PER_BLOCK = 8
"""Real calls of the work in a block, at most. Each one stands for several simulated calls."""

REAL_SECONDS = 0.001
"""Real time that the work of a block takes, at most, beyond its first call; then only simulated time passes. It does
not apply to collectives, in which every rank has to do the same work."""


UNNAMED_SHARE = 0.9
"""Assumed: duration of other work that a probe times (a step without communication), as a share of its metric."""

LOST = "CUDA error: unknown error (the simulated device is lost)"
ECC = "CUDA error: uncorrectable ECC error encountered (simulated)"


class SimulatedClock(Clock):
    """A clock that advances as work is done. The model gives the duration of a block from the devices' state then."""

    def __init__(self, device: SimulatedDevice, block: Callable[[], float], batch: int) -> None:
        """Take `block`, which begins a block and returns seconds per operation, and the operations per call."""
        self._device, self._block, self._batch = device, block, batch
        self._once = block()
        self._worked = self._spent = 0.0

    def counted(self, work: Callable[[], object], always: bool) -> Callable[[], None]:
        """Return `work` as a call that advances the simulated time.

        Unless `always` is True, the work is skipped once the block has taken too much real time.
        """

        def call() -> None:
            if always or self._worked < REAL_SECONDS:
                start = time.perf_counter()
                work()
                self._worked += time.perf_counter() - start
            self._spent += self._once * self._batch
            self._device.time += self._once * self._batch

        return call

    def mark(self) -> float:
        """Return the simulated seconds of work so far."""
        return self._spent

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return self._device.time

    def seconds(self, start: float, end: float) -> float:
        """Return the seconds between two marks, and begin the next block."""
        self._device.pass_time()
        self._once, self._worked = self._block(), 0.0
        return end - start


class StepGate:
    """A gate that keeps the devices of the last announced step, such as those of one copy between peers."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.subjects: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    def step(self, label: str, subjects: tuple[str, ...]) -> None:
        """Announce the next step, and keep the UUIDs of its devices."""
        self.subjects = subjects
        self._gate.step(label, subjects)


class SimulatedDevice(Compute):
    """One simulated device (or all of them, for copies between peers) as a probe sees it."""

    def __init__(self, devices: list[Device], gate: Gate, visible: Sequence[str] = (), *, model: Model) -> None:  # noqa: ARG002
        self.model = model
        self.board = SharedState(Path(model.board), model.devices)
        self._slot_by_uuid = {model.uuid(slot): slot for slot in range(model.devices)}
        self.slots = [self._slot_by_uuid[device.uuid] for device in devices]
        self._announced = StepGate(gate)
        super().__init__(devices, self._announced)  # torch sees none of them
        self.is_cpu = True
        self.time = 0.0
        self._clock: SimulatedClock | None = None
        self._kind = ""
        self._scale = 1.0
        self._metric = self._small = ""
        self._times: dict[str, int] = {}
        self._pace = (0.0, 0.0)

    def _open(self, position: int, device: Device) -> Any:
        self.refuse_modes(device)
        if self._symptoms(self.slots[position]).event == "lost":
            raise RuntimeError(LOST)
        return self.torch.device("cpu", position) if len(self.slots) > 1 else self.torch.device("cpu")

    @property
    def clock(self) -> SimulatedClock:
        """Clock of the work within `sample`. Raises NotApplicable outside of it."""
        if self._clock is None:
            raise NotApplicable("not simulated: the probe does its own timing instead of calling device.sample()")
        return self._clock

    def wall(self) -> float:
        """Return the simulated time in seconds since the epoch."""
        return self.model.epoch + self.time

    def join(self, rendezvous: str, rank: int, world: int, account: str = "", interface: str = HERE) -> None:
        """Become a rank of the process group, unless a fault keeps this one out."""
        self._begin("collective")
        if self._symptoms(self.slots[0]).event == "late":
            never()
        super().join(rendezvous, rank, world, account, interface)

    def account(self, function: str, size: int) -> tuple[dict[str, Any], CollectiveAccount]:  # noqa: ARG002
        """Return the account that NCCL would give of collectives: none, or that of rings if a fault slows them down."""
        # rings, since the switches do not add
        slow = any("all_reduce" in self._symptoms(slot).slow for slot in range(self.model.devices))
        return ({"algorithm": "ring", "transport": "P2P"} if slow else {}), CollectiveAccount()

    # -- one probe

    def run(self, probe: Callable[..., Any], conditions: Mapping[str, Any]) -> Iterator[Any]:
        """Run a probe at a small size and yield its results under the metric of the requested size."""
        declaration = declaration_for(probe)
        small = {key: _smaller(value, declaration.small.get(key, value)) for key, value in conditions.items()}
        reduced = {key: value for key, value in small.items() if value != conditions[key]}
        budget, self.seconds = self.seconds, self.seconds / SPEEDUP  # real seconds
        variant = str(conditions.get("dtype", ""))
        self._scale = math.prod(
            _amount(conditions[key], variant) / _amount(value, variant) for key, value in reduced.items()
        )
        if isinstance(declaration.cost, Cost) and (operations := declaration.cost.counted(conditions)):
            self._scale = operations / declaration.cost.counted(small)
        self._metric, self._small = declaration.metric.format(**conditions), declaration.metric.format(**small)
        self._begin(probe.__name__)
        try:
            kinds = {applied(fault).flips for fault in self.model.faults if set(fault.devices) & set(self.slots)}
            with flipping(self.torch, declaration.verifies, kinds - {""}, self._flips):
                returned = probe(self, **small)
                for result in returned if isinstance(returned, (list, tuple, Iterator)) else [returned]:
                    if isinstance(result, ProbeResult):
                        result.metric = self._requested(result.metric)
                        original = {**{key: conditions[key] for key in reduced}, "seconds": budget}
                        requested = {key: value for key, value in original.items() if key in result.conditions}
                        result.conditions = {**result.conditions, **requested, "simulated": reduced}
                        if finder_of(result.metric) not in (None, declaration):
                            self._rescale(result)  # its load is that of another metric too
                    yield result
        finally:
            self.seconds = budget
            self.time = math.floor(self.time) + 1.0  # the devices rest until the next full second
            self._idle()

    def _rescale(self, result: ProbeResult) -> None:
        """Give a result the healthy rate of its own metric, in place of that of the probe's."""
        share = self.model.rate(result.metric, result.unit).value / self.model.rate(self._metric, result.unit).value
        work = result.samples[0] * result.seconds[0]
        result.seconds = [significant(duration / share) for duration in result.seconds]
        result.samples = [significant(work / duration) for duration in result.seconds]

    def _requested(self, metric: str) -> str:
        """Return the metric of the requested size for that of the small size that is really used."""
        return self._metric if metric == self._small else metric

    def _flips(self, ends: Collection[int] = ()) -> str:
        """Return the kind of data in which the devices at the `ends` of a copy flip bits now, or an empty string.

        Without `ends` it is that of all devices of this step.
        """
        slots = [self.slots[end] for end in ends] or self._working()
        return next((flips for slot in slots if (flips := self._symptoms(slot).flips)), "")

    def _begin(self, probe: str) -> None:
        """Set the simulated time to that of the device that finished last, and note when the probe began."""
        # with it begin those that a level measures within it
        probes = [entry.name for entry in declarations() if probe in (entry.name, *entry.within.values())]
        self._announced.subjects = ()
        self.time = max(self.board.read(slot, "now") for slot in range(self.model.devices))
        self._pace = (time.monotonic(), self.time)
        self._idle()
        for slot in self.slots:
            for name in filter(PROBES.__contains__, probes):
                if self.board.read(slot, f"began {name}") < 0:
                    self.board.write(slot, **{f"began {name}": self.time})

    def _idle(self) -> None:
        """Bring the devices to the present, and let them idle from now on."""
        self._kind = ""
        self.pass_time()

    def pass_time(self) -> None:
        """Update temperature, energy and counters of the devices to the present, and wait to keep to `SPEEDUP`."""
        for slot in self.slots:
            row = self.board.row(slot)
            if self.time >= row["now"]:
                symptoms = self.model.symptoms(slot, {**row, "now": self.time})
                self.board.write(slot, **self.model.step(slot, row, self.time - row["now"], self._kind, symptoms))
        start, simulated_then = self._pace
        lead = (self.time - simulated_then) / SPEEDUP - (time.monotonic() - start)
        if lead > 0:
            time.sleep(lead)

    def _symptoms(self, slot: int) -> Symptoms:
        """Return the symptoms of a device now."""
        return self.model.symptoms(slot, self.board.row(slot))

    def _working(self) -> list[int]:
        """Return the indices of the devices that work now: those of the announced step, else all."""
        return [self._slot_by_uuid[uuid] for uuid in self._announced.subjects] or self.slots

    # -- timing

    def clocked(self, work: Work, amount: float, unit: str) -> tuple[Work, float, Clock]:
        """Return `work` as a call that advances the simulated time, what it stands for, and the simulated clock."""
        amount *= self._scale
        clock = SimulatedClock(self, self._blocks("", amount, unit), 1)
        return clock.counted(work, always=False), amount, clock

    def sample(
        self,
        work: Callable[[], object],
        *,
        amount: float,
        unit: str,
        metric: str = "",
        beside: Any = None,  # noqa: ARG002  the datasheet is the peak
        seconds: float | None = None,
        **options: Any,
    ) -> ProbeResult:
        """Time `work` by the model and return a result as `Compute.sample` does."""
        amount *= self._scale
        simulated = SPEEDUP * (self.seconds if seconds is None else seconds)
        block = self._blocks(metric, amount, unit)
        duration = self.gate.agree(block())  # all ranks make the same calls
        batch = max(1, math.ceil(block_seconds(simulated) / CALLS_PER_BLOCK / duration))
        self._clock = SimulatedClock(self, block, batch)
        result = super().sample(
            self._clock.counted(work, always=bool(options.get("collective"))),
            amount=amount * batch,
            unit=unit,
            metric=metric,
            seconds=simulated,
            **options,
        )
        self._clock = None
        result.seconds = [significant(duration / batch) for duration in result.seconds]
        if unit in DURATIONS:
            result.samples = [significant(sample / batch) for sample in result.samples]
        result.conditions["operations_per_block"] *= batch
        return result

    def _blocks(self, metric: str, amount: float, unit: str) -> Callable[[], float]:
        """Return a call that begins a block: it applies the faults and returns the seconds of one operation."""
        name = self._requested(metric) or self._metric
        share = UNNAMED_SHARE if unit in DURATIONS and not metric else 1.0
        slots = self._working()
        time = self._times[name] = self._times.get(name, 0) + 1
        noises = [self.model.noise(slot, name, time) for slot in slots]
        self._kind = stressed_part(name, unit)

        def block() -> float:
            symptoms = [self._symptoms(slot) for slot in slots]
            for state in symptoms:
                _strike(state.event)
            values = [self.model.value(name, unit, slot, state) for slot, state in zip(slots, symptoms, strict=True)]
            noise = next(noises[0])
            if unit in DURATIONS:
                return share * max(values) / DURATIONS[unit] / noise
            return amount / (min(values) * noise)

        return block


def _smaller(value: Any, small: Any) -> Any:
    """Return the smaller of a condition and the value that its probe declares as small. None means no bound.

    Of a mapping by dtype the entries that the probe declares are replaced.
    """
    if isinstance(small, Mapping):
        return value and {key: small.get(key, shape) for key, shape in value.items()}
    return small if value is None or _amount(small) < _amount(value) else value


def _amount(value: Any, variant: str = "") -> float:
    """Return a number as it is, a size such as 8GiB in bytes, and 1 for anything else.

    Of a mapping by dtype it is the product of the sides of the shape of this `variant`.
    """
    if isinstance(value, Mapping):
        return math.prod(value.get(variant, ()))
    if isinstance(value, str):
        return float(in_bytes(value) or 1)
    return float(value) if isinstance(value, int | float) else 1.0


def _strike(event: str) -> None:
    """Apply the event of a fault to this process: raise an error, kill it, or let it hang."""
    if event == "lost":
        raise RuntimeError(LOST)
    if event == "ecc":
        raise RuntimeError(ECC)
    if event == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if event == "hang":
        never()


# -- bits flipped in what torch computed or copied below a probe, which the probe's own check has to detect


PRODUCTS = ("mm", "_int_mm", "_scaled_mm", "addmm")
STORES = ("fill_", "mul_")
"""Operations that write the patterns of the memory test."""
COLLECTIVES = (
    *("all_reduce", "all_gather_single", "all_gather_into_tensor", "reduce_scatter_single", "reduce_scatter_tensor"),
    *("all_to_all_single", "broadcast"),
)
"""Functions of torch.distributed whose first argument receives the result."""
SMALLEST = 32
"""Least number of elements of a payload. Smaller tensors control the measurement, such as the duration of a block."""
STRIDE = 7919
"""Elements between one flip and the next, so that a flip never undoes the previous one."""


@contextlib.contextmanager
def flipping(torch: Any, verifies: str, kinds: Collection[str], current_kind: Callable[..., str]) -> Iterator[None]:
    """Flip bits below a probe that compares data of the kind `verifies` with known values.

    `current_kind` returns the kind of data to flip bits in at that moment (`Symptoms.flips`), `kinds` are those that
    it may return. For a copy it is given the indices of the devices on which both tensors were made, where they have
    one.
    """
    if not kinds:
        yield
        return
    import torch.distributed as dist
    from torch.utils._python_dispatch import TorchDispatchMode

    positions = itertools.count(1, STRIDE)
    owners: dict[int, int] = {}  # by storage

    def owner(tensor: Any) -> int | None:
        return owners.get(tensor.untyped_storage().data_ptr())

    def flip(tensor: Any, position: int) -> None:
        if tensor.numel() >= SMALLEST and tensor.is_contiguous():
            raw = tensor.detach().view(-1).view(torch.uint8)
            raw[(position % tensor.numel() + 1) * tensor.element_size() - 1] ^= 0x40

    class Flips(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            made_on = getattr((kwargs or {}).get("device"), "index", None)
            if made_on is not None:
                owners[result.untyped_storage().data_ptr()] = made_on
            name = function.__name__.partition(".")[0]
            ends = [end for tensor in args[:2] if (end := owner(tensor)) is not None] if name == "copy_" else []
            target = current_kind(ends)
            if target == "always" and name in PRODUCTS:
                flip(result, 1)
            matmul = target == "matmul" and name in PRODUCTS
            copy = target == "copy" and name == "copy_" and verifies == "copies"
            memory = target == "memory" and name in STORES and verifies == "stores"
            if matmul or copy or memory:
                flip(result, next(positions))
            return result

    def received(tensor: Any) -> None:
        if current_kind() == "collective":
            flip(tensor, next(positions))

    functions = {name: getattr(dist, name) for name in COLLECTIVES if hasattr(dist, name)}
    vars(dist).update({name: _followed(function, received) for name, function in functions.items()})
    try:
        with Flips():  # type: ignore[no-untyped-call]
            yield
    finally:
        vars(dist).update(functions)


def _followed(collective: Callable[..., Any], received: Callable[[Any], None]) -> Callable[..., Any]:
    """Return a collective that calls `received` with the tensor that has its result."""

    def followed(result: Any, *args: Any, **kwargs: Any) -> Any:
        handle = collective(result, *args, **kwargs)
        received(result)
        return handle

    return followed
