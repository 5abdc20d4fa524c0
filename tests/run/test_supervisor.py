"""The child processes by themselves: what they say, how they end, who is to blame."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.as_user import STUB_TORCH, left

from pytest_accel.core import clock
from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import CallTrouble, Message, Outcome
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts.results import per_device
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.probes import matmul
from pytest_accel.probes.declare import Declaration, declaration_for
from pytest_accel.probes.request import Request
from pytest_accel.run.deadline import CLOSING_SECONDS, Deadline
from pytest_accel.run.processes import deaths, supervisor
from pytest_accel.run.processes.programs import REAL
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.supervisor import Child, WorkerCall, conduct, listen
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.progress import Progress
from pytest_accel.run.setup import discovery_of

TABLES = data_files.tables("run/supervisor")

HEAD = """
import json, os, signal, subprocess, sys, time
sys.path.insert(0, os.getcwd())

def send(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)

def receive():
    return json.loads(sys.stdin.readline())

keys = "metric unit value samples statistic seconds peak conditions details notes subject".split()
result = dict.fromkeys(keys)

"""
PATIENCE = 60.0
Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a child that runs the given lines."""
    children: list[Child] = []

    def start(lines: str, name: str = "child") -> Child:
        module = f"{name}_of_{len(children)}"
        (tmp_path / f"{module}.py").write_text(HEAD + lines)
        child = Child(name, module, tmp_path / f"{module}.log", {"PYTHONPATH": str(tmp_path)})
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill("the test is over")


NONE = CallTrouble("bug", "there was no trouble")


def hear(child: Child, event: str) -> list[Message]:
    """Everything up to a message."""
    heard: list[Message] = []
    until = time.monotonic() + PATIENCE
    while not any(message["event"] == event for message in heard):
        assert time.monotonic() < until, heard
        heard += [message for _, message in listen([child], 1.0)]
    return heard


def called(start: Start, *steps: str) -> list[WorkerCall]:
    """Calls of children that run these lines, named as devices."""
    return [WorkerCall(start(lines, f"gpu{place}"), {"event": "call"}) for place, lines in enumerate(steps)]


def test_messages_come_in_order(start: Start) -> None:
    """However long a line is, and whatever else was printed: that goes to the log."""
    child = start(
        'print("a banner of the site")\nsend("long", values=[1] * 300000)\nprint("[1]")\nsend("last")\ninput()'
    )
    heard = hear(child, "last")

    assert [each["event"] for each in heard] == ["long", "last"]
    assert len(heard[0]["values"]) == 300000
    assert child.log.read_text() == "a banner of the site\n[1]\n"


@pytest.mark.parametrize(("end", "reason"), TABLES["deaths"])
def test_death_is_told_after_the_last_words(start: Start, end: str, reason: str) -> None:
    """Nothing that it said before is lost."""
    child = start(f'send("words")\n{end}')
    heard = hear(child, "died")

    assert [each["event"] for each in heard] == ["words", "died"]
    assert heard[1]["trouble"].reason == reason
    assert child.ending == reason
    assert not child.unkillable


