"""The sensor process: the only one that talks to drivers.

Started by run/processes/supervisor.py with PARENT_PID and EPOCH.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pytest_accel.core import clock
from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import Problem
from pytest_accel.core.pipe import Pipe, begin
from pytest_accel.drivers import deadlines, kernel_log, kernel_messages, registry
from pytest_accel.drivers.host import reading
from pytest_accel.drivers.host.hints import hints
from pytest_accel.drivers.host.host_environment import host_environment
from pytest_accel.drivers.interface import Driver, DriverProblem, Hint, NoAnswer, NoDriver, NoLibrary


class Sampling:
    """Counts the readings of the devices, their duration, and the processor time of this process while it reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Counter[str]()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count what is done within as one reading of a device."""
        start = time.monotonic()
        yield
        self._add(readings=1, reading_s=time.monotonic() - start)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the time and the processor time of this process within, all of its threads together."""
        start, cpu_start = time.monotonic(), time.process_time()
        yield
        self._add(watched_s=time.monotonic() - start, cpu_s=time.process_time() - cpu_start)

    def _add(self, **amounts: float) -> None:
        with self._lock:
            self._totals.update(amounts)

    def totals(self) -> dict[str, float]:
        """Return the counts so far: the number of readings, and seconds."""
        with self._lock:
            return {name: self._totals[name] for name in ("readings", "reading_s", "watched_s", "cpu_s")}


Answer = TypeVar("Answer")

SILENT_SECONDS = 10.0

QUESTIONS = ("discover", "host", "kernel_past", "idle", "health", "watch")
"""The events of messages that `Sensor` answers by the method of that name."""


