"""Child processes that exchange JSON messages with pytest, each with a deadline: start, listen, keep in step, kill."""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from pytest_accel.core import clock
from pytest_accel.core.measurement import TroubleKind
from pytest_accel.core.messages import CallTrouble, Message, reported_trouble
from pytest_accel.core.printable import printable_data
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.processes import deaths, environment

NO_LIMIT = Deadline()

KILL_SECONDS = 5.0
"""Seconds that a killed process may take to end. One in an uninterruptible system call may not, and is left."""

ANSWER_SECONDS = 2.0
"""Seconds that a silent process may take to answer where it is, and a failed rank's death to become known after
other ranks have noticed it."""

START = (
    "import sys; sys.path = [*filter(None, sys.path)]; "
    'import runpy; runpy.run_module(sys.argv.pop(1), None, "__main__", True)'
)
"""The program of `python`, whose first argument is the module to run. `python -m` would put the current folder first on
sys.path, so that a random.py or pynvml.py in it would be imported; `-P` needs Python 3.11. With `python -c` the current
folder is the empty entry, which is removed before anything but `sys` (built in) is imported."""

TICK = 0.2
"""Seconds that pytest waits for messages before it looks at the clock."""

STOOD_STILL = 1.0
"""Seconds by which pytest has to be late to have stood still itself: a container that was paused, a suspended job."""

LINE_BYTES = 64 << 20
"""Length of the longest message. The samples of a long soak take less than a megabyte."""
TEXT_CHARACTERS = 10_000
"""Length of the longest text in a message; a longer one is cut off."""

TUNING_SECONDS = 900.0
"""Seconds that torch may take to choose the kernel of one product by trying all of them (TunableOp), silently and at
once. hipBLASLt has 2,109 candidates on an MI250 (pytorch pull request 192402); each is called six times at least
(aten/src/ATen/cuda/tunable/TunableOp.h, FindFastest), which for a product of 11 ms takes 140 s, and several times as
long as most candidates are slower."""

PROGRESS_EVENTS = ("working", "ready", "block")
"""Messages that show the progress of a probe; `phases.seconds_by_phase` tells by their times how long a phase took."""

