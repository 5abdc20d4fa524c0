"""What breaks while a node is measured: the run goes on, says so, and keeps what it has."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support import as_user, data_files
from support.as_user import STUB_TORCH, Ran, going, left, processes, write

from pytest_accel.drivers.host.host_environment import host_environment

TABLES = data_files.tables("run/process_faults")

pytestmark = pytest.mark.devices

ROOT = os.geteuid() == 0


def mount(*args: str) -> None:
    """Mount, or skip the test where this user or kernel cannot."""
    done = subprocess.run(["mount", *args], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


# -- a worker that dies, hangs, cannot be killed

DIES = """
def dies(device, *, turn):
    a = device.torch.randn(64, 64)
    began = time.monotonic()
    def work():
        if device.devices[0].name == "cpu1" and time.monotonic() - began > 0.6:
            with open("turns", "a") as file:
                file.write(f"{turn} ")
            os.kill(os.getpid(), signal.SIGSEGV)
        return a @ a
    return device.sample(work, amount=1e-3, unit="GB/s", seconds=1.0)

@pytest.mark.parametrize("turn", [1, 2, 3])
@accel_limit(unit="GB/s", floor=1e-6)
def test_dies(accel_check, turn):
    accel_check(dies, turn=turn)
"""


def test_killed_worker_fails_its_device(tmp_path: Path) -> None:
    """The device is named with what happened to it; the run goes on to its end and exits 1.

    The other device keeps its verdicts, the record what was measured by then, and whoever was lost twice is not tried
    again.
    """
    write(tmp_path, test_dies=DIES)
    ran = as_user.pytest(tmp_path, env=STUB_TORCH, autoload=True)

    assert ran.exit == 1, ran.out
    assert ran.closing.startswith("REJECTED cpu1: dies@turn=")
    assert "its worker process died: it was killed by SIGSEGV, after" in ran.out
    assert (ran.record["state"], ran.record["closing"]["exit"]) == ("finished", 1)
    for turn in (1, 2, 3):
        statuses = ran.statuses(f"dies@turn={turn}")
        assert statuses["cpu1"] == "FAIL"
        assert statuses["cpu0"] in ("PASS", "MARGINAL")
    (broken,) = ran.measurements("dies@turn=1", "cpu1")
    assert broken["seconds"]
    assert all(0 < each < 1 for each in broken["seconds"])
    assert broken["value"] is None
    assert broken["trouble"]["kind"] == "device"
    assert (tmp_path / "turns").read_text() == "1 2 "
    (third,) = ran.measurements("dies@turn=3", "cpu1")
    assert third["trouble"]["untried"]
    assert third["trouble"]["reason"] == "the worker process of cpu1 ended in dies@turn=1 and in dies@turn=2"


ERRORS = """
WHERE = {"one": ["cpu1"], "all": ["cpu0", "cpu1"], "all again": ["cpu0", "cpu1"]}

def illegal(device, *, where):
    if device.devices[0].name in WHERE[where]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return tiny(device)

def memory(device):
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

def crash(device):
    os.kill(os.getpid(), signal.SIGSEGV)

@accel_limit(unit="GB/s", floor=1e-6)
@pytest.mark.parametrize("where", WHERE)
def test_illegal(accel_check, where):
    accel_check(illegal, where=where)