def host_facts(root: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return the facts `names` of the host, read from the files below `root`."""
    return dict(reading.read(root, {name: reading.HOST_READERS[name] for name in names}))


@dataclass(frozen=True)
class Machine:
    """The sources of a sensor beside the management libraries. The default is this machine."""

    hints: Callable[[], list[Hint]] = hints
    """The accelerators that it shows without any library."""
    container: Callable[[], str] = lambda: host_environment().container
    """The kind of the container that this process is in, empty for none."""
    now: Callable[[str], float] = lambda uuid: clock.now()
    """The time as the device of this UUID has it."""
    host: Callable[[Iterable[str]], dict[str, Any]] = lambda names: host_facts(Path("/"), names)
    """These facts of the host."""
    kernel_reports: Callable[[], Iterator[dict[str, Any]]] | None = kernel_log.follow
    """The messages of the kernel as they come, None where there are none."""
    kernel_past: Callable[[], list[dict[str, Any]]] = kernel_log.past
    """The messages that the kernel log holds."""
    drives: Callable[[str], bool] = lambda module: (Path("/sys/module") / module).is_dir()
    """True if the kernel has this driver. One whose devices are reached by a proxy (gVisor, WSL2) has not."""


THIS_MACHINE = Machine()


class Sensor:
    """Answers each message of pytest."""

    def __init__(self, pipe: Pipe, machine: Machine = THIS_MACHINE) -> None:
        self._pipe, self._machine = pipe, machine
        self._drivers: dict[str, Driver] = {}
        self._devices: dict[str, Device] = {}
        self._sampling = Sampling()
        self._rested = 0
        self._wake = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._asked: dict[str, float] = {}
        """The time at which the current reading of each device began."""
        self._owing: set[str] = set()
        """The devices that have not answered a question yet."""

    def discover(self, want: str | None, listens: bool = True) -> None:
        """Send the devices of the vendor `want`, and the problems of its driver; then listen for errors if asked to.

        Without `want`: all vendors with a hint; without hints: those whose library finds devices all the same, else the
        CPU. Vendors whose declaration cannot be used are sent as problems, whatever `want` is.
        """
        hints = self._machine.hints()
        names = [want] if want else sorted({hint.driver for hint in hints}) or self._unseen() or of_every_machine()
        answers = [self._discovered(name, hints) for name in names]
        devices, problems = _distinct([device for group, _ in answers for device in group])
        problems += [problem for _, group in answers for problem in group]
        unusable = registry.registered().problems
        problems += [Problem(name, "need", reason, []) for name, reason in unusable.items() if name not in names]
        self._devices = {device.uuid: device for device in devices}
        self._pipe.send(
            "devices",
            devices=[asdict(device) for device in devices],
            problems=[vars(problem) for problem in problems],
            shown=[{"driver": hint.driver, "where": hint.where, "pci": hint.pci} for hint in hints],
            container=self._machine.container(),
        )
        for device in devices:
            module = registry.vendor(device.driver).kernel_module
            if module and not self._machine.drives(module):
                reason = f"this kernel has no driver {module}, so that its log says nothing of the device"
                self._pipe.send("hearing", source=kernel_messages.SOURCE, uuid=device.uuid, deaf=reason)
        if listens:
            self.listen()

    def listen(self) -> None:
        """Start the threads that report Xids and kernel messages from now on."""
        sources: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            name: driver.events for name, driver in self._drivers.items() if hasattr(driver, "events")
        }
        if self._machine.kernel_reports:
            sources[kernel_messages.SOURCE] = self._machine.kernel_reports
        for source, follow in sources.items():
            threading.Thread(target=self._report, args=(source, follow), daemon=True).start()

    def _report(self, source: str, follow: Callable[[], Iterator[dict[str, Any]]]) -> None:
        try:
            events = follow()
            self._pipe.send("hearing", source=source, deaf=None)
            for event in events:
                kind = "hearing" if "deaf" in event else "logged" if "message" in event else "xid"
                self._pipe.send(kind, source=source, at=clock.now(), **event)
        except Exception as error:  # noqa: BLE001  a driver may raise anything
            self._pipe.send("hearing", source=source, deaf=str(error))

    def _unseen(self) -> list[str]:
        """Return the vendors whose library finds devices that the machine does not show."""
        candidates = [name for name, vendor in registry.registered().vendors.items() if vendor.unseen]
        finding = sorted(name for name in candidates if self._discovered(name, [])[0])
        self._drivers = {name: driver for name, driver in self._drivers.items() if name in finding}
        return finding

    def _discovered(self, name: str, hints: list[Hint]) -> tuple[list[Device], list[Problem]]:
        """Return the devices of one vendor and the problems of its driver, which never stop another vendor's."""
        vendor = registry.vendor(name)
        own_hints = [hint for hint in hints if hint.driver == name]
        places = [hint.where for hint in own_hints]
        try:
            driver = self._drivers[name] = vendor.driver(hints)
            devices = [replace(device, driver=name, called=vendor.short_name) for device in driver.discover()]
        except NoDriver as problem:
            return [], [Problem(name, "need", str(problem), places)]
        except NoLibrary as problem:
            container = self._machine.container()
            remark = f"; this is a container ({container}), which may lack it" if container else ""
            return [], [Problem(name, "need" if container else "device", f"{problem}{remark}", places)]
        except DriverProblem as problem:
            return [], [Problem(name, "device", str(problem), places)]
        except Exception as error:  # noqa: BLE001  a driver may raise anything
            reason = f"its driver failed: {type(error).__name__}: {error}"
            return [], [Problem(name, "need", reason, places)]
        found_at = {"", *(device.pci_address for device in devices)}  # nodes have no order
        missing = [hint.where for hint in own_hints if hint.pci not in found_at]
        problems = [Problem(name, "device", reason, missing) for reason in driver.problems]
        return devices, problems + [Problem(name, "need", reason, places) for reason in driver.needs]

    def idle(self) -> None:
        """Send the reason for each device that is not idle."""
        answers = self._ask(lambda driver, device: driver.idle(device))
        reasons = {uuid: str(reason) for uuid, reason in answers.items() if reason}
        self._pipe.send("idle", reasons=reasons)

    def host(self, names: Iterable[str]) -> None:
        """Send these facts of the host."""
        self._pipe.send("host", facts=self._machine.host(names))

    def health(self, links: bool = True) -> None:
        """Send the facts of every device that may have changed since it was discovered; those of `links` if asked for.

        For a device without an answer the reason is sent: it is lost, or silent, which may be the library's fault.
        """
        answers = self._ask(lambda driver, device: (driver.health if links else driver.health_without_links)(device))
        self._pipe.send("health", facts={uuid: _facts(answer) for uuid, answer in answers.items()})

    def kernel_past(self) -> None:
        """Send the reports of errors that the kernel log holds, or the reason why it cannot be read."""
        try:
            self._pipe.send("kernel_past", reports=self._machine.kernel_past(), deaf=None)
        except DriverProblem as problem:
            self._pipe.send("kernel_past", reports=[], deaf=str(problem))

    def _ask(self, question: Callable[[Driver, Device], Answer]) -> dict[str, Answer | DriverProblem]:
        """Ask all devices at once, and return their answers by UUID.

        The answer is a DriverProblem for a device that fails or does not answer within SILENT_SECONDS. One that still
        owes an answer is not asked again.
        """

        def answer(device: Device) -> Answer:
            self._owing.add(device.uuid)
            try:
                return question(self._drivers[device.driver], device)
            finally:
                self._owing.discard(device.uuid)

        timeout = NoAnswer(f"its management library has not answered for {SILENT_SECONDS:g} s")
        silent = dict.fromkeys(self._owing, timeout)
        questions = {uuid: partial(answer, device) for uuid, device in self._devices.items() if uuid not in silent}
        return {**deadlines.ask(questions, SILENT_SECONDS), **silent}

    def watch(self, turn: int, hz: float) -> None:
        """Send a reading of every device, `hz` times a second, until `rest` of the same turn; then what it cost so far.

        One whose last turn ends late, since its library or the host is slow, is read from then on. While some answer,
        one that has been silent for SILENT_SECONDS is lost.
        """
        with self._sampling.watching():
            self._watch(turn, hz)
        self._pipe.send("resting", turn=turn, sampling=self._sampling.totals())

    def _watch(self, turn: int, hz: float) -> None:
        for thread in self._threads.values():
            thread.join(2 / hz)  # the end of its last turn
        waiting = list(self._devices)
        while self._rested < turn:
            for uuid in [uuid for uuid in waiting if uuid not in self._asked]:  # else it is late, or hangs
                waiting.remove(uuid)
                self._asked[uuid] = time.monotonic()
                # a thread of its own: one whose readings hang keeps no other from being read
                self._threads[uuid] = threading.Thread(target=self._follow, args=(uuid, turn, hz), daemon=True)
                self._threads[uuid].start()
            self._wake.wait(1.0)
            silent = [uuid for uuid, start in list(self._asked.items()) if time.monotonic() - start > SILENT_SECONDS]
            # when none answers, it may be the library
            for uuid in silent if len(silent) < len(self._devices) else ():
                text = f"its management library has not answered for {SILENT_SECONDS:g} s"
                self._pipe.send("reading", uuid=uuid, at=self._machine.now(uuid), lost=text)
        self._wake.clear()

    def _follow(self, uuid: str, turn: int, hz: float) -> None:
        """Read one device until the turn is over. An error ends its readings; it is no answer to anything asked."""
        device = self._devices[uuid]
        try:
            while self._rested < turn:
                self._asked[uuid] = start = time.monotonic()
                with self._sampling.reading():
                    self.read(device)
                self._wake.wait(max(0.0, start + 1 / hz - time.monotonic()))
        except Exception as error:  # noqa: BLE001  a driver may raise anything
            self._pipe.send("unread", uuid=uuid, reason=f"{type(error).__name__}: {error}")
        finally:
            del self._asked[uuid]

    def take(self, message: dict[str, Any]) -> None:
        """Answer one message: its event names the method, and its other fields are the arguments."""
        fields = {name: value for name, value in message.items() if name != "event"}
        if message["event"] in QUESTIONS:
            getattr(self, message["event"])(**fields)

    @property
    def devices(self) -> list[Device]:
        """The devices that were discovered, of all vendors."""
        return list(self._devices.values())

    def read(self, device: Device) -> None:
        """Send one reading of a device."""
        try:
            reading: dict[str, Any] = dict(self._drivers[device.driver].read(device))
        except DriverProblem as problem:
            reading = {"lost": str(problem)}
        self._pipe.send("reading", uuid=device.uuid, at=self._machine.now(device.uuid), **reading)

    def hear(self, message: dict[str, Any]) -> bool:
        """End the readings of a turn if the message is "rest"; return True if it was."""
        if message["event"] == "rest":
            self._rested = message["turn"]
            self._wake.set()
            return True
        return False


def of_every_machine() -> list[str]:
    """Return the names of the vendors whose devices are measured where there is no accelerator."""
    return sorted(name for name, vendor in registry.registered().vendors.items() if not vendor.accelerator)


def _distinct(devices: list[Device]) -> tuple[list[Device], list[Problem]]:
    """Return the devices without those whose UUID an earlier one states, and a problem for each of these."""
    by_uuid: dict[str, Device] = {}
    problems = []
    for device in devices:
        earlier = by_uuid.setdefault(device.uuid, device)
        if earlier is not device:  # records and locks could not tell them apart
            pair = " and ".join(f"{twin.name} ({twin.pci_address or 'no PCI address'})" for twin in (earlier, device))
            problems.append(Problem(device.driver, "device", f"{pair} state the same UUID {device.uuid}"))
    return list(by_uuid.values()), problems


def _facts(answer: Mapping[str, Any] | DriverProblem) -> dict[str, Any]:
    if isinstance(answer, NoAnswer):
        return {"silent": str(answer)}
    return {"lost": str(answer)} if isinstance(answer, DriverProblem) else dict(answer)


def serve(pipe: Pipe, machine: Machine = THIS_MACHINE) -> None:
    """Answer messages for ever."""
    sensor = Sensor(pipe, machine)
    pipe.intercept(sensor.hear)
    for message in pipe.receive():
        try:
            sensor.take(message)
        except Exception as error:  # noqa: BLE001  the parent has to hear of it: a bug, since drivers have their own net
            pipe.send("error", kind="bug", reason=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    serve(begin())