RESULT = {
    "metric", "unit", "value", "samples", "statistic", "seconds", "peak", "conditions", "details", "notes", "subject",
}  # fmt: skip
NEEDED: Mapping[str, set[str]] = {
    "at": {"frames"}, "block": {"seconds", "at"}, "step": {"what", "subjects"}, "tuning": {"begins"},
    "opened": {"software"}, "tried": {"fast_paths"}, "result": RESULT, "error": {"reason"},
    "reading": {"uuid", "at"}, "hearing": {"source", "deaf"}, "unread": {"uuid", "reason"},
}  # fmt: skip
"""The keys that a message has to have, by its event."""
ENDS = {"open": "opened", "try dtypes": "tried"}
"""The event that ends a request, where it is not "done". Another one ends none: a library may print what looks so."""


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module by this interpreter, and imports nothing from the current folder."""
    return [sys.executable, "-c", START, module, *arguments]


class Child:
    """A child process that runs `module` and exchanges messages as lines of JSON. Its standard error goes to `log`."""

    unkillable = False
    """True if the process could not be killed."""

    def __init__(self, name: str, module: str, log: Path, env: Mapping[str, str | None]) -> None:
        self.name = name
        self.log = log
        self._kills_before = deaths.out_of_memory_kills()
        with _log(log) as errors:
            self._process = subprocess.Popen(
                python(module, str(os.getpid()), repr(clock.epoch())),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment.of_child(env),
                start_new_session=True,  # Ctrl-C is for pytest, which then ends its children
            )
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""
        self.ending: str | None = None
        """A sentence about how the process ended; None while it runs."""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the file descriptor of the pipe from the child, for selectors."""
        assert self._process.stdout
        return self._process.stdout.fileno()

    def send(self, event: str, **fields: Any) -> None:
        """Send a message. A child that has died raises nothing here; `take` reports its death."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps({"event": event, **fields}).encode() + b"\n")
            self._process.stdin.flush()

    def take(self) -> list[Message]:
        """Return the messages that have arrived. Once the process has ended, the last is "died" with its `trouble`."""
        if self.ending is not None:
            return []
        at_end = self._has_ended()  # before reading, so that the last messages are not missed
        chunks: list[bytes] = []
        while sum(map(len, chunks)) < LINE_BYTES:
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
        if len(self._rest) > LINE_BYTES:
            reason = self.kill(f"it sent a line of more than {LINE_BYTES:,} bytes")
            return [*messages, {"event": "died", "trouble": CallTrouble("need", reason)}]
        if at_end:
            # a process that cannot be killed has no return code that could tell the cause
            trouble = CallTrouble("device", self.kill(), "crashed")
            if not self.unkillable:
                trouble = deaths.cause(self._process.returncode or 0, self._kills_before)
            messages.append({"event": "died", "trouble": trouble})
        return messages

    @property
    def is_stopped(self) -> bool:
        """True if somebody stopped the process (SIGSTOP), or a debugger holds it."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        # the name of the program stands before, in parentheses, and may hold any character (proc(5))
        return text.rpartition(")")[2].split()[0] in ("T", "t")

    def _message(self, line: bytes) -> Message | None:
        """Return a line as a message. Any other line, such as what a library of the child prints, goes to the log.

        An "error" has its `trouble`. That the process has died is for pytest to say.
        """
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        event = message.get("event") if isinstance(message, dict) else None
        if event and event != "died" and message.keys() >= NEEDED.get(str(event), set()):
            # what drivers and devices state of themselves enters here; JSON in ASCII has a backslash for what is not
            # printable
            if b"\\" in line or len(line) > TEXT_CHARACTERS:
                message = printable_data(message, TEXT_CHARACTERS)
            program = "the sensor" if self.name == "sensor" else f"the worker of {self.name}"
            return {"event": event, "trouble": reported_trouble(message, program)} if event == "error" else message
        with contextlib.suppress(OSError), _log(self.log) as log:
            log.write(line + b"\n")
        return None

    def kill(self, reason: str = "", seconds: float = KILL_SECONDS) -> str:
        """End the process and all that it started, and return how it ended, or the `reason` if one is given.

        Without one the process gets a second to end by itself. A process that has not ended `seconds` after it was
        killed is left behind, and the returned sentence says so.
        """
        if self.ending is None:
            end = time.monotonic() + (0.0 if reason else 1.0)
            while not self._has_ended() and time.monotonic() < end:
                time.sleep(0.01)
            self.end_now()  # also where it has ended: what it started may go on
            try:
                self.ending = deaths.sentence(self._process.wait(seconds))
            except subprocess.TimeoutExpired:
                self.unkillable = True
                self.ending = f"process {self.pid} cannot be killed and was left behind"
            self._close()
        return f"{reason}; {self.ending}" if reason and self.unkillable else reason or self.ending

    def end_now(self) -> None:
        """Send SIGKILL to the process and all that it started, without waiting for its end."""
        if self.ending is None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)  # it is not reaped yet, so no other process can have its number

    def _has_ended(self) -> bool:
        """Return True once the process has ended, even if another one still holds its pipe. It is not reaped."""
        try:
            # not reaped (WNOWAIT), so that no other process gets its number while its group is killed
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _close(self) -> None:
        """Close the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL  # so that Popen does not wait for it again


def _log(path: Path) -> IO[bytes]:
    """Open a log to append to; /dev/null if that fails, since a full disk must not stop the run.

    A link that somebody put in its place is not followed, and a pipe is not waited for.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return open(os.open(path, flags, 0o666), "ab", buffering=0)
    except OSError:
        return open(os.devnull, "ab", buffering=0)


def listen(children: Iterable[Child], timeout: float) -> Iterator[tuple[Child, Message]]:
    """Yield messages that arrive within `timeout` seconds, with their senders. It ends as soon as any have arrived."""
    running = [child for child in children if child.ending is None]
    if not running:
        return
    with selectors.DefaultSelector() as selector:
        for child in running:
            selector.register(child, selectors.EVENT_READ)
        selector.select(max(0.0, timeout))
    for child in running:
        for message in child.take():
            yield child, message


