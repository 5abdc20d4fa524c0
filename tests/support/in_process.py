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


class RecordingPipe(list[Message]):
    """A pipe that keeps its messages, and a gate that is always open."""

    compute: Any = None
    collective = False
    after_block: Callable[[], None] = staticmethod(lambda: None)

    def send(self, event: str, **fields: Any) -> None:
        self.append({"event": event, **fields})

    def intercept(self, listener: object) -> None: ...

    def working(self) -> None: ...

    def ready(self) -> None: ...

    def report_block(self, seconds: float, warm: bool) -> None:
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


class SilentSensor(Sensor):
    """A sensor without Xids: a library reports them by threads, in real time, which takes a process."""

    def listen(self) -> None: ...


class InlineChild(Child):
    """A child without a process: it handles a message when it is sent, and its answers wait in `pipe`."""

    def __init__(self, name: str) -> None:
        self.name, self.log = name, Path(os.devnull)
        self.ending = None
        self.pipe = RecordingPipe()
        self._readable = os.eventfd(1)

    @property
    def pid(self) -> int:
        return os.getpid()

    def fileno(self) -> int:
        return self._readable

    def take(self) -> list[Message]:
        messages = [self._message(json.dumps(message).encode()) for message in self.pipe]
        self.pipe.clear()
        return [message for message in messages if message]

    def kill(self, reason: str = "", seconds: float = 0.0) -> str:
        if self.ending is None:
            self.ending = reason
            os.close(self._readable)
        return self.ending


class InlineSensor(InlineChild):
    """The sensor of a node. It reads a device after a block of its work, and not in parallel."""

    sensor: Sensor
    model: Model

    def send(self, event: str, **fields: Any) -> None:
        if event == "node":
            self.model = Model.read(fields["model"])
            self.sensor = SilentSensor(self.pipe, machine(self.model))  # type: ignore[arg-type]
            self._library: Any = amdsmi.installed() if self.model.vendor == "amd" else pynvml.nvmlLib
        elif event == "rest":
            self.pipe.send("resting", turn=fields["turn"])
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


class InlineWorker(InlineChild):
    """The worker of some devices. `look` is called with them after each block."""

    def __init__(self, name: str, look: Callable[[Sequence[Device]], None]) -> None:
        super().__init__(name)
        self.pipe.after_block = lambda: look(self.pipe.compute.devices)

    def send(self, event: str, **fields: Any) -> None:
        if event == "node":
            opened = partial(simulated.SimulatedDevice, model=Model.read(fields["model"]))
            self._worker = Worker(self.pipe, self.pipe, opened)  # type: ignore[arg-type]
            return
        self._worker.take({"event": event, **fields})


class InlinePool(WorkerPool):
    """The pool of a run without processes: its children are called, one device after the other."""

    def __init__(self) -> None:
        super().__init__(SensorClient(60.0))
        self._inline: list[InlineChild] = []
        self._apart = False
        self._blocks = 0

    def begin(self, processes: Processes, logs: Path | None) -> None:
        super().begin(replace(processes, spawn=self._call), logs)

    @property
    def model(self) -> Model:
        """The model of the node."""
        sensor = self._inline[0]
        assert isinstance(sensor, InlineSensor)
        return sensor.model

    def part(self) -> None:
        """Have workers in processes of their own from now on: the ranks of a collective have to meet."""
        self._apart = True
        for worker in self._inline[1:]:
            worker.kill("replaced by a process")

    def _call(self, name: str, module: str, log: Path, environment: Environment) -> Child:
        if name != "sensor" and self._apart:
            return Child(name, module, log, environment)
        self._inline.append(InlineWorker(name, self._look) if self._inline else InlineSensor(name))
        return self._inline[-1]

    def _look(self, devices: Sequence[Device]) -> None:
        """Read the devices as the sensor of a real run does beside the workers; devices at rest take too much time."""
        self._blocks += 1
        sensor = self._inline[0]
        if self._blocks % BLOCKS_BETWEEN_READINGS == 0 and isinstance(sensor, InlineSensor):
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
"""The dtypes that are multiplied in a run without named probes: each takes time, and none shows more than another."""


def suite(session: Session, measured: Sequence[str] | None) -> Iterator[tuple[Any, dict[str, Any], str | None]]:
    """Yield the calls of the packaged suite, in its order, without collectives: all, or those of `measured` probes."""
    products = required(session, "matmul")
    few = [dtype for dtype in DTYPES if dtype in products]
    shapes = required(session, "matmul_mamf")
    for probe, conditions, metric in _suite(few if measured is None else products, shapes):
        if measured is None or probe.__name__ in measured:
            yield probe, conditions, metric


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