"""


def test_what_every_device_shows_and_software_may_cause_is_laid_to_none(tmp_path: Path) -> None:
    """A device is to blame where another got through the same, and for what only a device can be."""
    write(tmp_path, measured=("crash", "memory"), test_errors=ERRORS)
    ran = as_user.pytest(tmp_path, env=STUB_TORCH)

    found = {each["metric"]: each["trouble"] for each in ran.record["measurements"] if each["trouble"]}
    one = ran.statuses("illegal@where=one")
    assert one["cpu0"] in ("PASS", "MARGINAL"), ran.out
    assert one["cpu1"] == "FAIL"
    for metric in ("illegal@where=all", "illegal@where=all again", "crash"):
        assert set(ran.statuses(metric).values()) == {"INCONCLUSIVE"}, found[metric]
    assert "no other device got through it, so the software may be at fault" in found["crash"]["reason"]
    assert set(ran.statuses("memory").values()) == {"FAIL"}


def test_hung_worker(tmp_path: Path) -> None:
    """A probe that never returns is given up after the patience, and the place where it hangs is named."""
    write(
        tmp_path,
        measured=("hangs", "tiny"),
        test_hangs="""
        def hangs(device):
            if device.devices[0].name == "cpu1":
                device.gate.ready()
                time.sleep(10000)
            return tiny(device)

        """,
    )
    ran = as_user.pytest(tmp_path, "--accel-patience=5", env=STUB_TORCH)

    assert ran.exit == 1, ran.out
    assert ran.closing.startswith("REJECTED cpu1: hangs its process sent nothing for 5 s; it is in hangs (")
    for probe, fails in {"hangs": True, "tiny": False}.items():
        assert (ran.statuses(probe)["cpu1"] == "FAIL") == fails
        assert ran.statuses(probe)["cpu0"] in ("PASS", "MARGINAL")


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A file system on which every write blocks without end and without ear for signals; thawed at the end."""
    if not ROOT:
        pytest.skip("only root can freeze a file system")
    image, place = tmp_path / "image", tmp_path / "frozen"
    place.mkdir()
    try:
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        made = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mkfs.ext4 here")
    if made.returncode:
        pytest.skip(f"cannot make a file system: {made.stderr.strip()}")
    mount("-o", "loop", str(image), str(place))
    try:
        yield place
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", place], capture_output=True, timeout=60, check=False)
        for _ in range(100):
            if subprocess.run(["umount", place], capture_output=True, timeout=60, check=False).returncode == 0:
                break
            time.sleep(0.1)


@pytest.mark.nightly
def test_unkillable_worker(tmp_path: Path, frozen: Path) -> None:
    """A process that ignores SIGKILL is left behind and named; the run ends all the same."""
    write(
        tmp_path,
        measured=("stuck", "tiny"),
        test_stuck=f"""
        def stuck(device):
            if device.devices[0].name == "cpu1":
                pathlib.Path("stuck").write_text(str(os.getpid()))
                with open("{frozen}/file", "w") as file:
                    file.write("x")
            return tiny(device)

        """,
    )
    if subprocess.run(["fsfreeze", "--freeze", frozen], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("this kernel cannot freeze the file system")
    ran = as_user.pytest(tmp_path, "--accel-patience=5", env=STUB_TORCH)
    pid = (tmp_path / "stuck").read_text()
    behind = f"process {pid} cannot be killed and was left behind"

    assert int(pid) in processes(), "it was not stuck after all"
    assert ran.exit == 1, ran.out
    assert ran.closing.startswith("REJECTED cpu1: stuck its process sent nothing")
    assert behind in ran.closing
    assert f"cpu1: {behind}" in ran.record["notes"]
    assert ran.statuses("stuck")["cpu0"] in ("PASS", "MARGINAL")
    assert ran.statuses("tiny")["cpu1"] in ("PASS", "MARGINAL")


# -- the sensor

SENSOR = """
import psutil

def at_the_sensor(device, *, signal_number):
    if device.devices[0].name == "cpu0":
        for child in psutil.Process(os.getppid()).children():
            if "pytest_accel.drivers.sensor" in child.cmdline():
                os.kill(child.pid, signal_number)
    return tiny(device)

@accel_limit(unit="GB/s", floor=1e-6)
def test_sensor(accel_check, signal_number=int(os.environ["SIGNAL"])):
    accel_check(at_the_sensor, signal_number=signal_number)

def longer(device):
    a = device.torch.randn(64, 64)
    return device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=3.0, precision=0.0)

"""


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.nightly)], ids=["dies", "hangs"]
)
def test_sensor(tmp_path: Path, number: signal.Signals) -> None:
    """A sensor that dies or hangs costs telemetry, no verdict; it is started once more, and all of it is noted."""
    write(tmp_path, measured=["longer"], test_sensor=SENSOR)
    ran = as_user.pytest(tmp_path, "--accel-patience=5", env={**STUB_TORCH, "SIGNAL": str(int(number))})
    metric = f"at_the_sensor@signal_number={int(number)}"

    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("HELD 4/4 limits")
    assert set(ran.statuses(metric).values()) <= {"PASS", "MARGINAL"}
    assert any(note.startswith("the sensor") for note in ran.record["notes"]), ran.record["notes"]
    last = ran.measurements("longer", "cpu0")[-1]
    assert last["details"]["telemetry"]["readings"] > 0


