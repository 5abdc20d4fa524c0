"""The child processes as pytest sees them: started, heard, waited for with a deadline, killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pytest_accel.core import clock
from pytest_accel.core.messages import Message

KILL_SECONDS = 5.0
"""How long a killed process may take to go before it is left behind (one in an uninterruptible call stays)."""

ANSWER_SECONDS = 2.0
"""How long a silent process may take to say where it is; and the ranks that notice a death, to hear of it."""

DISTURBING = (
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",  # its newer name (PyTorch, c10/core/AllocatorConfig.h)
    "PYTORCH_HIP_ALLOC_CONF",
    "CUDA_DISABLE_PERF_BOOST",  # since driver 580.105: the device keeps to lower clocks
)
"""Variables of the environment that would change what is measured; children do not inherit them."""

START = (
    "import sys; sys.path = [*filter(None, sys.path)]; "
    "import runpy; runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)
"""What a child runs, with the module as first argument. `python -m` would put the current folder first on sys.path,
and a random.py or pynvml.py that lies there would run in our processes; `-P` exists from Python 3.11 on. The folder
of `python -c` is the empty entry, which is taken out before anything but `sys` (built in) is imported."""

VMSTAT = Path("/proc/vmstat")
"""Where the kernel counts the processes that it killed for want of memory, those of containers among them."""

PACE = ("working", "ready", "block")
"""What a child says as it gets on, and where its time went."""


class Child:
    """One process of ours that runs `module`, spoken to by JSON lines. Its standard error is a log file."""

    def __init__(self, name: str, module: str, log: Path, env: Mapping[str, str | None]) -> None:
        self.name = name
        self.log = log
        self._starved_before = _starved()
        with _log(log) as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, module, str(os.getpid()), repr(clock.epoch())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(env),
                start_new_session=True,  # Ctrl-C is for pytest, which then ends its children
            )
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""
        self.ended: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        assert self._process.stdout
        return self._process.stdout.fileno()

    def send(self, event: str, **fields: Any) -> None:
        """Send a message; a dead child's deafness shows when it is heard next."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"event": event, **fields}).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def take(self) -> list[Message]:
        """The messages that have arrived. At the end of the pipe, one last message "died" with the reason."""
        if self.ended is not None:
            return []
        at_end = self._gone()  # asked before reading, so that its last words are not missed
        chunks = []
        while True:
            try:
                chunk = os.read(self.fileno(), 1 << 16)
            except BlockingIOError:
                break
            except OSError:
                chunk = b""
            if not chunk:
                at_end = True
                break
            chunks.append(chunk)
        *lines, self._rest = (self._rest + b"".join(chunks)).split(b"\n")
        messages = [message for line in lines if (message := self._message(line))]
        if at_end:
            messages.append(self._death())
        return messages

    def _death(self) -> Message:
        """How it ended by itself. A kill for want of memory says nothing of the device."""
        reason, starved = self.kill(), _starved() - self._starved_before
        if self._process.returncode != -signal.SIGKILL or starved <= 0:
            return {"event": "died", "reason": reason}
        why = f"{reason}; the kernel killed {starved} processes for want of memory meanwhile"
        return {"event": "died", "kind": "need", "reason": why}

    def _message(self, line: bytes) -> Message | None:
        """One line as a message. What is none (something printed before we took the pipe) goes to the log."""
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict) and "event" in found:
            return found
        with contextlib.suppress(OSError), _log(self.log) as log:
            log.write(line + b"\n")
        return None

    def kill(self, why: str = "") -> str:
        """End the process and all that it started, and say how it ended.

        One that cannot be killed is left behind, and named.
        """
        if self.ended is None:
            until = time.monotonic() + (0.0 if why else 1.0)
            while not self._gone() and time.monotonic() < until:
                time.sleep(0.01)
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
            try:
                self.ended = _how_it_ended(self._process.wait(KILL_SECONDS))
            except subprocess.TimeoutExpired:
                self.ended = f"process {self.pid} cannot be killed and was left behind"
            self._close()
        return f"{why}; {self.ended}" if why and self.left_behind else why or self.ended

    @property
    def left_behind(self) -> bool:
        """True for a process that could not be killed."""
        return "left behind" in (self.ended or "")

    def _gone(self) -> bool:
        """True once the process has ended, whoever else may hold its pipe. It is not reaped."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:
                pass
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL  # nobody waits for it again


def _log(path: Path) -> IO[bytes]:
    """The file to append to; where the disk is full, nothing is kept and nothing fails."""
    try:
        return open(path, "ab", buffering=0)
    except OSError:
        return open(os.devnull, "ab", buffering=0)


def _environment(extra: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of a child: ours, able to import this package from wherever it was imported, and `extra`.

    What is None there is not inherited. The user's PYTHONPATH is, without its empty entries: they mean the current
    folder.
    """
    home = str(Path(__file__).parents[3])
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(None, ["" if home.endswith("-packages") else home, *entries]))
    kept = {name: value for name, value in os.environ.items() if name not in (*DISTURBING, *extra)}
    given = {name: value for name, value in extra.items() if value is not None}
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **given}


