"""The worker process: holds one device (or all of them, for copies between peers) and runs probes on it.

`run/processes/supervisor.py` starts it with PARENT_PID and EPOCH.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.measurement import Device
from pytest_accel.core.pipe import Pipe, begin
from pytest_accel.core.words import did_you_mean
from pytest_accel.drivers import registry
from pytest_accel.probes.declare import declaration_for
from pytest_accel.probes.device import blas, collective_library, error_class, fast_paths
from pytest_accel.probes.device.error_class import NotApplicable, Unmeasurable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

_TORCH = "torch/distributed"
"""Part of the paths of the modules through which all collectives are called."""


class PipeGate:
    """The `Gate` of a worker process, which keeps in step with the other workers by messages to and from pytest."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._go = threading.Event()
        self._release = threading.Event()
        self.compute: Compute | None = None
        self.collective = self.in_turn = False
        pipe.intercept(self._hear)

    def _hear(self, message: dict[str, Any]) -> bool:
        """Handle a message that must not wait for the running probe; return whether it was one."""
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
        """Tell pytest that the device works from here on."""
        self._pipe.send("working")

    def ready(self) -> None:
        """Tell pytest that this device is ready, and block until every device is."""
        self._go.clear()
        self._release.clear()
        self._pipe.send("ready")
        self._go.wait()

    def report_block(self, seconds: float, warm: bool) -> None:
        """Report the duration of one block in seconds, and whether it belongs to the warm-up."""
        self._pipe.send("block", seconds=seconds, warm=warm, at=self.compute.wall() if self.compute else clock.now())

    def step(self, label: str, subjects: tuple[str, ...]) -> None:
        """Announce the next step and the UUIDs of the devices that take part."""
        self._pipe.send("step", what=label, subjects=list(subjects))

    def tuning(self, begins: bool) -> None:
        """Tell pytest that torch begins, or has ended, to choose a kernel by trying all of them."""
        self._pipe.send("tuning", begins=begins)

    def settled(self) -> None:
        """Tell pytest that this device has enough samples. In turn, rest until the others have, and check then."""
        self._pipe.send("settled")
        if self.in_turn:
            self._release.wait()

    def released(self) -> bool:
        """Return True once every device has enough samples."""
        return self._release.is_set()

    def agree(self, value: float) -> float:
        """Return the largest `value` over all ranks in a collective probe, else `value` itself."""
        return self.compute.agree(value) if self.collective and self.compute else value


Open = Callable[[list[Device], PipeGate, Sequence[str]], Compute]
"""Opens devices for probes to run on; the texts are the UUIDs of all devices that this process sees, in order."""


class Worker:
    """Handles the messages from pytest."""

    def __init__(self, pipe: Pipe, gate: PipeGate, devices: Open = Compute) -> None:
        self._pipe, self._gate, self._devices = pipe, gate, devices
        self.compute: Compute | None = None

    def take(self, message: dict[str, Any]) -> None:
        """Handle one message. An exception is sent to pytest instead of being raised, also that of sys.exit()."""
        try:
            self._take(message)
        except BaseException as raised:  # noqa: BLE001  a probe may raise anything, and pytest has to know
            error = _readable(raised)
            words = error_texts(message, self.compute)
            context_lost = self.compute is not None and error_class.context_is_lost(error, words)
            kind = error_class.trouble_kind_of(
                error, other=self.compute is not None and self.compute.other, words=words
            )
            flags = {
                "lost": context_lost,
                "uncorrectable": error_class.UNCORRECTABLE in str(error),
                "wrong": isinstance(error, WrongResult),
                "of_programs": error_class.of_programs(error),
                "collective": any(_TORCH in frame.filename for frame in traceback.extract_tb(error.__traceback__)),
            }
            reason = _reason(error) + (_location(error, message) if kind == "bug" else "")
            self._pipe.send("error", kind=kind, reason=reason, traceback=traceback.format_exc(), **flags)

    def _take(self, message: dict[str, Any]) -> None:
        """Load torch, open the devices, or run a probe."""
        if message["event"] == "load":
            importlib.import_module("torch")
            self._pipe.send("done")
        elif message["event"] == "open":
            self.compute = _open(message, self._gate, self._devices)
            self._pipe.send("opened", software=_software(self.compute))
        elif message["event"] == "try dtypes" and self.compute is not None:
            self._pipe.send("tried", fast_paths=fast_paths.try_all(self.compute))
        elif self.compute is not None:
            _call(message, self.compute, self._gate, self._pipe)


def error_texts(message: Mapping[str, Any], compute: Compute | None) -> Sequence[str]:
    """Return the texts of errors that the vendor attributes to its devices, also while the first one is opened."""
    if compute:
        return compute.device_errors
    devices = message.get("devices") or [{}]
    torch = registry.vendor(devices[0]["driver"]).torch if "driver" in devices[0] else None
    return torch.device_errors if torch else ()


def serve(pipe: Pipe, devices: Open = Compute) -> None:
    """Handle messages until the process ends."""
    worker = Worker(pipe, PipeGate(pipe), devices)
    for message in pipe.receive():
        worker.take(message)


