"""A whole run on a simulated node in this process, without pytest: real driver, probes, judge and record, fake time.

What a run does by processes is done by calls here, one device after the other: the same sensor and workers take the
same messages. Simulated time runs as fast as it can, and the sensor reads whenever a block is done, so that a run of
the quick level takes a second and gives the same numbers every time. What needs a process of its own (one that hangs
or dies, the ranks of a collective) cannot be run like this.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest

from pytest_accel import probes
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.messages import Message
from pytest_accel.core.verdict import Closing
from pytest_accel.drivers.sensor import Sensor
from pytest_accel.probes.device.worker import Worker
from pytest_accel.run import record
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.programs import Environment, Processes
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.supervisor import Child
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.run.session import Session
from pytest_accel.simulate import amd_node, management
from pytest_accel.simulate import device as simulated
from pytest_accel.simulate.libraries import amdsmi, nvml
from pytest_accel.simulate.model import Model
from pytest_accel.simulate.simulated_sensor import machine
from support import as_user
from support.fault_case import Case, Seen

FAST = 1e5
"""Simulated seconds in a real one."""
BLOCKS_BETWEEN_READINGS = 40
"""Two simulated seconds."""


class Kept(list[Message]):
    """A pipe that keeps what is sent, and a gate that is always open."""

    compute: Any = None
    collective = False
    after_block: Callable[[], None] = staticmethod(lambda: None)

    def send(self, event: str, **fields: Any) -> None:
        self.append({"event": event, **fields})

    def intercept(self, listener: object) -> None: ...

    def working(self) -> None: ...

    def ready(self) -> None: ...

    def block(self, seconds: float, warm: bool) -> None:
        self.send("block", seconds=seconds, warm=warm, at=self.compute.wall())
        self.after_block()

    def step(self, what: str, subjects: tuple[str, ...]) -> None:
        self.send("step", what=what, subjects=list(subjects))

    def tuning(self, begins: bool) -> None: ...

    def settled(self) -> None: ...

    def released(self) -> bool:
        return True

    def agree(self, value: float) -> float:
        return value

    def of(self, *events: str) -> list[Message]:
        return [message for message in self if message["event"] in events]


class Deaf(Sensor):
    """Xids are told by threads, in real time: what they do to a run takes a process."""

    def listen(self) -> None: ...


class Called(Child):
    """A process that is none: what it is sent it does at once, and what it said waits to be heard."""

    def __init__(self, name: str) -> None:
        self.name, self.log = name, Path(os.devnull)
        self.ending = None
        self.said = Kept()
        self._readable = os.eventfd(1)

    @property
    def pid(self) -> int:
        return os.getpid()

    def fileno(self) -> int:
        return self._readable

    def take(self) -> list[Message]:
        said = [self._message(json.dumps(each).encode()) for each in self.said]
        self.said.clear()
        return [message for message in said if message]

    def kill(self, why: str = "", seconds: float = 0.0) -> str:
        if self.ending is None:
            self.ending = why
            os.close(self._readable)
        return self.ending


class CalledSensor(Called):
    """The sensor of a node: it reads a device when it is told that the device worked, and not beside it."""

    sensor: Sensor
    model: Model

    def send(self, event: str, **fields: Any) -> None:
        if event == "node":
            self.model = Model.read(fields["model"])
            self.sensor = Deaf(self.said, machine(self.model))  # type: ignore[arg-type]
            self._library: Any = amdsmi.installed() if self.model.vendor == "amd" else pynvml.nvmlLib
        elif event == "rest":
            self.said.send("resting", turn=fields["turn"])
        elif event != "watch":
            self._refresh()
            self.sensor.take({"event": event, **fields})

    def look(self, devices: Sequence[Device]) -> None:
        """Read these devices."""
        self._refresh()
        for device in devices:
            self.sensor.read(device)

    def _refresh(self) -> None:
        if isinstance(self._library, management.NvidiaNode | amd_node.AmdNode):
            for index in range(len(self._library.gpus)):
                self._library.renew(index)


class CalledWorker(Called):
    """The worker of some devices. After each of its blocks somebody may `look` at them."""

    def __init__(self, name: str, look: Callable[[Sequence[Device]], None]) -> None:
        super().__init__(name)
        self.said.after_block = lambda: look(self.said.compute.devices)

    def send(self, event: str, **fields: Any) -> None:
        if event == "node":
            opened = partial(simulated.SimulatedDevice, model=Model.read(fields["model"]))
            self._worker = Worker(self.said, self.said, opened)  # type: ignore[arg-type]
            return
        self._worker.take({"event": event, **fields})


class Here(WorkerPool):
    """The pool of a run whose processes are called instead of started, and none of whose devices waits for another."""

    def __init__(self) -> None:
        super().__init__(SensorClient(60.0))
        self._called: list[Called] = []
        self._apart = False
        self._blocks = 0

    def begin(self, processes: Processes, logs: Path | None) -> None:
        super().begin(replace(processes, spawn=self._call), logs)

    @property
    def model(self) -> Model:
        """The model of the node."""
        sensor = self._called[0]
        assert isinstance(sensor, CalledSensor)
        return sensor.model

    def part(self) -> None:
        """Have workers in processes of their own from now on: the ranks of a collective have to meet."""
        self._apart = True
        for worker in self._called[1:]:
            worker.kill("its place is taken by a process")

    def _call(self, name: str, module: str, log: Path, environment: Environment) -> Child:
        if name != "sensor" and self._apart:
            return Child(name, module, log, environment)
        self._called.append(CalledWorker(name, self._look) if self._called else CalledSensor(name))
        return self._called[-1]

    def _look(self, devices: Sequence[Device]) -> None:
        """What the sensor of a real run does beside the workers; devices at rest are not worth the time."""
        self._blocks += 1
        sensor = self._called[0]
        if self._blocks % BLOCKS_BETWEEN_READINGS == 0 and isinstance(sensor, CalledSensor):
            sensor.look(devices)


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Simulated time as fast as it can; afterwards pynvml is as it was."""
    importlib.import_module("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, "SPEEDUP", FAST)
        patch.setattr(simulated, "REAL_SECONDS", 1e-9)  # the first call of a block, and no other
        for library in (management, amd_node):
            patch.setattr(library, "FRESH_SECONDS", math.inf)  # it is refreshed when something has changed
        patch.setattr(pynvml, "CDLL", pynvml.CDLL)
        yield
    nvml.install(None)
    amdsmi.install(None)


DTYPES = ("tf32", "bf16")
"""The products of a run that is not about products: each takes its time, and none shows more than another."""


def suite(here: Session, measured: Sequence[str] | None) -> Iterator[tuple[Any, dict[str, Any], str | None]]:
    """The packaged suite as calls, in its order, without collectives: all of it, or the probes that are `measured`."""
    products = required(here, "matmul")
    few = [dtype for dtype in DTYPES if dtype in products]
    shapes = required(here, "matmul_mamf")
    for probe, given, metric in _suite(few if measured is None else products, shapes):
        if measured is None or probe.__name__ in measured:
            yield probe, given, metric


def _suite(dtypes: Sequence[str], mamf: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any], str | None]]:
    yield from ((probes.host_copy, {"direction": way}, None) for way in ("h2d", "d2h"))
    yield from ((probes.stream, {"op": op}, None) for op in ("copy_kernel", "triad", "copy", "read"))
    yield probes.memory_pattern, {}, None
    yield from ((probes.matmul, {"dtype": dtype}, None) for dtype in dtypes)
    yield from ((probes.matmul_mamf, {"dtype": dtype}, None) for dtype in mamf)
    yield probes.training_step, {}, None
    yield from ((probes.peer_copy, {"direction": way}, None) for way in ("one_way", "both"))
    yield from ((probes.soak, {}, f"soak.{name}") for name in SOAK)
    yield from ((probes.exact_matmul, {"dtype": dtype}, None) for dtype in ("bf16", "fp32"))
    yield probes.memory_pattern, {"state": "hot"}, None