def lateness(start: float, wait: float) -> float:
    """Return by how many seconds pytest is late that was to wait for `wait` seconds from `start`; 0 if hardly.

    Nobody can be blamed for a silence in this time. `start` is in seconds of time.monotonic().
    """
    delay = time.monotonic() - start - wait
    return delay if delay > STOOD_STILL else 0.0


@dataclass
class WorkerCall:
    """A request to one child, and everything that the child has sent in reply."""

    child: Child
    request: Message
    state: str = "running"
    """Either "running", or "ready" or "settled" while the child waits for the others, or "over"."""
    blocks: list[Message] = field(default_factory=list)
    """Durations of the blocks that it has measured."""
    results: list[Message] = field(default_factory=list)
    """Results that it has sent."""
    trouble: CallTrouble | None = None
    """The reason why the request failed; None if it has not."""
    step: Message | None = None
    """The last step that the child announced before it tried it, and the devices that it concerns."""
    pace: list[tuple[float, str]] = field(default_factory=list)
    """(time, event) of its progress; see `phases.seconds_by_phase`."""
    heard: float = field(default_factory=time.monotonic)
    """Time of its last message, in seconds of time.monotonic()."""
    asked_at: float | None = None
    """Time at which it was asked for its stack, after a long silence; None if it was not."""
    frames: list[str] | None = None
    """The frames of its stack that it answered with, innermost first."""
    silent_between: tuple[float, float] | None = None
    """Times of the last message before it hung and of its end, in seconds of time.monotonic(); None if it did not."""
    starting: float = 1.0
    """Factor by which it may be silent for longer until it is ready to be timed."""
    most_ready: float = math.inf
    """Time at which most calls of its round were ready, in seconds of time.monotonic()."""
    tuning: bool = False
    """True while torch chooses a kernel by trying all of them. What goes wrong then says nothing about the device."""

    @property
    def over(self) -> bool:
        """True once the request is done or has failed."""
        return self.state == "over"

    def hear(self, message: Message) -> None:
        """Process one message of the child."""
        event = message["event"]
        if event == "at":
            self.frames = message["frames"]
            return
        self.heard, self.asked_at = time.monotonic(), None
        if event in PROGRESS_EVENTS:
            self.pace.append((self.heard, "warm" if message.get("warm") else event))
        if event in ("ready", "settled"):
            self.state = event
        elif event == "block":
            self.blocks.append(message)
        elif event == "step":
            self.step = message
        elif event == "tuning":
            self.tuning = message["begins"]
        elif event == "result":
            self.results.append(message)
        elif event == ENDS.get(self.request["event"], "done"):
            self.results += [message] if event != "done" else []
            self.state = "over"
        elif event in ("error", "died"):
            self.fail(message["trouble"])

    def fail(self, trouble: CallTrouble) -> None:
        """End the request with a trouble. One while torch was choosing a kernel is no fault of the device."""
        self.heard, self.asked_at = time.monotonic(), None
        if self.tuning and trouble.kind == "device":
            reason = f"torch chose no kernel for its products (TunableOp): {trouble.reason}; choose them before the run"
            trouble = trouble.acquitted("need", f"{reason} (PYTORCH_TUNABLEOP_FILENAME, PYTORCH_TUNABLEOP_TUNING=0)")
        self.trouble, self.state = trouble, "over"

    def patience(self, seconds: float) -> float:
        """Return the seconds that it may be silent now, if it may be so for `seconds` once it is ready.

        What makes a start slow (disks, drivers, the host) makes that of all slow: once most are ready, the last ones
        get `seconds` more.
        """
        if self.tuning:
            return max(seconds, TUNING_SECONDS)
        if self.ready_at is not None:
            return seconds
        return min(seconds * self.starting, max(0.0, self.most_ready - self.heard) + seconds)

    @property
    def ready_at(self) -> float | None:
        """The time at which it was ready to be timed, or done without that; None if it is not yet or has failed."""
        done_at = self.heard if self.over and not self.trouble else None
        return next((moment for moment, event in self.pace if event != "working"), done_at)

    @property
    def silence(self) -> float:
        """The seconds since its last message; 0 if it is not its turn."""
        return time.monotonic() - self.heard if self.state == "running" else 0.0

    def silent(self, seconds: float) -> bool:
        """Return True if it is the child's turn and it has been silent for longer than `patience` allows."""
        return self.state == "running" and self.silence >= self.patience(seconds)

    def excuse(self, seconds: float) -> None:
        """Let the child be silent for longer, since pytest stood still itself for so many seconds."""
        self.heard += seconds
        self.asked_at = None if self.asked_at is None else self.asked_at + seconds

    def ask(self) -> None:
        """Ask the child for its stack, unless it was asked already."""
        if self.asked_at is None:
            self.asked_at, self.frames = time.monotonic(), None
            self.child.send("where")

    @property
    def answered(self) -> bool:
        """True if the child has answered with its stack, or its time for that is over."""
        return self.asked_at is not None and (
            self.frames is not None or time.monotonic() - self.asked_at >= ANSWER_SECONDS
        )

    def end(self, kind: TroubleKind, reason: str, **fields: Any) -> None:
        """Kill the child in the middle of the request; `fields` are those of the trouble besides."""
        self.fail(CallTrouble(kind, self.child.kill(reason), **fields))


