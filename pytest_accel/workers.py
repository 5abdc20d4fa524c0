"""The child processes as pytest sees them: started, heard, waited for with a deadline, killed."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KILL_SECONDS = 5.0
"""How long a killed process may take to go before it is left behind (one in an uninterruptible call stays)."""

Message = dict[str, Any]


class Child:
    """One `python -m MODULE` of ours, spoken to by JSON lines. Its standard error is a log file."""

    def __init__(self, name: str, module: str, log: Path, env: dict[str, str]) -> None:
        self.name = name
        self.log = log
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(os.getpid())],
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
        self.heard = time.monotonic()

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
        chunks = []
        at_end = False
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
        messages = [json.loads(line) for line in lines if line.strip()]
        if messages:
            self.heard = time.monotonic()
        if at_end:
            messages.append({"event": "died", "reason": self.kill()})
        return messages

    def kill(self, why: str = "") -> str:
        """End the process and say how it ended. One that cannot be killed is left behind, and named."""
        if self.ended is None:
            if why or self._wait(1.0) is None:
                self._process.kill()
            code = self._wait(KILL_SECONDS)
            if code is None:
                self.ended = f"process {self.pid} cannot be killed and was left behind"
            else:
                self.ended = _how_it_ended(code)
            self._close()
        return f"{why}; {self.ended}" if why and "left behind" in self.ended else why or self.ended

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:
                pass
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL  # nobody waits for it again


def _environment(extra: dict[str, str]) -> dict[str, str]:
    """The environment of a child: ours, able to import this package from wherever it was imported."""
    home = str(Path(__file__).parent.parent)
    path = os.environ.get("PYTHONPATH", "")
    if not home.endswith("-packages"):
        path = os.pathsep.join(filter(None, [home, path]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **extra}


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def listen(children: Iterable[Child], timeout: float) -> Iterator[tuple[Child, Message]]:
    """Messages that arrive within `timeout` seconds; returns as soon as there was at least one."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            if child.ended is None:
                selector.register(child, selectors.EVENT_READ, child)
        if not selector.get_map():
            return
        for key, _ in selector.select(max(0.0, timeout)):
            child = key.data
            for message in child.take():
                yield child, message


@dataclass
class Call:
    """What one child made of a request: everything that it sent, and why it ended badly, if it did."""

    child: Child
    state: str = "running"
    blocks: list[Message] = field(default_factory=list)
    findings: list[Message] = field(default_factory=list)
    trouble: Message | None = None

    @property
    def over(self) -> bool:
        return self.state == "over"

    def hear(self, message: Message) -> None:
        event = message["event"]
        if event in ("ready", "settled"):
            self.state = event
        elif event == "block":
            self.blocks.append(message)
        elif event == "finding":
            self.findings.append(message)
        elif event in ("done", "opened"):
            self.findings += [message] if event == "opened" else []
            self.state = "over"
        elif event in ("error", "died", "hung"):
            self.trouble = message
            self.state = "over"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or a signal in the middle of a call, with what the children had sent by then."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self.calls = calls


def conduct(
    requests: Sequence[tuple[Child, Message]],
    *,
    patience: float,
    others: Sequence[Child] = (),
    hear: Callable[[Child, Message], None] = lambda child, message: None,
    tick: Callable[[], None] = lambda: None,
    all_or_none: bool = False,
) -> list[Call]:
    """Send each child its request and see all of them through, in step.

    When every child that still works is ready, all get their "go"; when every one has seen enough, all are
    released. A child that says nothing for `patience` seconds while it is its turn is killed. With
    `all_or_none` (the ranks of a collective) the others are killed as soon as one fails: they would wait for it
    for ever. `others` are heard meanwhile (the sensor); `tick` is called a few times a second.
    """
    calls = {id(child): Call(child) for child, _ in requests}
    for child, request in requests:
        child.heard = time.monotonic()
        child.send(**request)
    try:
        while any(not call.over for call in calls.values()):
            working = [call.child for call in calls.values() if not call.over]
            for child, message in listen([*working, *others], 0.2):
                if id(child) in calls:
                    calls[id(child)].hear(message)
                hear(child, message)
            _keep_in_step(list(calls.values()))
            _lose_patience(list(calls.values()), patience)
            if all_or_none:
                _end_together(list(calls.values()))
            tick()
    except KeyboardInterrupt:
        for call in calls.values():
            if not call.over:
                call.child.kill("interrupted")
                call.hear({"event": "died", "kind": "need", "reason": "the run was interrupted"})
        raise Interrupted(list(calls.values())) from None
    return list(calls.values())


def _keep_in_step(calls: list[Call]) -> None:
    live = [call for call in calls if not call.over]
    for state, answer in (("ready", "go"), ("settled", "release")):
        if live and all(call.state == state for call in live):
            for call in live:
                call.child.heard = time.monotonic()
                call.state = "running"
                call.child.send(answer)


def _lose_patience(calls: list[Call], patience: float) -> None:
    for call in calls:
        waiting = call.state in ("ready", "settled")
        if call.over or waiting or time.monotonic() - call.child.heard < patience:
            continue
        reason = call.child.kill(f"nothing was heard from its process for {patience:g} s")
        call.hear({"event": "hung", "kind": "device", "reason": reason})


def _end_together(calls: list[Call]) -> None:
    first = next((call for call in calls if call.trouble), None)
    if first is None:
        return
    for call in calls:
        if not call.over:
            call.child.kill(f"stopped, because {first.child.name} failed")
            reason = f"{first.child.name} failed first"
            call.hear({"event": "died", "kind": "stopped", "reason": reason})
