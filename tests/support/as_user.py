"""Run pytest as a user does: as a process of its own, in a folder of theirs."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from support import raw_record, real_devices

BIN = Path(sys.executable).parent
CLOSING = re.compile(r"^(?:ACCEPTED|HELD|REJECTED|NOT JUDGED|BROKEN|INTERRUPTED|SIMULATED)\b.*$", re.MULTILINE)
UNMEASURED = {
    "--accel-simulate",
    "--cache-show",
    "--collect-only",
    "--fixtures",
    "--fixtures-per-test",
    "--help",
    "--markers",
    "--setup-only",
    "--setup-plan",
    "-VV",
}
"""Options of runs that lock no device of this machine."""
SECONDS = 240.0
"""How long one run may take on a slow machine."""
STUB_TORCH = {"PYTHONPATH": str(Path(__file__).parents[1] / "stub_torch")}
"""The environment of a run that has a stub in torch's place, which starts at once and computes nothing."""

HEAD = """
import os, pathlib, signal, time
import pytest
from pytest_accel import accel_limit, accel_min_gbps, accel_min_tflops, probes
from pytest_accel.probes.declare import probe

def tiny(device):
    a = device.torch.randn(64, 64)
    return device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=0.1)
"""
"""What the tests of a user begin with here."""

MEASURED = """
@accel_limit(unit="GB/s", floor=1e-6)
def test_{probe}(accel_check):
    accel_check({probe})
"""
"""A test whose limit every device holds."""


@dataclass
class Ran:
    """What a run left: exit status, output, record."""

    exit: int
    out: str
    folder: Path

    @property
    def closing(self) -> str:
        """The one closing line."""
        (line,) = CLOSING.findall(self.out)
        return str(line)

    @cached_property
    def record(self) -> Any:
        """The record, with the fields that its file leaves out because they have their default value."""
        return raw_record.read(self.folder)

    @property
    def names(self) -> dict[str, str]:
        """Subject to "cpu0", "gpu1" or "node"."""
        devices = [(each["uuid"], each["driver"] == "cpu", each["index"]) for each in self.record["devices"]]
        return {"node": "node", **{uuid: f"{'cpu' if cpu else 'gpu'}{index}" for uuid, cpu, index in devices}}

    def statuses(self, metric: str) -> dict[str, str]:
        """The name of each device to the status of its verdict on one metric."""
        found = [each for each in self.record["verdicts"] if each["metric"] == metric]
        return {self.names[each["subject"]]: each["status"] for each in found}

    def measurements(self, metric: str, name: str) -> list[Any]:
        """What was measured of one metric of one device, oldest first."""
        every = self.record["measurements"]
        return [each for each in every if each["metric"] == metric and self.names[each["subject"]] == name]


def write(folder: Path, *, measured: Sequence[str] = (), **files: str) -> None:
    """Write NAME.py for each; a test file gets the usual imports, and a test for each probe that is `measured`."""
    tests = "".join(MEASURED.format(probe=each) for each in measured)
    for name, text in files.items():
        head, tail = (HEAD, tests) if name.startswith("test_") else ("", "")
        (folder / f"{name}.py").write_text(head + textwrap.dedent(text) + tail, encoding="utf-8")