def conduct(
    calls: Sequence[WorkerCall],
    *,
    patience: float,
    sensors: Sequence[Child] = (),
    hear: Callable[[Child, Message], None] = lambda child, message: None,
    tick: Callable[[], None] = lambda: None,
    all_or_none: bool = False,
    in_turn: bool = False,
    deadline: Deadline = NO_LIMIT,
    on_delay: Callable[[float], None] = lambda seconds: None,
) -> None:
    """Send each child its request, and keep the children in step until all requests are over.

    When every child that still works is "ready", all get "go"; when every one has "settled" (its estimate is precise
    enough), all get "release". With `in_turn`, the first ready child gets "go", and the next one when that has settled
    or is done, so that no check of one falls into the time of another.

    A child that sends nothing for `patience` seconds while it is its turn is killed. Until it is ready it may be silent
    for `starting` times as many, but not longer than `patience` after most children are ready, and for `TUNING_SECONDS`
    while torch chooses a kernel. With `all_or_none` (the ranks of a collective) the others are killed as soon as one
    fails, since they would wait for it for ever.

    `hear` gets every message, also those of `sensors`; `tick` is called a few times per second. An
    exception that is raised meanwhile ends the children that are not done, and so does the `deadline` of the run; the
    calls keep what these have sent. `on_delay` is called with the seconds for which pytest stood still itself, in which
    case every child may be silent for longer.
    """
    by_child = {id(call.child): call for call in calls}
    try:
        for call in calls:
            call.heard = time.monotonic()
            call.child.send(**call.request)
        while any(not call.over for call in calls):
            start = time.monotonic()
            working = [call.child for call in calls if not call.over]
            for child, message in listen([*working, *sensors], TICK):
                if id(child) in by_child:
                    by_child[id(child)].hear(message)
                hear(child, message)
            tick()
            if delay := lateness(start, TICK):
                on_delay(delay)
                for call in calls:
                    call.excuse(delay)
            _keep_in_step(calls, in_turn)
            if deadline.over:
                _end_at(deadline, calls)
            if all_or_none:
                _lose_patience_together(calls, patience)
                _end_together(calls)
            else:
                _lose_patience(calls, patience)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reason = "the run was interrupted" if interrupted else f"stopped by: {error}"
        unfinished = [call for call in calls if not call.over]
        for call in unfinished:  # before any is killed, since a second signal may interrupt the killing
            call.fail(CallTrouble("need" if interrupted else "external", reason))
        for call in unfinished:
            call.child.kill(reason)
        raise


def _end_at(deadline: Deadline, calls: Sequence[WorkerCall]) -> None:
    """End the requests that are not over."""
    for call in calls:
        if not call.over:
            call.end("need", deadline.stopped_sentence)