EVERY = ("host_copy", "stream", "memory_pattern", "matmul", "matmul_mamf", "exact_matmul", "peer_copy", "soak")
"""All of the suite, and of the products every one that a limit is for."""

SOAK = (
    "rate",
    "droop_slow",
    "slowest_window",
    "power",
    "throttle.hw_thermal",
    "throttle.sw_thermal",
    "throttle.power_brake",
    "throttle.hw_slowdown",
    "thermal_margin",
)


def required(here: Session, probe: str) -> list[str]:
    """The variants of a probe that the level requires a limit of."""
    found = here.target.terms.required
    return [variant for name, _, variant in (metric.partition(".") for metric in found) if name == probe]


def limited(here: Session, probe: str) -> list[tuple[Any, str]]:
    return [(getattr(probes, probe), fact) for fact in here.target.limited_facts(probe)]


def opened(node: Path, output: Path, level: str = "quick") -> Session:
    """A run on the node of a file, of which nothing was asked yet."""
    importlib.import_module("torch").manual_seed(0)
    gc.collect()
    gc.freeze()  # a worker collects after every call, and torch alone is a million objects
    atexit.register(gc.unfreeze)  # a module that is frozen when the process ends is one that DuckDB calls leaked
    here = Session.open(Options(sku="", level=level, output=output, simulate=str(node)), Here())
    here.begin()
    here.ledger.folder.path = None  # what is not looked at need not be written
    return here


