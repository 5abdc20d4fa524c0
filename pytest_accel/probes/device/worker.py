"""The worker process: holds one device (or all, for copies between peers) and runs probes on it.

Started by run/processes/supervisor.py with PARENT_PID and EPOCH.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.measurement import Device
from pytest_accel.core.pipe import Pipe, begin
from pytest_accel.probes.device import blas, error_class
from pytest_accel.probes.device.error_class import NotApplicable, Unmeasurable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


class PipeGate:
    """Keeps in step with the other workers through the parent."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._go = threading.Event()
        self._release = threading.Event()
        self.compute: Compute | None = None
        self.collective = False
        pipe.intercept(self._hear)

    def _hear(self, message: dict[str, Any]) -> bool:
        if message["event"] == "go":
            self._go.set()
        elif message["event"] == "release":
            self._release.set()
        elif message["event"] == "where":
            self._pipe.send("at", frames=_stack())
        else:
            return False
        return True

    def working(self) -> None:
        self._pipe.send("working")

    def ready(self) -> None:
        self._go.clear()
        self._release.clear()
        self._pipe.send("ready")
        self._go.wait()

    def block(self, seconds: float, warm: bool) -> None:
        self._pipe.send("block", seconds=seconds, warm=warm, at=self.compute.wall() if self.compute else clock.now())

    def step(self, what: str, subjects: tuple[str, ...]) -> None:
        self._pipe.send("step", what=what, subjects=list(subjects))

    def settled(self) -> None:
        self._pipe.send("settled")

    def released(self) -> bool:
        return self._release.is_set()

    def agree(self, value: float) -> float:
        return self.compute.agree(value) if self.collective and self.compute else value


Open = Callable[[list[Device], PipeGate], Compute]
"""Opens devices for probes to work on."""


class Worker:
    """Answers each message of pytest."""

    def __init__(self, pipe: Pipe, gate: PipeGate, devices: Open = Compute) -> None:
        self._pipe, self._gate, self._devices = pipe, gate, devices
        self.compute: Compute | None = None

    def take(self, message: dict[str, Any]) -> None:
        """See one message through; what goes wrong is sent."""
        try:
            self._take(message)
        except Exception as error:  # noqa: BLE001  a probe may raise anything; the parent has to hear of it
            words = self.compute.device_errors if self.compute else ()
            lost = self.compute is not None and error_class.context_is_lost(error, words)
            kind = error_class.kind(error, other=self.compute is not None and self.compute.other, words=words)
            self._pipe.send("error", kind=kind, reason=_reason(error), traceback=traceback.format_exc(), lost=lost)

    def _take(self, message: dict[str, Any]) -> None:
        if message["event"] == "load":
            importlib.import_module("torch")
            self._pipe.send("done")
        elif message["event"] == "open":
            self.compute = _open(message, self._gate, self._devices)
            self._pipe.send("opened", software=_software(self.compute))
        elif self.compute is not None:
            _call(message, self.compute, self._gate, self._pipe)


def serve(pipe: Pipe, devices: Open = Compute) -> None:
    """Answer messages for ever."""
    worker = Worker(pipe, PipeGate(pipe), devices)
    for message in pipe.receive():
        worker.take(message)


def _stack() -> list[str]:
    """Where the main thread is, innermost first: "function (file:line)"."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001  there is no other way
    found = [(each.name, each.filename, each.lineno) for each in reversed(traceback.extract_stack(frame))]
    return [f"{name} ({'/'.join(Path(file).parts[-3:])}:{line})" for name, file, line in found]


def _open(message: dict[str, Any], gate: PipeGate, opened: Open) -> Compute:
    devices = [Device(**fields) for fields in message["devices"]]
    cpus = sorted({cpu for device in devices for cpu in device.cpus})
    if cpus:
        os.sched_setaffinity(0, cpus)
    compute = opened(devices, gate)
    compute.torch.set_num_threads(max(1, int(message["threads"])))
    gate.compute = compute
    return compute


def _call(message: dict[str, Any], compute: Compute, gate: PipeGate, pipe: Pipe) -> None:
    compute.seconds, compute.precision = message["seconds"], message["precision"]
    compute.pairs = [(sender, receiver) for sender, receiver in message["pairs"]]
    ranks = message.get("ranks")
    gate.collective = ranks is not None
    if ranks:
        compute.join(**ranks)
    probe = _import(**message["probe"])
    try:
        for finding in _findings(compute.run(probe, message["conditions"]), message["metric"], compute.said):
            pipe.send("finding", **dataclasses.asdict(finding))
        pipe.send("done")
    finally:
        gc.collect()  # DDP lies in reference cycles, with its gradients
        if not compute.is_cpu:
            compute.backend.release()


def _findings(found: Any, metric: str, said: dict[str, Any]) -> Iterator[ProbeResult]:
    """What a probe may return or yield: a ProbeResult, several, or plain samples. Each as soon as it is there."""
    several = found if isinstance(found, (list, tuple, Iterator)) else [found]
    samples = []
    for each in several:
        if isinstance(each, (int, float)):
            samples.append(float(each))
        elif isinstance(each, ProbeResult):
            each.metric = each.metric or metric
            each.conditions = {**each.conditions, **said}
            yield each
        else:
            raise TypeError(f"a probe returns samples or what device.sample() returned, not {type(each).__name__}")
    if samples:
        yield ProbeResult(metric, "1", samples=samples, conditions=dict(said))


def _import(module: str, file: str, name: str, path: Sequence[str] = ()) -> Callable[..., Any]:
    """Return a probe by its module, or by the file that it stands in (a test file of the user's).

    What a user's file imports is looked for in the folders of `path`, in the one that holds its packages, and beside
    it, after the folders of this process: a random.py beside a test file replaces no library.
    """
    if not module.startswith("pytest_accel."):
        sys.path += [each for each in (*path, _home(file), str(Path(file).parent)) if each not in sys.path]
    try:
        found = importlib.import_module(module)
        if os.path.realpath(str(found.__file__)) == os.path.realpath(file):
            return getattr(found, name)  # type: ignore[no-any-return]
    except ImportError:
        pass
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[module]  # or the next measurement would take the function of a module that is not whole
        raise
    return getattr(loaded, name)  # type: ignore[no-any-return]


def _home(file: str) -> str:
    """Return the folder from which the packages around a file are imported; its own where there are none."""
    folder = Path(file).parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return str(folder)


def _software(compute: Compute) -> dict[str, Any]:
    torch = compute.torch
    found = {"python": sys.version.split()[0], "torch": torch.__version__}
    if compute.is_cpu:
        found["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        return found
    if compute.other:
        package = compute.backend.kind.package.partition(".")[0]
        return {**found, **({package: _version(package)} if package else {})}
    found.update(cuda=torch.version.cuda, hip=torch.version.hip, cudnn=torch.backends.cudnn.version())
    found.update({"cublas": cublas} if (cublas := blas.version()) else {})
    if torch.distributed.is_available() and torch.distributed.is_nccl_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def _version(package: str) -> str:
    """What the package states of itself, else what it was installed as."""
    return str(getattr(sys.modules[package], "__version__", "unknown"))


def _reason(error: Exception) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, (Unmeasurable, NotApplicable, WrongResult)):
        return first
    return f"{type(error).__name__}: {first}"


if __name__ == "__main__":
    serve(begin())