def test_grandchildren_die_too(tmp_path: Path) -> None:
    """What a probe started and left running ends with its worker, and does not hide the worker's death."""
    write(
        tmp_path,
        test_family="""
        import subprocess

        def family(device):
            child = os.fork()
            if not child:
                time.sleep(10000)
            with open("pids", "a") as file:
                file.write(f"{child} {subprocess.Popen(['sleep', '10000']).pid} ")
            if device.devices[0].name == "cpu1":
                os.kill(os.getpid(), signal.SIGSEGV)
            return tiny(device)

        @accel_limit(unit="GB/s", floor=1e-6)
        def test_family(accel_check):
            accel_check(family)
        """,
    )
    ran = as_user.pytest(tmp_path, env=STUB_TORCH)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]

    assert ran.statuses("family")["cpu1"] == "FAIL", ran.out
    assert "its worker process died: it was killed by SIGSEGV" in ran.out
    assert len(pids) >= 4
    assert not left(pids)


# -- a rank of a collective

RANKS = """
@probe(
    "ranks.{how}",
    unit="GB/s",
    stresses=["link"],
    variants={"how": ("dies", "works", "hangs", "raises")},
    runs="ranks",
)
def ranks(device, *, how):
    import torch.distributed as dist
    a = device.torch.ones(1000)
    calls = []
    def work():
        calls.append(1)
        if len(calls) > 30 and device.rank == 1 and how == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if len(calls) > 30 and device.rank == 1 and how == "hangs":
            time.sleep(10000)
        if len(calls) > 30 and device.rank == 1 and how == "raises":
            raise ValueError("a bug of rank 1")
        dist.all_reduce(a)
    return device.sample(work, amount=1e-3, unit="GB/s", seconds=1.0, collective=True)

@pytest.mark.parametrize("how", ["dies", "works", "hangs", "raises"])
@accel_limit(unit="GB/s", floor=1e-9)
def test_ranks(accel_check, accel_devices, how):
    accel_check(ranks, how=how)
"""


@pytest.mark.nightly
def test_ranks_that_break(tmp_path: Path) -> None:
    """The rank that died or hangs is named, not the one that waited for it; the next collective works again."""
    write(tmp_path, measured=["tiny"], test_ranks=RANKS)
    ran = as_user.pytest(tmp_path, "--accel-patience=5", "-k", "not raises")

    assert ran.exit == 1, ran.out
    reasons = {how: ran.measurements(f"ranks.{how}", "node")[0]["trouble"]["reason"] for how in ("dies", "hangs")}
    assert reasons["dies"].startswith("cpu1: its worker process died: it was killed by SIGSEGV")
    assert reasons["hangs"].startswith("cpu1: its process sent nothing for ")
    assert "s; it is in work (" in reasons["hangs"]
    assert ran.statuses("ranks.works")["node"] in ("PASS", "MARGINAL")
    assert ran.statuses("tiny")["cpu0"] in ("PASS", "MARGINAL")
    assert ran.statuses("tiny")["cpu1"] == "FAIL", "it was lost twice"