def _starved() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not count them."""
    try:
        found = re.search(r"^oom_kill (\d+)$", VMSTAT.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) if found else 0


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def listen(children: Iterable[Child], timeout: float) -> Iterator[tuple[Child, Message]]:
    """Messages that arrive within `timeout` seconds; returns as soon as there was at least one."""
    there = [child for child in children if child.ended is None]
    if not there:
        return
    with selectors.DefaultSelector() as selector:
        for child in there:
            selector.register(child, selectors.EVENT_READ)
        selector.select(max(0.0, timeout))
    for child in there:
        for message in child.take():
            yield child, message


@dataclass
class WorkerCall:
    """What one child made of a request: everything that it sent, and why it ended badly, if it did."""

    child: Child
    request: Message
    state: str = "running"
    blocks: list[Message] = field(default_factory=list)
    findings: list[Message] = field(default_factory=list)
    trouble: Message | None = None
    step: Message | None = None
    """What the child announced that it tries next, and whom it concerns."""
    pace: list[tuple[float, str]] = field(default_factory=list)
    """When it was heard to be working, ready, or done with a block, and whether that was a warm one."""
    heard: float = field(default_factory=time.monotonic)
    asked: float | None = None
    """When it was asked where it is, having been silent for too long."""
    frames: list[str] | None = None
    """Its answer, innermost first."""

    @property
    def over(self) -> bool:
        return self.state == "over"

    def hear(self, message: Message) -> None:
        event = message["event"]
        if event == "at":
            self.frames = message["frames"]
            return
        self.heard, self.asked = time.monotonic(), None
        if event in PACE:
            self.pace.append((self.heard, "warm" if message.get("warm") else event))
        if event in ("ready", "settled"):
            self.state = event
        elif event == "block":
            self.blocks.append(message)
        elif event == "step":
            self.step = message
        elif event == "finding":
            self.findings.append(message)
        elif event in ("done", "opened"):
            self.findings += [message] if event == "opened" else []
            self.state = "over"
        elif event in ("error", "died", "hung"):
            self.trouble = message
            self.state = "over"

    def silent(self, seconds: float) -> bool:
        """True if it is this child's turn and nothing was heard from it for so long."""
        return self.state == "running" and time.monotonic() - self.heard >= seconds

    def ask(self) -> None:
        """Ask the process where it is."""
        if self.asked is None:
            self.asked, self.frames = time.monotonic(), None
            self.child.send("where")

    @property
    def answered(self) -> bool:
        """True if it said where it is, or had its time to."""
        return self.asked is not None and (self.frames is not None or time.monotonic() - self.asked >= ANSWER_SECONDS)

    def end(self, why: str, **message: Any) -> None:
        """Kill the process in the middle of the call."""
        self.hear({"reason": self.child.kill(why), **message})