def _keep_in_step(calls: Sequence[WorkerCall], in_turn: bool) -> None:
    """Send "go" and "release" to the children that wait for them, if it is time."""
    live = [call for call in calls if not call.over]
    ready = [call for call in live if call.state == "ready"]
    settled = [call for call in live if call.state == "settled"]
    if len(ready) == len(live) or (in_turn and len(ready) + len(settled) == len(live)):
        _answer(ready[:1] if in_turn else ready, "go")
    if len(settled) == len(live):
        _answer(settled, "release")


def _answer(calls: Sequence[WorkerCall], answer: str) -> None:
    """Let these children go on."""
    for call in calls:
        call.heard = time.monotonic()
        call.state = "running"
        call.child.send(answer)


def _lose_patience(calls: Sequence[WorkerCall], patience: float) -> None:
    """Kill each child that has been silent for `patience` seconds, after asking it where it is."""
    ready = sorted(call.ready_at for call in calls if call.ready_at is not None)
    for call in calls:
        # what makes a start slow, such as disks and drivers, makes that of all slow
        call.most_ready = ready[len(calls) // 2] if len(ready) > len(calls) / 2 else math.inf
        if call.silent(patience):
            call.ask()
            if call.answered:
                _end_silent(call, _silence(call, patience))


def _end_silent(call: WorkerCall, reason: str, **fields: Any) -> None:
    """Kill a child that was silent for too long. It is not the device's fault if somebody has stopped the process."""
    last_heard = call.heard
    if call.child.is_stopped:
        call.end("external", f"{reason}; it was stopped by a signal or a debugger", **fields)
    else:
        call.end("device", reason, event="hung", **fields)
    call.silent_between = last_heard, call.heard


def _silence(call: WorkerCall, patience: float) -> str:
    """Return a sentence about a silent child, with the innermost frame of its stack if it has sent it."""
    frame = f"it is in {call.frames[0]}" if call.frames else "it does not answer where it is"
    return f"its process sent nothing for {round(call.patience(patience), 1):g} s; {frame}"


def _lose_patience_together(calls: Sequence[WorkerCall], patience: float) -> None:
    """Kill the rank that hangs, after asking all ranks where they are.

    A rank that hangs silences all others. It is the one that does not answer, or that is not waiting in
    torch.distributed. If there is no such rank, all are killed. They `waited_in_torch` if each is in
    torch, in a collective or for its device, which a collective keeps busy until ranks on other nodes come.
    """
    live = [call for call in calls if not call.over]
    if not any(call.silent(patience) for call in live):
        return
    for call in live:
        call.ask()
    if not all(call.answered for call in live):
        return
    mute = [call for call in live if call.frames is None]
    suspects = mute or [call for call in live if not any("torch/distributed" in frame for frame in call.frames or ())]
    culprits = suspects if 0 < len(suspects) < len(live) else live
    waited = all(any("torch/" in frame for frame in call.frames or ()) for call in live)
    for call in culprits:
        reason = _silence(call, patience)
        if len(culprits) > 1:
            names = ", ".join(culprit.child.name for culprit in culprits)
            reason += f"; it is not known which of {names} hung"
        unknown = len(culprits) > 1 or (waited and len(calls) == 1)  # a lone rank waits for one on another node
        _end_silent(call, reason, culprit_unknown=unknown, waited_in_torch=waited)


def _end_together(calls: Sequence[WorkerCall]) -> None:
    """Kill the remaining ranks when one has failed. A rank whose error only follows from that is not blamed."""
    failures = sorted((call for call in calls if call.trouble), key=lambda call: call.heard)
    if not failures:
        return
    dead = [call for call in failures if call.child.ending is not None]
    # the death of a rank may become known after the errors of others, which follow from it
    if not dead and time.monotonic() - failures[0].heard < ANSWER_SECONDS:
        return
    first = (dead or failures)[0]
    reason = f"stopped because {first.child.name} failed"
    for call in calls:
        if not call.over:
            call.end("need", reason, secondary=True)
        elif dead and call.trouble and call.child.ending is None:
            trouble = call.trouble.acquitted("need", f"{reason}: {call.trouble.reason}")
            call.trouble = replace(trouble, secondary=True)