@pytest.mark.nightly
def test_rank_that_raises(tmp_path: Path) -> None:
    """A bug on one rank is that bug, whatever the other ranks make of its silence."""
    write(tmp_path, test_ranks=RANKS)
    ran = as_user.pytest(tmp_path, "-k", "raises")

    assert ran.exit == 3, ran.out
    assert ran.closing.startswith("BROKEN")
    assert "a bug of rank 1" in ran.closing


@pytest.mark.parametrize(("leaves", "status", "said"), TABLES["ends"])
def test_a_probe_that_ends_its_process_says_nothing_about_the_device(
    tmp_path: Path, leaves: str, status: int, said: str
) -> None:
    """The code of a user's own probe did it: a bug where Python tells, and nobody's fault where it cannot.

    Not the third time either, although a device that loses its worker so often is given up.
    """
    own = f"""
    import os, sys
    class Odd(Exception):
        def __str__(self):
            raise ValueError
    def leaves(device, again):
        {leaves}

    @pytest.mark.parametrize("again", range(3))
    @accel_limit(unit="GB/s", floor=1)
    def test_leaves(accel_check, again):
        accel_check(leaves, again=again)
    """
    write(tmp_path, test_leaves=own)
    ran = as_user.pytest(tmp_path, env=STUB_TORCH)

    assert ran.exit == status, ran.out
    assert said in ran.closing


# -- interruptions

LONG = """
def endless(device):
    a = device.torch.randn(64, 64)
    device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=0.1)
    pathlib.Path(f"measuring-{device.devices[0].name}").touch()
    return device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=1000, precision=0.0)
"""


def measuring(folder: Path) -> bool:
    """True when both devices are in the middle of the endless probe."""
    return all((folder / f"measuring-cpu{index}").exists() for index in (0, 1))


def check_interrupted(ran: Ran) -> None:
    """The record says so, and holds the finished measurements and the blocks of the others."""
    assert ran.record["state"] == "interrupted"
    assert set(ran.statuses("tiny").values()) <= {"PASS", "MARGINAL"}
    assert len(ran.statuses("tiny")) >= 2
    (broken,) = ran.measurements("endless", "cpu0")
    assert broken["seconds"]
    assert broken["trouble"]["reason"].startswith("the run was interrupted")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_signal(tmp_path: Path, number: signal.Signals) -> None:
    """Half way, the run ends with exit 2 and everything that was measured so far.

    The signal comes again and again until the record is closed, as from an impatient user or scheduler.
    """
    write(tmp_path, measured=("tiny", "endless"), test_long=LONG)
    with going(tmp_path, env=STUB_TORCH) as run:
        run.until(lambda: measuring(tmp_path))
        children = run.children()
        while '"state": "running"' in (run.folder / "record.json").read_text():
            run.process.send_signal(number)
            time.sleep(0.01)
        ran = run.end()

    assert ran.exit == 2, ran.out
    why = "Ctrl-C" if number == signal.SIGINT else number.name
    assert ran.closing.startswith(f"INTERRUPTED ({why})")
    assert ran.record["closing"]["exit"] == 2
    assert len(children) >= 3
    assert not left(children)
    check_interrupted(ran)


def test_terminal_that_goes_away(tmp_path: Path) -> None:
    """A closed window takes the terminal along; the record is finished nevertheless."""
    write(tmp_path, measured=("tiny", "endless"), test_long=LONG)
    master, slave = pty.openpty()
    terminal = {"stdin": slave, "stdout": slave, "stderr": slave}
    with going(tmp_path, prefix=["setsid", "--ctty", "--wait"], env=STUB_TORCH, **terminal) as run:
        os.close(slave)
        run.until(lambda: measuring(tmp_path))
        os.close(master)
        ran = run.end()

    check_interrupted(ran)
    assert "SIGHUP" in ran.record["closing"]["line"]