def required(session: Session, probe: str) -> list[str]:
    """The variants of a probe that the level requires a limit of."""
    found = session.target.terms.required
    return [variant for name, _, variant in (metric.partition(".") for metric in found) if name == probe]


def limited(session: Session, probe: str) -> list[tuple[Any, str]]:
    return [(getattr(probes, probe), fact) for fact in session.target.limited_facts(probe)]


def opened(node: Path, output: Path, level: str = "quick") -> Session:
    """Return a run on the node of a file, before its first check."""
    importlib.import_module("torch").manual_seed(0)
    gc.collect()
    gc.freeze()  # a worker collects after every call, and torch alone is a million objects
    atexit.register(gc.unfreeze)  # a module that is frozen when the process ends is one that DuckDB calls leaked
    session = Session.open(Options(sku="", level=level, output=output, simulate=str(node)), InlinePool())
    session.begin()
    session.ledger.folder.path = None  # what is not looked at need not be written
    return session


def run(
    node: Path, output: Path, *, measured: Sequence[str] | None = None, whole: bool = False
) -> tuple[Session, Closing]:
    """Run the quick level on the node of a file: all facts, and all probes but collectives or only those `measured`.

    With the collectives it is `whole`, if the devices are of a vendor without Xids.
    """
    session = opened(node, output)
    if not whole:
        session.add_objection("filter", "without collectives and Xids")
    subjects = [device.uuid for device in session.target.devices]
    _look(session, subjects)
    for probe, conditions, metric in suite(session, EVERY if whole else measured):
        for subject in subjects:
            session.check(probe, conditions, subject, metric=metric)
    if whole:
        assert isinstance(session.pool, InlinePool)
        session.pool.part()
        session.check(probes.collective, {}, NODE)
    _count(session, subjects)
    return session, session.finish()


def _look(session: Session, subjects: Sequence[str]) -> None:
    """The facts of node, host and devices."""
    for fact in ("driver", "count"):
        session.check(probes.inventory, {"fact": fact}, NODE)
    for probe, fact in limited(session, "host"):
        session.check(probe, {"fact": fact}, NODE)
    for probe, fact in [(probes.inventory, "sku"), *limited(session, "inventory"), *limited(session, "health")]:
        for subject in subjects:
            session.check(probe, {"fact": fact}, subject)


def _count(session: Session, subjects: Sequence[str]) -> None:
    """What devices and host have counted meanwhile."""
    for probe, fact in limited(session, "counters"):
        for subject in subjects if not fact.startswith("xid") else ():
            session.check(probe, {"fact": fact}, subject)
    for fact in probes.HOST_COUNTERS:
        session.check(probes.host_counters, {"fact": fact}, NODE)


def objections(session: Session) -> tuple[str, ...]:
    """Why a reader of the record would not believe it."""
    content = json.loads(json.dumps(record.content(session.ledger.record)))
    with RecordFiles(Path(record.FILE)) as files:
        return record.parse({**content, "sha256": record.seal(content)}, files).objections


def seen(case: Case, folder: Path) -> Seen:
    """What comes of a case."""
    try:
        session, closing = run(case.write(folder), folder / "out", measured=case.measured)
    except Refused as reason:
        return Seen(f"SIMULATED REFUSED {reason}", 4, ())
    assert objections(session) == (), "the record of a run is believed"
    verdicts = [
        (session.ledger.names.get(verdict.subject, verdict.subject), verdict.metric, verdict.status.value)
        for verdict in session.ledger.verdicts
    ]
    return Seen(closing.line, closing.exit, tuple(verdicts))


def by_a_user(case: Case, folder: Path) -> Seen:
    """What comes of a case when a user runs pytest: with processes, and real time."""
    place = folder / "out"
    options = [f"--accel-simulate={case.write(folder)}", "--accel-level=quick", f"--accel-output={place}"]
    ran = as_user.pytest(folder, *options, *case.words, sku=None, paths=(), output=place)
    verdicts = [
        (ran.names[verdict["subject"]], verdict["metric"], verdict["status"]) for verdict in ran.record["verdicts"]
    ]
    return Seen(ran.closing, ran.exit, tuple(verdicts))