def environment(more: Mapping[str, str] | None = None, *, autoload: bool = True) -> dict[str, str]:
    """Ours, without what is meant for the pytest that runs these tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON", "COV"))}
    lean = {} if autoload else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return {**kept, **lean, "COLUMNS": "200", **(more or {})}


def command(
    *args: str,
    output: Path,
    sku: str | None = "cpu",
    paths: Sequence[str] = (".",),
    prefix: Sequence[str] = (),
    autoload: bool = False,
) -> list[str]:
    """The command line; `prefix` goes before pytest. Without `paths`, the packaged suite is run."""
    accel = [f"--accel-sku={sku}", "--accel-level=quick", f"--accel-output={output}"] if sku else []
    plugins = ["-p", "no:randomly"] if autoload else ["-p", "pytest_accel.plugin"]
    return [*prefix, str(BIN / "pytest"), *plugins, *accel, *args, *paths]


def fresh(folder: Path) -> Path:
    """An output folder that no run had."""
    return folder / f"out{len(list(folder.glob('out*')))}"


def pytest(
    folder: Path,
    *args: str,
    sku: str | None = "cpu",
    paths: Sequence[str] = (".",),
    output: Path | None = None,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    autoload: bool = False,
    refused: bool = False,
) -> Ran:
    """Run to the end. A run that is `refused` ends before it measures; with `autoload` all plugins come along.

    Skips the test where the run would simulate beside real accelerators.
    """
    place = output or fresh(folder)
    line = command(*args, output=place, sku=sku, paths=paths, prefix=prefix, autoload=autoload)
    if not refused and measures(line):
        check_serial()
    surroundings = environment(env, autoload=autoload)
    if not (autoload or prefix or _changes_the_interpreter(surroundings)):
        status, printed = _forked(line, folder, surroundings)
    else:
        done = subprocess.run(
            line,
            cwd=folder,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        status, printed = done.returncode, done.stdout + done.stderr
    if real_devices.refused(printed):
        raise unittest.SkipTest(real_devices.WHY)
    return Ran(status, printed, place)


def _changes_the_interpreter(env: Mapping[str, str]) -> bool:
    """True if Python, once started, could not begin with this environment any more."""
    own = any(name != "PYTHONPATH" and name.startswith(("PYTHON", "LD_")) for name in env)
    return own or any(Path(path, "sitecustomize.py").exists() for path in env.get("PYTHONPATH", "").split(os.pathsep))


@lru_cache(None)
def _server() -> subprocess.Popen[str]:
    """The process that forks for each run. It ends with this one, when its standard input does."""
    line = [sys.executable, str(Path(__file__).with_name("forked.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server: subprocess.Popen[str] = subprocess.Popen(line, env=environment(), start_new_session=True, **pipes)  # type: ignore[call-overload]
    atexit.register(server.communicate)
    return server


def _forked(line: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run pytest in a process that begins with all modules loaded; return its exit status and what it printed."""
    server = _server()
    assert server.stdin
    assert server.stdout
    with tempfile.TemporaryDirectory() as streams:
        out, err = Path(streams, "out"), Path(streams, "err")
        asked = {"line": list(line), "folder": str(folder), "env": dict(env), "out": str(out), "err": str(err)}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        ended = bool(select.select([server.stdout], [], [], SECONDS)[0]) and server.stdout.readline()
        if not ended:
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
        printed = "".join(each.read_text(encoding="utf-8") for each in (out, err) if each.exists())
        assert ended, f"the run did not end within {SECONDS:.0f} s, or took its parent with it:\n{printed}"
        return int(ended), printed


def measures(line: Sequence[str]) -> bool:
    """True for a command that locks the devices of this machine."""
    options = {each.partition("=")[0] for each in line}
    return "--accel-sku" in options and not options & UNMEASURED


def check_serial() -> None:
    """Fail in a process of pytest-xdist: two runs at a time would disturb each other, and the second is refused."""
    assert "PYTEST_XDIST_WORKER" not in os.environ, "this test measures this machine: mark it with pytest.mark.devices"


def hear_signals() -> None:
    """Undo what whoever runs these tests ignores (nohup, a background job)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Going:
    """A run that is under way."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
        self.process, self.folder, self._log = process, folder, log

    @property
    def out(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def until(self, happened: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Wait for something; the run must not end before."""
        end = time.monotonic() + seconds
        while not happened():
            assert self.process.poll() is None, self.out
            assert time.monotonic() < end, self.out
            time.sleep(0.05)

    def children(self) -> list[int]:
        """Process ids of what it started."""
        return [pid for pid, parent in processes().items() if parent == self.process.pid]

    def end(self, number: int | None = None) -> Ran:
        """Send it a signal, if one is given, and wait for its end."""
        if number is not None:
            self.process.send_signal(number)
        self.process.wait(SECONDS)
        return Ran(self.process.returncode, self.out, self.folder)


@contextlib.contextmanager
def going(
    folder: Path, *args: str, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None, **popen: Any
) -> Iterator[Going]:
    """A run that has the devices; killed at the end if it is still there."""
    check_serial()
    place = fresh(folder)
    log = folder / f"{place.name}.log"
    with open(log, "wb") as file:
        streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, "start_new_session": True}
        process = subprocess.Popen(
            command(*args, output=place, prefix=prefix),
            cwd=folder,
            env=environment(env, autoload=False),
            preexec_fn=hear_signals,  # noqa: PLW1509  this process has one thread
            **{**streams, **popen},
        )
    try:
        run = Going(process, place, log)
        run.until(lambda: _begun(place))
        yield run
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(SECONDS)


def _begun(place: Path) -> bool:
    """True when the run has its devices and is in its record."""
    try:
        return bool(json.loads((place / "record.json").read_text(encoding="utf-8"))["info"])
    except (OSError, ValueError):
        return False


def processes() -> dict[int, int]:
    """Every process to its parent; one that has ended and was not waited for is none."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(stat.parent.name)] = int(parent)
    return found


def left(pids: Iterable[int]) -> set[int]:
    """Those that are still there after five seconds."""
    until = time.monotonic() + 5
    while (found := set(pids) & set(processes())) and time.monotonic() < until:
        time.sleep(0.05)
    return found