def test_nohup(tmp_path: Path) -> None:
    """Who asked for SIGHUP to be ignored means it."""
    write(tmp_path, measured=("tiny", "endless"), test_long=LONG)
    with going(tmp_path, prefix=["nohup"], env=STUB_TORCH) as run:
        run.until(lambda: measuring(tmp_path))
        run.process.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert run.process.poll() is None, run.out
        ran = run.end(signal.SIGTERM)

    assert "SIGTERM" in ran.closing


def test_killed_pytest_leaves_nothing(tmp_path: Path) -> None:
    """Not even SIGKILL leaves a process; the record holds what was measured; the devices are free again.

    While it ran, a second run was refused and told who has the devices; it left no record in the way of its repeat.
    """
    write(tmp_path, measured=("tiny", "endless"), test_long=LONG)
    output = tmp_path / "mine"
    with going(tmp_path, env=STUB_TORCH) as run:
        run.until(lambda: measuring(tmp_path))
        second = as_user.pytest(tmp_path, output=output, refused=True)
        children = run.children()
        ran = run.end(signal.SIGKILL)
    remaining = left(children)
    third = as_user.pytest(tmp_path, "-k", "inventory and count", paths=(), output=output)

    assert len(children) >= 3
    assert not remaining
    assert ran.record["state"] == "running"
    assert set(ran.statuses("tiny").values()) <= {"PASS", "MARGINAL"}
    assert second.exit == 4, second.out
    assert f"is being measured by pid {run.process.pid}, record {run.folder}" in second.out
    assert third.exit == 0, third.out


def test_timeout_of_another_plugin(tmp_path: Path) -> None:
    """A test that pytest-timeout stops leaves no half of its probe in the next one's measurement."""
    write(
        tmp_path,
        measured=["tiny"],
        test_timeout="""
        def slow(device):
            a = device.torch.randn(64, 64)
            return device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=30, precision=0.0)

        def before(device):
            return tiny(device)

        def test_before(accel_check):
            accel_check(before)  # starts the workers, so that the time below is the probe's

        @pytest.mark.timeout(3)
        @accel_limit(unit="GB/s", floor=1e-6)
        def test_slow(accel_check):
            accel_check(slow)
        """,
    )
    pytest.importorskip("pytest_timeout")
    ran = as_user.pytest(tmp_path, "-k", "before or slow and cpu0 or tiny", env=STUB_TORCH, autoload=True)

    assert ran.exit not in (0, 2), ran.out
    assert "Timeout" in ran.closing
    assert set(ran.statuses("tiny").values()) <= {"PASS", "MARGINAL"}
    assert len(ran.measurements("slow", "cpu0")) == 1
    assert all(each["trouble"] is None for each in ran.measurements("tiny", "cpu0"))


# -- the output


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    if not ROOT:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], capture_output=True, timeout=60, check=False)


def test_disk_full(tmp_path: Path, small_disk: Path) -> None:
    """The record goes elsewhere, and the run says where; without its telemetry it is no acceptance and no rejection."""
    write(
        tmp_path,
        measured=["tiny"],
        test_full=f"""
        def test_fill(accel_check, accel_devices):
            with pytest.raises(OSError, match="No space"), open("{small_disk}/filler", "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            accel_check(probes.inventory, fact="count")
        """,
    )
    ran = as_user.pytest(tmp_path, output=small_disk / "out", env={"TMPDIR": str(tmp_path), **STUB_TORCH})

    assert ran.exit == 6, ran.out
    assert re.search(r"the record could not be written in full: \S+/telemetry.jsonl: ", ran.closing)
    elsewhere = re.search(
        r"^record: (\S+) \((\S+) could not be written: No space left on device\)$", ran.out, re.MULTILINE
    )
    assert elsewhere
    assert elsewhere[2] == str(small_disk / "out")
    newest = json.loads(Path(elsewhere[1]).read_text())
    assert (newest["state"], newest["closing"]["exit"]) == ("finished", 6)
    assert len(newest["verdicts"]) >= 3
    assert ran.closing.startswith("NOT JUDGED 3/3 limits hold")
    assert "cpu1" in ran.out
    assert ran.record["state"] == "running", "the last record that fitted is still whole"
    assert not list(ran.folder.glob(".record*"))