@pytest.mark.parametrize("place", ["VMSTAT", "CGROUP"])
def test_a_kill_for_want_of_memory_is_no_fault_of_the_device(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """It is counted by the machine, or in a cgroup where the machine shows no count."""
    counted = tmp_path / "counted"
    counted.write_text("oom 1\noom_kill 4\n")
    monkeypatch.setattr(deaths, "VMSTAT", tmp_path / "nothing")
    monkeypatch.setattr(deaths, place, counted)
    child = start("input()\nos.kill(os.getpid(), signal.SIGKILL)")
    counted.write_text("oom 9\noom_kill 5\n")
    child.send("go")
    (died,) = hear(child, "died")
    assert died["trouble"].kind == "need"
    assert "killed 1 process meanwhile because memory ran out" in died["trouble"].reason


def test_a_page_that_cannot_be_had_is_no_fault_of_the_device(start: Start) -> None:
    """As of a file in a /dev/shm that is full: the kernel sends SIGBUS to the process itself."""
    child = start(
        "import mmap, tempfile\nfile = tempfile.TemporaryFile()\nfile.truncate(4096)\n"
        "pages = mmap.mmap(file.fileno(), 4096)\nfile.truncate(0)\npages[0] = 1"
    )
    (died,) = hear(child, "died")
    assert died["trouble"].kind == "external"
    assert died["trouble"].reason.startswith("its process was killed by SIGBUS, as where /dev/shm is full")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGXCPU, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_somebody_sent_is_no_fault_of_the_device(start: Start, number: signal.Signals) -> None:
    """A daemon that watches the memory, a limit of this user, an administrator."""
    heard = "signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # whoever runs these tests may ignore it, as nohup does
    child = start(f"{heard}\nsend('there')\ntime.sleep(1000)")
    hear(child, "there")
    os.kill(child.pid, number)
    (died,) = hear(child, "died")
    assert died["trouble"].kind == "external"
    assert (
        died["trouble"].reason
        == f"its process was killed by {number.name}, which comes from outside and not from the device"
    )


@pytest.mark.parametrize("kind", ["", ', kind="broken"', ", kind=None", ', kind=["device"]'])
def test_a_trouble_of_no_known_kind_rejects_no_device(start: Start, kind: str) -> None:
    """A program that forgets to say whose fault it is, or says what nobody knows, is itself at fault."""
    (call,) = called(start, f'receive()\nsend("error", reason="something is wrong", wrong=True{kind})\ninput()')
    conduct([call], patience=PATIENCE)
    request = Request(declaration_for(matmul), {}, "matmul.bf16")
    outcome = Outcome((Device("GPU-0", 0, "nvidia", "a GPU"),), trouble=call.trouble)
    verdict = judge(per_device(outcome, request, lambda metric: None), Limit("matmul.bf16", "TFLOPS", floor=1.0))
    assert verdict.status is Status.UNMEASURED
    assert re.search(
        "the worker of gpu0 reported a trouble of no known kind .*something is wrong", sentence_of(verdict)
    )


def test_a_problem_of_no_known_kind_rejects_no_driver() -> None:
    for kind in ({}, {"kind": "broken"}):
        answer = {"event": "devices", "problems": [{"driver": "nvidia", "reason": "it failed", "shown": [], **kind}]}
        trouble = discovery_of(answer, "nvidia").unreachable("nvidia")
        assert trouble
        assert trouble.kind == "need"
        assert "the sensor reported a trouble of no known kind" in trouble.reason


def test_a_process_that_somebody_stopped_is_no_fault_of_the_device(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.2)
    call = WorkerCall(start("receive()\nos.kill(os.getpid(), signal.SIGSTOP)"), {"event": "call"})
    conduct([call], patience=0.5)
    assert call.trouble
    assert (call.trouble.event, call.trouble.kind, bool(call.silent_between)) == ("", "external", True)
    assert "it was stopped by a signal or a debugger" in call.trouble.reason


@pytest.mark.nightly
def test_silence_while_pytest_itself_stood_still_is_nobodys_fault(start: Start) -> None:
    """All processes of a paused container stand still; they go on together, and no patience is lost."""
    call = WorkerCall(start("receive()\ntime.sleep(1000)"), {"event": "call"})
    stood: list[float] = []

    def tick() -> None:
        if not stood:
            time.sleep(3.0)  # as if the container were paused
        elif time.monotonic() - began > 6.0:
            call.hear({"event": "done"})  # without an excuse it is killed before

    began = time.monotonic()
    conduct([call], patience=2.0, tick=tick, on_delay=stood.append)
    assert not call.trouble
    assert 2.0 < stood[0] < 4.0


def test_the_time_limit_of_the_run_ends_what_is_measured(start: Start) -> None:
    found = 'receive()\nsend("result", **result)\nsend("done")\ninput()'
    calls = called(start, found, "receive()\ntime.sleep(1000)")
    conduct(calls, patience=PATIENCE, deadline=Deadline(CLOSING_SECONDS + 1.0))
    assert calls[0].results
    assert calls[0].trouble is None
    assert calls[1].trouble
    assert calls[1].trouble.kind == "need"
    assert calls[1].trouble.reason == "stopped at the time limit of 13 s for the run"


def test_death_is_noticed_while_a_grandchild_holds_the_pipe(start: Start) -> None:
    """And the grandchild goes too."""
    child = start('send("pid", pid=subprocess.Popen(["sleep", "1000"]).pid)\nsys.exit(1)')
    heard = hear(child, "died")

    assert heard[1]["trouble"].reason == "it ended with exit code 1"
    assert not left([heard[0]["pid"]])


def test_child_dies_with_its_pipe(start: Start) -> None:
    """A child of ours ends when nobody listens any more."""
    child = start(
        "import runpy\nsys.argv[1:] = [str(os.getppid())]\n"
        "runpy.run_module('pytest_accel.drivers.sensor', run_name='__main__')"
    )
    child.send("idle")
    hear(child, "idle")
    assert child._process.stdin
    child._process.stdin.close()

    assert hear(child, "died")[-1]["trouble"].reason == "it ended with exit code 0"


def test_log_on_a_full_disk(tmp_path: Path) -> None:
    """Nothing is kept, and nothing fails."""
    (tmp_path / "loud.py").write_text(HEAD + 'print("noise")\nsend("last")\ninput()')
    for log in (Path("/dev/full"), tmp_path / "no" / "such" / "folder"):
        child = Child("loud", "loud", log, {"PYTHONPATH": str(tmp_path)})
        assert hear(child, "last")
        child.kill("enough")


GARBAGE = (
    *('{"event":"result","x":1}', '{"event":"opened"}', '{"event":"opened","software":{}}', '{"event":"error"}'),
    *('{"event":"at"}', '{"event":"tuning"}', '{"event":"block"}', '{"event":["done"]}', '{"event":"died"}', "[1]"),
)


def test_lines_that_look_like_messages_are_none(start: Start) -> None:
    """A library that prints JSON of its own says nothing of the device."""
    (call,) = called(start, f"for line in {GARBAGE}:\n    print(line, flush=True)\n{STEPS.format(pause=0)}")
    conduct([call], patience=PATIENCE)

    assert (call.state, call.trouble, len(call.blocks), len(call.results)) == ("over", None, 1, 1)
    assert all(line in call.child.log.read_text() for line in GARBAGE if "done" not in line and "{}" not in line)


STEPS = """
assert receive()["event"] == "call"
time.sleep({pause})
send("ready")
assert receive()["event"] == "go"
send("block", seconds=1, at=time.time())
time.sleep(0.1)
send("settled")
assert receive()["event"] == "release"
send("result", **result, at=time.time())
send("done")
input()
"""


def test_in_step(start: Start) -> None:
    """All begin when the last is ready, and none ends before the last has seen enough; they do without a dead one."""
    steps = ["sys.exit(1)", STEPS.format(pause=0), STEPS.format(pause=1)]
    dead, *calls = called(start, *steps)
    conduct([dead, *calls], patience=PATIENCE)
    begun = [call.blocks[0]["at"] for call in calls]
    ended = [call.results[0]["at"] for call in calls]

    assert dead.trouble == CallTrouble("device", "it ended with exit code 1", "crashed", exited=True)
    assert [call.trouble for call in calls] == [None, None]
    assert abs(begun[0] - begun[1]) < 0.9
    assert min(ended) >= max(begun)


def test_in_turn(start: Start) -> None:
    """All are made ready at once; then one is measured after the other, and nobody is left out for one that dies.

    What they check, they check when the last was measured.
    """
    began = time.time()
    steps = [STEPS.format(pause=0), STEPS.format(pause=0.4), "sys.exit(1)", STEPS.format(pause=0)]
    calls = called(start, *steps)
    conduct(calls, patience=PATIENCE, in_turn=True)
    alive = [call for call in calls if not call.trouble]
    begun = [call.blocks[0]["at"] for call in alive]
    done = [call.results[0]["at"] for call in alive]

    assert len(alive) == 3
    assert begun[0] >= began + 0.4
    assert begun[1] - begun[0] >= 0.1, "it waits until the one before it has settled"
    assert begun[2] - begun[1] >= 0.1
    assert min(done) >= max(begun)


ANSWERS = """
receive()
while receive()["event"] != "where":
    pass
send("at", frames={frames})
input()
"""


def test_silent_child_is_asked_where_it_is(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is killed, and its answer is the reason; so is having none."""
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 1.0)
    calls = called(start, ANSWERS.format(frames=["synchronize (a.py:7)", "main (b.py:1)"]), "time.sleep(1000)")
    conduct(calls, patience=1.0)
    reasons = [call.trouble and call.trouble.reason for call in calls]

    assert reasons[0] == "its process sent nothing for 1 s; it is in synchronize (a.py:7)"
    assert reasons[1] == "its process sent nothing for 1 s; it does not answer where it is"
    assert all(call.trouble and call.trouble.event == "hung" for call in calls)
    silences = [until - since for since, until in filter(None, (call.silent_between for call in calls))]
    assert len(silences) == 2
    assert min(silences) >= 1.0
    assert not left(call.child.pid for call in calls)


WAITS = ANSWERS.format(frames=["all_reduce (torch/distributed/c10d.py:7)", "work (mine.py:1)"])
WORKS = ANSWERS.format(frames=["multiply (mine.py:3)"])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("ranks", "blamed"),
    [
        ((WAITS, WORKS, WAITS), [1]),
        ((WAITS, "time.sleep(1000)", WAITS), [1]),
        ((WAITS, WORKS, "time.sleep(1000)"), [2]),
        ((WAITS, WAITS, WAITS), [0, 1, 2]),
        ((WORKS, WORKS, WORKS), [0, 1, 2]),
    ],
    ids=["busy", "deaf", "deaf and busy", "all wait", "all work"],
)
def test_rank_that_hangs(start: Start, ranks: tuple[str, ...], blamed: list[int]) -> None:
    """Blamed is who does not wait for the others. If that tells nothing, it is said so, and counted for nobody."""
    calls = called(start, *ranks)
    conduct(calls, patience=1.0, all_or_none=True)
    troubles = [call.trouble or NONE for call in calls]

    assert [place for place, each in enumerate(troubles) if each.event == "hung"] == blamed
    if len(blamed) == 1:
        others = [each for place, each in enumerate(troubles) if place not in blamed]
        assert all(each.secondary and each.kind == "need" for each in others)
        assert all(each.reason == f"stopped because gpu{blamed[0]} failed" for each in others)
    else:
        assert all(each.culprit_unknown for each in troubles)
        assert all(each.reason.endswith("is not known which of gpu0, gpu1, gpu2 hung") for each in troubles)


def test_a_lone_rank_that_waits_for_another_node_is_not_to_blame(start: Start) -> None:
    """Or each node would leave its device out, once one node is dead."""
    calls = called(start, WAITS)
    conduct(calls, patience=1.0, all_or_none=True)
    trouble = calls[0].trouble or NONE
    assert (trouble.event, trouble.waited_in_torch, trouble.culprit_unknown) == ("hung", True, True)


def test_rank_that_notices_a_death_is_not_blamed(start: Start) -> None:
    """Though it is heard first."""
    notices = 'receive()\nsend("error", kind="bug", reason="connection closed by peer")\ninput()'
    dies = "receive()\ntime.sleep(0.5)\nos.kill(os.getpid(), signal.SIGSEGV)"
    calls = called(start, notices, dies, "receive()\ninput()")
    conduct(calls, patience=PATIENCE, all_or_none=True)
    troubles = [call.trouble or NONE for call in calls]

    assert troubles[1] == CallTrouble("device", "it was killed by SIGSEGV", "crashed")
    assert [trouble.secondary for trouble in troubles] == [True, False, True]
    assert troubles[0].reason == "stopped because gpu1 failed: connection closed by peer"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no time")], ids=lambda each: type(each).__name__)
def test_whatever_is_raised_ends_the_children(start: Start, error: BaseException) -> None:
    """What they had sent is kept, and they are not left in the middle of a call."""
    call = WorkerCall(start('receive()\nsend("block", seconds=1, at=1)\ninput()'), {"event": "call"})

    def tick() -> None:
        if call.blocks:
            raise error

    with pytest.raises(type(error)):
        conduct([call], patience=PATIENCE, tick=tick)

    assert len(call.blocks) == 1
    assert call.trouble
    assert call.trouble.kind == ("need" if isinstance(error, KeyboardInterrupt) else "external")
    assert not left([call.child.pid])


@pytest.mark.nightly
def test_a_probe_may_take_longer_until_it_is_ready(start: Start) -> None:
    """Libraries and kernels are loaded, ranks connected. Once it is ready, its silence counts as any other."""
    slow = 'receive()\ntime.sleep(2.5)\nsend("ready")\nreceive()\n'
    hung, *others = (
        WorkerCall(start(lines, name), {"event": "call"}, starting=6.0)
        for name, lines in {
            "b": f"{slow}time.sleep(1000)",
            "a": f'{slow}send("done")\nreceive()',
            "c": "receive()\ntime.sleep(1000)",
        }.items()
    )
    conduct([hung, others[0]], patience=1.0)
    assert not others[0].trouble
    assert (hung.trouble or NONE).reason.startswith("its process sent nothing for 1 s")

    conduct(others[1:], patience=1.0)
    assert (others[1].trouble or NONE).event == "hung"
    assert (others[1].trouble or NONE).reason.startswith("its process sent nothing for 6 s")


@pytest.mark.nightly
def test_the_last_one_is_not_waited_for_as_long_as_a_slow_machine_would_need(start: Start) -> None:
    """Where most others were ready, neither disks nor drivers keep it: a quick run has no three minutes for it."""
    does = ['send("ready")\nreceive()\nsend("done")\ninput()', 'send("done")\ninput()', "time.sleep(1000)"]
    calls = [WorkerCall(start(f"receive()\n{lines}"), {"event": "call"}, starting=60.0) for lines in does]
    conduct(calls, patience=1.0)
    assert [bool(call.trouble) for call in calls] == [False, False, True]
    silent = re.match(r"its process sent nothing for ([\d.]+) s", (calls[2].trouble or NONE).reason)
    assert silent
    assert 1 <= float(silent[1]) < 30


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("lines", "kind", "reason"), TABLES["tuning"], ids=["slow", "hangs later", "never ends", "crashes", "fails", "bug"]
)
def test_torch_that_tunes_may_be_silent_and_is_no_fault_of_the_device(
    start: Start, monkeypatch: pytest.MonkeyPatch, lines: str, kind: str | None, reason: str
) -> None:
    """Some kernels that it tries are faulty, and it says nothing for minutes."""
    monkeypatch.setattr(supervisor, "TUNING_SECONDS", 4.0)
    (call,) = called(start, lines)
    conduct([call], patience=1.0)
    assert (call.trouble and call.trouble.kind) == kind
    assert re.match(reason, call.trouble.reason if call.trouble else "")


# -- the pool of workers, and the sensor beside them

PROBES = """
import os, signal

def dies(device):
    os.kill(os.getpid(), signal.SIGSEGV)

def errs(device):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

def adds(device):
    return device.sample(lambda: 1 + 1, amount=1.0, unit="1", seconds=0.2)
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    """A pool that writes to a folder of the test's."""
    pool = WorkerPool(SensorClient(PATIENCE))
    pool.begin(REAL, tmp_path)
    (tmp_path / "probes_of_test.py").write_text(PROBES)
    yield pool
    pool.stop()


@pytest.fixture
def devices(pool: WorkerPool) -> list[Device]:
    """The processors of this machine, as two devices."""
    return [Device(**fields) for fields in pool.sensor.discover("cpu")["devices"]]


@pytest.fixture
def stub_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that start at once, for what needs no collectives."""
    for name, text in STUB_TORCH.items():
        monkeypatch.setenv(name, text)


def ask(pool: WorkerPool, name: str, runs: str, devices: list[Device]) -> dict[str, Outcome]:
    """Outcomes by the names of the devices."""
    assert pool.logs
    spec = importlib.util.spec_from_file_location("probes_of_test", pool.logs / "probes_of_test.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    declared = Declaration(f"{name}.{runs}", runs=runs, function=getattr(module, name))
    request = Request(declared, {}, declared.metric, seconds=0.2)
    outcomes: list[Outcome] = []
    pool.measure(request, devices, outcomes.append)
    return {"+".join(device.name for device in each.group): each for each in outcomes}


def test_the_progress_names_the_device_that_is_silent_and_when_it_is_given_up(start: Start) -> None:
    """Not "39 of about 3 s", which says that nothing is wrong."""
    shown: list[tuple[Any, ...]] = []

    class Shown(Progress):
        def step(self, what: str) -> None:
            shown.append((what,))

        def timed(self, *figures: Any) -> None:
            shown.append(figures)

    pool = WorkerPool(SensorClient(PATIENCE), Shown())
    quick, hangs = (WorkerCall(start("time.sleep(1000)", name), {"event": "call"}) for name in ("gpu1", "gpu6"))
    pool._tell([quick, hangs], "matmul.fp32", 5.0, 3.0)
    hangs.heard -= 39
    quick.state, quick.heard = "settled", quick.heard - 40  # it waits for the other, and its silence is no trouble
    pool._tell([quick, hangs], "matmul.fp32", 44.0, 3.0)
    assert shown == [("matmul.fp32", 5.0, 3.0), ("matmul.fp32: gpu6 silent for 39 s, given up at 60 s",)]


@pytest.mark.usefixtures("stub_torch")
def test_every_process_has_the_time_of_the_run(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which began when the wall clock showed something else: somebody may set it meanwhile."""
    monkeypatch.setattr(clock, "_epoch", clock.epoch() - 3600)
    devices = [Device(**fields) for fields in pool.sensor.discover("cpu")["devices"]]
    began = clock.now()
    found = ask(pool, "adds", "together", devices)
    ended = clock.now()
    blocks = [block["at"] for outcome in found.values() for block in outcome.blocks]

    assert blocks
    assert all(began <= at <= ended for at in blocks)
    assert pool.sensor.telemetry.window(devices[0].uuid, began, ended)
    assert ended < time.time() - 3000


@pytest.mark.usefixtures("stub_torch")
def test_peers_that_die_cost_no_device(pool: WorkerPool, devices: list[Device]) -> None:
    """The process that sees all devices may be lost twice; each device still has its own chances."""
    both = "+".join(device.name for device in devices)
    troubles = [ask(pool, "dies", "peers", devices)[both].trouble or NONE for _ in range(3)]
    reasons = [each.reason for each in troubles]
    after = ask(pool, "adds", "together", devices)

    assert reasons[:2] == ["it was killed by SIGSEGV"] * 2
    assert reasons[2] == "the worker process of peers ended in dies.peers and in dies.peers"
    assert [each.untried for each in troubles] == [False, False, True]
    assert [each.trouble for each in after.values()] == [None] * len(devices)
    assert all(each.results for each in after.values())


@pytest.mark.usefixtures("stub_torch")
def test_an_error_that_may_be_the_softwares_is_not_laid_to_the_only_device(
    pool: WorkerPool, devices: list[Device]
) -> None:
    """Nothing shows that the software works. A crash is laid to it, and the device is measured on all the same."""
    first = devices[0]
    errs = [ask(pool, "errs", "together", [first])[first.name].trouble or NONE for _ in range(3)]
    died = ask(pool, "dies", "together", [first])[first.name].trouble or NONE
    after = ask(pool, "adds", "together", [first])[first.name]

    assert [each.kind for each in errs] == ["external"] * 3
    assert errs[2].reason.endswith("; no other device got through it, so the software may be at fault")
    assert died.event == "crashed"
    assert after.trouble is None


@pytest.mark.usefixtures("stub_torch")
def test_peers_without_a_lost_device(pool: WorkerPool, devices: list[Device]) -> None:
    """Copies go on between those that are left; the lost one fails by itself."""
    first, *others = devices
    for _ in range(2):
        ask(pool, "dies", "together", [first])
    found = ask(pool, "adds", "peers", [first, *others])
    rest = found["+".join(device.name for device in others)]

    assert (found[first.name].trouble or NONE).kind == "device"
    assert "ended in dies.together and in dies.together" in (found[first.name].trouble or NONE).reason
    assert rest.trouble is None
    assert rest.results


@pytest.mark.nightly
def test_ranks_whose_group_has_lost_one_begin_anew(pool: WorkerPool, devices: list[Device]) -> None:
    """Who leaves such a group may wait for the lost one for ever: nobody has to, and no healthy device hangs."""
    ask(pool, "adds", "ranks", devices)
    first = {child.pid for child in pool._workers.values()}
    ask(pool, "adds", "peers", devices)
    ask(pool, "adds", "ranks", devices)
    whole = {child.pid for group, child in pool._workers.items() if len(group) == 1}
    assert whole == first, "a group that is whole stays"
    ask(pool, "dies", "together", devices[:1])
    found = ask(pool, "adds", "ranks", devices)
    assert [each.trouble for each in found.values()] == [None] * len(devices)
    assert not first & {child.pid for child in pool._workers.values()}


@pytest.mark.usefixtures("stub_torch")
def test_sensor_that_dies_is_started_once_more(pool: WorkerPool, devices: list[Device]) -> None:
    """Then no more: what it would have said is missing, and the notes say why."""
    for _ in range(2):
        assert pool.sensor.child
        os.kill(pool.sensor.child.pid, signal.SIGKILL)
        while not pool.sensor.child._has_ended():
            time.sleep(0.01)
        ask(pool, "adds", "together", devices[:1])

    assert pool.sensor.child
    assert pool.sensor.child.ending == "it was killed by SIGKILL"
    why = "its process was killed by SIGKILL, which comes from outside and not from the device"
    assert pool.sensor.notes == [f"the sensor failed: {why}"]
    assert pool.sensor.not_idle() is None
    assert "it is not known whether the devices were idle before the run" in pool.sensor.notes


@pytest.mark.nightly
def test_nothing_is_left(pool: WorkerPool, devices: list[Device]) -> None:
    """After `stop` neither a process nor a meeting place of ranks remains."""
    ask(pool, "adds", "together", devices)
    ask(pool, "adds", "ranks", devices)
    pids = [child.pid for child in pool._children] + list(pool.sensor.pids)
    meeting = pool._meeting
    pool.stop()

    assert len(pids) == len(devices) + 1
    assert not left(pids)
    assert meeting
    assert not meeting.path.exists()


def test_what_a_driver_states_arrives_on_one_line(start: Start) -> None:
    """A device with this name cleared the screen and wrote a closing line of its own."""
    child = start(r"""send("devices", model="X\x1b[2J\nSIMULATED ACCEPTED 8/8 devices", long="x" * 50_000)""")
    found = next(message for message in hear(child, "devices") if message["event"] == "devices")
    assert found["model"] == r"X\x1b[2J\nSIMULATED ACCEPTED 8/8 devices"
    assert found["long"].endswith("x... (50,000 characters)")


def test_a_child_that_sends_a_line_without_end_is_stopped(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fill the memory of the pytest process."""
    monkeypatch.setattr(supervisor, "LINE_BYTES", 1 << 20)
    child = start("while True: sys.stdout.write('x' * 65536)")
    died = next(message for message in hear(child, "died") if message["event"] == "died")
    assert "it sent a line of more than 1,048,576 bytes" in died["trouble"].reason