def conduct(
    calls: Sequence[WorkerCall],
    *,
    patience: float,
    others: Sequence[Child] = (),
    hear: Callable[[Child, Message], None] = lambda child, message: None,
    tick: Callable[[], None] = lambda: None,
    all_or_none: bool = False,
    in_turn: bool = False,
) -> None:
    """Send each child its request and see all of them through, in step.

    When every child that still works is ready, all get their "go"; when every one has seen enough, all are
    released. `in_turn`, the first of them gets it, and the next one when that is done. A child that says nothing
    for `patience` seconds while it is its turn is killed. With `all_or_none` (the ranks of a collective) the others
    are killed as soon as one fails: they would wait for it for ever. `others` are heard meanwhile (the sensor);
    `tick` is called a few times a second. Whatever is raised meanwhile ends the children that are not done, and the
    calls hold what they had sent.
    """
    by_child = {id(call.child): call for call in calls}
    try:
        for call in calls:
            call.heard = time.monotonic()
            call.child.send(**call.request)
        while any(not call.over for call in calls):
            working = [call.child for call in calls if not call.over]
            for child, message in listen([*working, *others], 0.2):
                if id(child) in by_child:
                    by_child[id(child)].hear(message)
                hear(child, message)
            _keep_in_step(calls, in_turn)
            if all_or_none:
                _lose_patience_together(calls, patience)
                _end_together(calls)
            else:
                _lose_patience(calls, patience)
            tick()
    except BaseException as error:
        why = "the run was interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped by: {error}"
        unfinished = [call for call in calls if not call.over]
        for call in unfinished:  # said first: a second signal may come before all of them are gone
            call.hear({"event": "died", "kind": "need", "reason": why})
        for call in unfinished:
            call.child.kill(why)
        raise


def _keep_in_step(calls: Sequence[WorkerCall], in_turn: bool) -> None:
    live = [call for call in calls if not call.over]
    ready = [call for call in live if call.state == "ready"]
    settled = [call for call in live if call.state == "settled"]
    if len(ready) == len(live):
        _answer(ready[:1] if in_turn else ready, "go")
    if in_turn or len(settled) == len(live):
        _answer(settled, "release")


def _answer(calls: Sequence[WorkerCall], answer: str) -> None:
    for call in calls:
        call.heard = time.monotonic()
        call.state = "running"
        call.child.send(answer)


def _lose_patience(calls: Sequence[WorkerCall], patience: float) -> None:
    for call in calls:
        if call.silent(patience):
            call.ask()
            if call.answered:
                call.end(_silence(call, patience), event="hung", kind="device")


def _silence(call: WorkerCall, patience: float) -> str:
    where = f"it is in {call.frames[0]}" if call.frames else "it does not even say where it is"
    return f"nothing was heard from its process for {patience:g} s; {where}"


def _lose_patience_together(calls: Sequence[WorkerCall], patience: float) -> None:
    """A rank that hangs silences all: the one to blame is not waiting for the others, or does not answer."""
    live = [call for call in calls if not call.over]
    if not any(call.silent(patience) for call in live):
        return
    for call in live:
        call.ask()
    if not all(call.answered for call in live):
        return
    deaf = [call for call in live if call.frames is None]
    absent = deaf or [call for call in live if not any("torch/distributed" in frame for frame in call.frames or ())]
    blamed = absent if 0 < len(absent) < len(live) else live
    for call in blamed:
        reason = _silence(call, patience)
        if len(blamed) > 1:
            names = ", ".join(each.child.name for each in blamed)
            reason += f"; it cannot be told which of {names} hung"
        call.end(reason, event="hung", kind="device", shared=len(blamed) > 1)


def _end_together(calls: Sequence[WorkerCall]) -> None:
    """Stop the ranks that are left when one fails. Those that only noticed a death are not to blame for it."""
    troubled = sorted((call for call in calls if call.trouble), key=lambda call: call.heard)
    if not troubled:
        return
    lost = [call for call in troubled if call.trouble and call.trouble["event"] != "error"]
    if not lost and time.monotonic() - troubled[0].heard < ANSWER_SECONDS:
        return
    first = (lost or troubled)[0]
    for call in calls:
        noticed = lost and call.trouble and call.trouble["event"] == "error"
        if not call.over:
            call.end(f"stopped, because {first.child.name} failed", event="died", kind="stopped")
        elif noticed and call.trouble:
            reason = f"stopped, because {first.child.name} failed: {call.trouble['reason']}"
            call.trouble = {**call.trouble, "kind": "stopped", "reason": reason}