# -- an accelerator that no driver can use


def test_output_on_a_read_only_disk(tmp_path: Path, small_disk: Path) -> None:
    """Named with its path and the reason."""
    mount("-o", "remount,ro", str(small_disk))
    ran = as_user.pytest(tmp_path, output=small_disk / "out", refused=True)

    assert ran.exit == 4, ran.out
    assert f"--accel-output: cannot write to {small_disk / 'out'}: Read-only file system" in ran.out


def showing(tmp_path: Path, vendor: str, kind: str, device: str = "", slots: Sequence[int] = (1, 2)) -> list[str]:
    """A prefix of commands that see functions of this vendor and class on the PCI bus, and nothing else."""
    if not ROOT:
        pytest.skip("only root can show another PCI bus to a process")
    functions = tmp_path / "pci"
    for slot in slots:
        function = functions / f"0000:0{slot}:00.0"
        function.mkdir(parents=True)
        (function / "vendor").write_text(f"{vendor}\n")
        (function / "class").write_text(f"{kind}\n")
        if device:
            (function / "device").write_text(f"{device}\n")
    bus = Path("/sys/bus/pci/devices")
    if not bus.is_dir():
        pytest.skip(f"there is no {bus} here")
    script = f'mount --bind {functions} {bus} && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    probe = subprocess.run([*prefix, "ls", bus], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode:
        pytest.skip(f"cannot show another PCI bus to a process: {probe.stderr.strip()}")
    return prefix


def test_accelerator_without_a_driver_of_ours(tmp_path: Path) -> None:
    """A lack of ours is no defect of the node: it is recognised, nothing is accepted, and nothing is rejected."""
    prefix = showing(tmp_path, "0x1da3", "0x120000", device="0x1060", slots=[1])
    ran = as_user.pytest(
        tmp_path, "-k", "inventory or health or test_host_copy", sku="auto", paths=(), prefix=prefix, env=STUB_TORCH
    )

    assert ran.exit == 6, ran.out
    assert ran.closing.startswith("NOT JUDGED")
    assert "pytest_accel does not drive hlml (hl-smi): Gaudi devices are known by the PCI bus alone" in ran.out
    assert ran.statuses("inventory.driver") == {"node": "UNMEASURED"}
    assert list(ran.statuses("inventory.sku").values()) == ["PASS"]
    assert list(ran.statuses("host_copy.h2d").values()) == ["UNMEASURED"]
    assert "habana_frameworks.torch.core, which cannot be imported" in ran.out


@pytest.mark.parametrize(
    ("vendor", "kind", "driver"), [("0x10de", "0x030200", "nvidia"), ("0x1002", "0x120000", "amd")]
)
def test_unreachable_accelerator(tmp_path: Path, vendor: str, kind: str, driver: str) -> None:
    """What the PCI bus shows and no driver reaches is a failure of the node, never a fall back to its CPU."""
    prefix = showing(tmp_path, vendor, kind)
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(["nvidia-smi"], capture_output=True, timeout=60, check=False).returncode == 0:
            pytest.skip("the driver works here")
    ran = as_user.pytest(tmp_path, sku="auto", paths=(), prefix=prefix)

    said = f"inventory.driver {driver} (PCI 0000:01:00.0, PCI 0000:02:00.0): "
    if host_environment().container:
        assert ran.exit == 6, ran.out
        assert ran.closing.startswith("NOT JUDGED")
        assert "this is a container" in ran.out
        assert ran.statuses("inventory.driver") == {"node": "UNMEASURED"}
    else:
        assert ran.exit == 1, ran.out
        assert ran.closing.startswith(f"REJECTED node: {said}")
        assert ran.statuses("inventory.driver") == {"node": "FAIL"}
    assert ran.record["devices"] == []