def run(
    node: Path, output: Path, *, measured: Sequence[str] | None = None, whole: bool = False
) -> tuple[Session, Closing]:
    """Run the quick level on the node of a file: all facts, and all probes but collectives or only those `measured`.

    With the collectives it is `whole`, if the devices are of a vendor without Xids.
    """
    here = opened(node, output)
    if not whole:
        here.rule_out("filter", "without collectives and Xids")
    subjects = [device.uuid for device in here.target.devices]
    _look(here, subjects)
    for probe, given, metric in suite(here, EVERY if whole else measured):
        for subject in subjects:
            here.check(probe, given, subject, metric=metric)
    if whole:
        assert isinstance(here.pool, Here)
        here.pool.part()
        here.check(probes.collective, {}, NODE)
    _count(here, subjects)
    return here, here.finish()


def _look(here: Session, subjects: Sequence[str]) -> None:
    """The facts of node, host and devices."""
    for fact in ("driver", "count"):
        here.check(probes.inventory, {"fact": fact}, NODE)
    for probe, fact in limited(here, "host"):
        here.check(probe, {"fact": fact}, NODE)
    for probe, fact in [(probes.inventory, "sku"), *limited(here, "inventory"), *limited(here, "health")]:
        for subject in subjects:
            here.check(probe, {"fact": fact}, subject)


def _count(here: Session, subjects: Sequence[str]) -> None:
    """What devices and host have counted meanwhile."""
    for probe, fact in limited(here, "counters"):
        for subject in subjects if not fact.startswith("xid") else ():
            here.check(probe, {"fact": fact}, subject)
    for fact in probes.HOST_COUNTERS:
        here.check(probes.host_counters, {"fact": fact}, NODE)


def objections(here: Session) -> tuple[str, ...]:
    """Why a reader of the record would not believe it."""
    content = json.loads(json.dumps(record.content(here.ledger.record)))
    with RecordFiles(Path(record.FILE)) as files:
        return record.parse({**content, "sha256": record.seal(content)}, files).objections


def seen(case: Case, folder: Path) -> Seen:
    """What comes of a case."""
    try:
        here, closing = run(case.write(folder), folder / "out", measured=case.measured)
    except Refused as why:
        return Seen(f"SIMULATED REFUSED {why}", 4, ())
    assert objections(here) == (), "the record of a run is believed"
    verdicts = [
        (here.ledger.names.get(each.subject, each.subject), each.metric, each.status.value)
        for each in here.ledger.verdicts
    ]
    return Seen(closing.line, closing.exit, tuple(verdicts))


def by_a_user(case: Case, folder: Path) -> Seen:
    """What comes of a case when a user runs pytest: with processes, and real time."""
    place = folder / "out"
    options = [f"--accel-simulate={case.write(folder)}", "--accel-level=quick", f"--accel-output={place}"]
    ran = as_user.pytest(folder, *options, *case.words, sku=None, paths=(), output=place)
    verdicts = [(ran.names[each["subject"]], each["metric"], each["status"]) for each in ran.record["verdicts"]]
    return Seen(ran.closing, ran.exit, tuple(verdicts))