def _stack() -> list[str]:
    """Return the stack of the main thread, innermost call first, each as "function (file:line)"."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001  there is no other way
    frames = [(call.name, call.filename, call.lineno) for call in reversed(traceback.extract_stack(frame))]
    return [f"{name} ({'/'.join(Path(file).parts[-3:])}:{line})" for name, file, line in frames]


def _open(message: dict[str, Any], gate: PipeGate, opener: Open) -> Compute:
    """Bind the process to the CPUs near the devices, and open them."""
    devices = [Device(**fields) for fields in message["devices"]]
    cpus = sorted({cpu for device in devices for cpu in device.cpus})
    if cpus:
        os.sched_setaffinity(0, cpus)
    compute = opener(devices, gate, message.get("visible", ()))
    compute.torch.set_num_threads(max(1, int(message["threads"])))
    gate.compute, compute.shared = compute, Path(message["shared"])
    if compute.tunes and "PYTORCH_TUNABLEOP_FILENAME" not in os.environ:  # torch reads it, and adds to it
        compute.torch.cuda.tunable.set_filename(message["tuned"])
    gc.collect()  # what an attempt to open that failed has left: what is frozen keeps its memory for ever
    gc.freeze()  # each probe collects garbage twice, and all that torch has imported is no garbage
    return compute


def _call(message: dict[str, Any], compute: Compute, gate: PipeGate, pipe: Pipe) -> None:
    """Run a probe and send each of its results."""
    compute.seconds, compute.precision = message["seconds"], message["precision"]
    compute.fast_paths = message["fast_paths"]
    compute.pairs = [(sender, receiver) for sender, receiver in message["pairs"]]
    ranks = message.get("ranks")
    gate.collective, gate.in_turn = ranks is not None, message["in_turn"]
    if ranks:
        compute.join(**ranks)
    probe = _import(**message["probe"])
    declaration, settings = declaration_for(probe), collective_library.excusing(compute.collectives) if ranks else []
    compute.sustained = declaration.sustained
    try:
        for result in _results(compute.run(probe, message["conditions"]), message["metric"], compute.extra_conditions):
            # a user's probe excuses nothing
            result.notes = [*(result.notes if declaration.packaged else ()), *settings]
            pipe.send("result", **dataclasses.asdict(result))
        pipe.send("done")
    finally:
        gc.collect()  # DistributedDataParallel and its gradients are part of reference cycles
        if not compute.is_cpu:
            compute.backend.release()


def _results(returned: Any, metric: str, common: dict[str, Any]) -> Iterator[ProbeResult]:
    """Yield the results of a probe, each as soon as the probe yields it.

    A probe may return or yield a ProbeResult, several of them, or plain samples. `common` is added to the conditions of
    each.
    """
    results = returned if isinstance(returned, (list, tuple, Iterator)) else [returned]
    samples = []
    for result in results:
        if isinstance(result, (int, float)):
            samples.append(float(result))
        elif isinstance(result, ProbeResult):
            result.metric = result.metric or metric
            result.conditions = {**result.conditions, **common}
            yield result
        else:
            raise TypeError(f"a probe returns samples or the result of device.sample(), not {type(result).__name__}")
    if samples:
        yield ProbeResult(metric, "1", samples=samples, conditions=dict(common))


def _import(module: str, file: str, name: str, path: Sequence[str] = ()) -> Callable[..., Any]:
    """Return a probe by its module, or by the file that defines it (a test file of the user's).

    The imports of a user's file are looked up in the folders of this process first, then in those of `path`, in the
    folder that holds its packages, and beside it.
    """
    if not module.startswith("pytest_accel."):
        # at the end, so that a random.py beside a test file does not replace a library
        sys.path += [folder for folder in (*path, _home(file), str(Path(file).parent)) if folder not in sys.path]
    try:
        imported = importlib.import_module(module)
        if os.path.realpath(str(imported.__file__)) == os.path.realpath(file):
            return getattr(imported, name)  # type: ignore[no-any-return]
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
        del sys.modules[module]  # otherwise the next measurement would use a module that was imported in part
        raise
    return getattr(loaded, name)  # type: ignore[no-any-return]


def _home(file: str) -> str:
    """Return the folder from which the packages around a file are imported; its own folder if there are none."""
    folder = Path(file).parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return str(folder)


def _software(compute: Compute) -> dict[str, Any]:
    """Return the versions of the software that drives the device, by name."""
    torch = compute.torch
    versions = {"python": sys.version.split()[0], "torch": torch.__version__}
    if compute.is_cpu:
        versions["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        return versions
    if compute.other:
        package = compute.backend.kind.package.partition(".")[0]
        package_version = getattr(sys.modules.get(package), "__version__", "unknown")
        return {**versions, **({package: str(package_version)} if package else {})}
    versions.update(cuda=torch.version.cuda, hip=torch.version.hip, cudnn=torch.backends.cudnn.version())
    versions.update({"cublas": cublas} if (cublas := blas.version()) else {})
    if torch.distributed.is_available() and torch.distributed.is_nccl_available():
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return versions


def _readable(error: BaseException) -> BaseException:
    """Return an error, or one in place of an error of the user's whose text cannot be read."""
    try:
        str(error)
    except Exception:  # noqa: BLE001
        return RuntimeError(f"an error of type {type(error).__name__}, whose __str__ fails")
    return error


def _reason(error: BaseException) -> str:
    """Return the line of an error that tells most, with its type unless the error is one of our own."""
    text = error_class.main_line(error)
    if isinstance(error, (Unmeasurable, NotApplicable, WrongResult)):
        return text
    if isinstance(error, AttributeError) and type(error.obj).__module__.startswith("pytest_accel."):
        text += did_you_mean(str(error.name), (name for name in dir(error.obj) if name[0] != "_"))
    return f"{type(error).__name__}: {text}"


def _location(error: BaseException, message: Mapping[str, Any]) -> str:
    """Return the line of the probe's file where an error passed: " (test_relu.py:5)"; empty if it passed none."""
    file = message.get("probe", {}).get("file")
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f" ({Path(file).name}:{lines[-1]})" if lines else ""


if __name__ == "__main__":
    serve(begin())
