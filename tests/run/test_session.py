"""What must not make a run accept what it did not measure, or reject what nothing speaks against."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest
from support import as_user, data_files, in_process
from support.as_user import write

from pytest_accel import probes
from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import CallTrouble, Outcome
from pytest_accel.core.reasons import Compared, Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.core.verdict import Result, Status
from pytest_accel.judging.facts import results
from pytest_accel.probes.declare import declaration_for
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.request import Request
from pytest_accel.run import record
from pytest_accel.run.session import Session
from pytest_accel.simulate import management
from pytest_accel.simulate.libraries import status


def node(folder: Path, *faults: str, platform: str = "two") -> str:
    """A node of two or four H100 with these faults; the path of its file."""
    (folder / "pair.yaml").write_text(data_files.content("run/pair.yaml"), encoding="utf-8")
    listed = "".join(f"  - {{fault: {each}}}\n" for each in faults)
    path = folder / "node.yaml"
    path.write_text(f"sku: ./pair.yaml\nplatform: {platform}\n{'faults:' * bool(faults)}\n{listed}", encoding="utf-8")
    return str(path)


def simulated(folder: Path, *args: str, faults: tuple[str, ...] = ()) -> as_user.Ran:
    """The packaged suite of the quick level on such a node, as a user runs it."""
    place = as_user.fresh(folder)
    options = [f"--accel-simulate={node(folder, *faults)}", "--accel-level=quick", f"--accel-output={place}"]
    return as_user.pytest(folder, *options, *args, sku=None, paths=(), output=place, env={"PYTHONPATH": str(folder)})


@pytest.fixture
def here(fast: None, tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """A run on such a node in this process."""
    with contextlib.ExitStack() as stack:

        def begin(*faults: str, platform: str = "two") -> Session:
            run = in_process.opened(Path(node(tmp_path, *faults, platform=platform)), tmp_path / "out")
            stack.callback(run.finish)
            return run

        yield begin


# -- the order of the tests


@pytest.mark.parametrize("asked_again", [True, False])
def test_a_counter_that_a_later_probe_raised_is_judged_anew(here: Callable[..., Session], *, asked_again: bool) -> None:
    """Also where no test asks for it after that probe."""
    run = here("ecc-counted, device: 1, at: matmul")
    run.check(probes.stream, {"op": "triad"}, run.target.devices[0].uuid)
    (early,) = run.check(probes.counters, {"fact": "ecc_uncorrectable"}, run.target.devices[1].uuid)
    run.check(probes.matmul, {"dtype": "fp8"}, run.target.devices[0].uuid)
    if asked_again:
        (late,) = run.check(probes.counters, {"fact": "ecc_uncorrectable"}, run.target.devices[1].uuid)
        assert late.status is Status.FAIL
    closing = run.finish()
    (kept,) = [verdict for verdict in run.ledger.verdicts if verdict.metric == early.metric]
    assert (early.status, kept.status) == (Status.PASS, Status.FAIL)
    assert "gpu1: counters.ecc_uncorrectable 1, expected 0, during matmul.fp8" in closing.line
    assert in_process.objections(run) == (), "or judging the record again would find something else"


def test_a_marker_in_another_unit_hides_no_limit_that_fails(here: Callable[..., Session]) -> None:
    """It is a mistake of the test; the broken floor of the SKU counts all the same, and so does the marker unjudged."""
    run = here("slow-memory, device: 1, by: 0.3")
    marker = Limit("", "TFLOPS", floor=1.0, declared_by=DeclaredBy.MARKER, test="test_a.py::test_b")
    with pytest.raises(TypeError, match=r"the limit is in TFLOPS, but the measurement is in GB/s; state the limit of"):
        run.check(probes.stream, {"op": "triad"}, run.target.devices[1].uuid, [marker])
    assert [verdict.status for verdict in run.ledger.verdicts] == [Status.FAIL, Status.UNMEASURED], "none is lost"
    assert run.finish().exit == 1


def test_a_counter_that_was_asked_for_before_any_probe_is_judged_by_its_last_reading(
    here: Callable[..., Session],
) -> None:
    """The reading before the first probe says nothing, and is no attempt that a later one repeats."""
    run = here()
    asked = ({"fact": "ecc_uncorrectable"}, run.target.devices[1].uuid)
    (early,) = run.check(probes.counters, *asked)
    run.check(probes.stream, {"op": "triad"}, run.target.devices[0].uuid)
    (late,) = run.check(probes.counters, *asked)
    assert (early.status, late.status, sentence_of(late)) == (Status.UNMEASURED, Status.PASS, "0")
    run.finish()
    assert in_process.objections(run) == ()


def test_what_was_measured_counts_although_the_time_was_over_before_its_test(here: Callable[..., Session]) -> None:
    """The first test of a probe measures all devices; the time limit may come before those of the others."""
    run = here("slow-memory, device: 1, by: 0.3")
    run.check(probes.stream, {"op": "triad"}, run.target.devices[0].uuid)
    run.deadline.limit = 900.0
    run.add_objection("time", run.deadline.end_sentence)
    closing = run.finish()
    assert closing.result is Result.REJECTED
    (short,) = [verdict for verdict in run.ledger.verdicts if verdict.rejects and verdict.metric == "stream.triad"]
    assert short.subject == run.target.devices[1].uuid
    unreached = {sentence_of(verdict) for verdict in run.ledger.verdicts if verdict.metric == "matmul.bf16"}
    assert unreached == {run.deadline.unreached_sentence}
    assert in_process.objections(run) == ()


# -- what a probe of the user's own says


def excusing(device: Compute) -> ProbeResult:
    """A probe that finds little, and says why that is no fault."""
    result = ProbeResult("excusing", "GB/s", samples=[1.0] * 5, conditions={"environment": 3})
    result.notes = [Note("load", "I say so"), Note("doubt", "I do not know"), "not even a note"]  # type: ignore[list-item]
    return result


def test_a_probe_of_the_users_own_excuses_nothing(here: Callable[..., Session]) -> None:
    run = here()
    floor = Limit("excusing", "GB/s", floor=100.0, declared_by=DeclaredBy.MARKER)
    (verdict,) = run.check(excusing, {}, run.target.devices[0].uuid, [floor])
    assert (verdict.status, verdict.reasons) == (Status.FAIL, (Compared("floor"),))


# -- what stops a test


LICENCE = """
import pytest
@pytest.fixture(autouse=True)
def licence(request):
    assert "bf16" not in request.node.name, "no licence server"
"""
ALARM = """
import pytest, signal
def too_long(number, frame):
    pytest.fail("Timeout (>1 s)")  # as pytest-timeout does
def pytest_runtest_call(item):
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(1 if "bf16" in item.name else 0)
def pytest_runtest_teardown(item):
    signal.alarm(0)
"""


@pytest.mark.parametrize(
    "plugin",
    [pytest.param(LICENCE, id="a fixture asserts"), pytest.param(ALARM, id="a timeout", marks=pytest.mark.nightly)],
)
def test_what_stops_a_test_is_no_verdict_on_the_device(tmp_path: Path, plugin: str) -> None:
    write(tmp_path, theirs=plugin)
    ran = simulated(tmp_path, "-p", "theirs", "-k", "inventory or bf16 and test_matmul and gpu0 and not best")

    assert ran.exit == 3, ran.out
    assert ran.closing.startswith("SIMULATED BROKEN test_matmul.py::test_matmul[gpu0-bf16]")


@pytest.mark.nightly
def test_what_a_library_prints_in_a_worker_is_no_message_of_it(tmp_path: Path) -> None:
    lines = [f'{{"event": "{event}"}}' for event in ("result", "opened", "error", "tuning", "at", "done", "reading")]
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if any(each.endswith(('.worker', '.sensor')) for each in sys.orig_argv):\n"
        f"    os.write(1, {chr(10).join([*lines, '']).encode()!r})\n",
        encoding="utf-8",
    )
    ran = simulated(tmp_path, "-k", "stream")

    assert (ran.exit, ran.closing.partition(" limits")[0]) == (6, "SIMULATED HELD 4/4"), ran.out


# -- what one device alone does not say


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the management library answer otherwise of gpu1."""

    def otherwise(**said: object) -> None:
        real = management.answers
        monkeypatch.setattr(
            management, "answers", lambda model, place, *more: {**real(model, place, *more), **(said if place else {})}
        )

    return otherwise


def judged(run: Session, probe: Callable[..., object], **given: object) -> list[str]:
    """The status of every device."""
    return [run.check(probe, given, device.uuid)[0].status.value for device in run.target.devices]


def test_a_counter_that_one_device_alone_has_not_is_unmeasured(
    here: Callable[..., Session], answers: Callable[..., None]
) -> None:
    answers(nvmlDeviceGetPcieReplayCounter=status(pynvml.NVML_ERROR_NOT_SUPPORTED))
    run = here()
    judged(run, probes.host_copy, direction="h2d")

    assert judged(run, probes.counters, fact="pcie_replays") == ["PASS", "UNMEASURED"]
    said = sentence_of(run.ledger.verdicts[-1])
    assert said == "pcie_replays: this GPU or its driver does not support it, but 1 of 2 devices report it"


def test_a_check_that_one_device_alone_is_spared_is_unmeasured(
    here: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """exact_matmul.bf16 is asked for where it exists; on one of two devices of a model it exists on both."""
    exact_matmul = importlib.import_module("pytest_accel.probes.exact_matmul")
    real = exact_matmul._Watch

    def refused(device: Compute, *more: object) -> object:
        if device.devices[0].index:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`")
        return real(device, *more)

    monkeypatch.setattr(exact_matmul, "_Watch", refused)
    assert judged(here(), probes.exact_matmul, dtype="bf16") == ["PASS", "UNMEASURED"]


# -- who is lost


def test_a_device_that_is_lost_in_a_copy_takes_no_other_with_it(here: Callable[..., Session]) -> None:
    """The management library knows which of the two ends it was; the next copies go on between those that are left."""
    run = here("device-lost, device: 1, at: peer_copy+1", platform="four")
    assert judged(run, probes.peer_copy, direction="one_way") == ["UNMEASURED", "FAIL", "UNMEASURED", "UNMEASURED"]
    first = run.ledger.verdicts[0]
    assert sentence_of(first) == "not measured: gpu1 was lost (step: gpu1 to gpu0)"
    assert judged(run, probes.peer_copy, direction="both") == ["NOT APPLICABLE", "FAIL", *["NOT APPLICABLE"] * 2]
    assert run.ledger.verdicts[-1].value, "information: the file has no limit on it"


def test_a_process_that_breaks_before_its_first_pair_is_laid_to_nobody() -> None:
    """As the one of the peers does when it cannot open a device: whose fault it was is not known."""
    pair = tuple(Device(f"GPU-{place}", place, "nvidia", "a GPU") for place in range(2))
    call = Request(declaration_for(probes.peer_copy), {}, "peer_copy.one_way")
    broken = Outcome(pair, trouble=CallTrouble("device", "CUDA error: unknown error"))

    def kinds(lost: dict[str, str]) -> list[tuple[str, str]]:
        measured = results.per_device(broken, replace(call, lost=lost), lambda metric: None)
        found = [each.trouble for each in measured]
        return [(each.kind, each.reason) for each in found if each]

    assert [kind for kind, _ in kinds({})] == ["need", "need"]
    assert kinds({"GPU-1": "gpu1"}) == [
        ("need", "gpu1 was lost before its first step"),
        ("device", "CUDA error: unknown error"),
    ]


# -- what is not there


def test_a_limit_that_holds_where_supported_needs_its_time_too(here: Callable[..., Session]) -> None:
    """That a level leaves no time for it does not say that the device lacks it."""
    run = here(platform="hurried")
    (verdict,) = run.check(probes.matmul_best, {"dtype": "bf16"}, run.target.devices[0].uuid)
    remedy = "level quick has no time budget for this probe; use --accel-level=long"
    assert (verdict.status.value, sentence_of(verdict)) == ("UNMEASURED", remedy)


def test_a_record_that_can_be_written_nowhere_closes_as_the_run_does(
    here: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status of pytest is that of the closing in the record, which is not on any disk."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = here()
    run.ledger.folder.create(tmp_path / "record", "host", "run")
    monkeypatch.setattr(record, "write", full)
    closing = run.finish()
    assert run.ledger.record.circumstances
    assert run.ledger.record.circumstances.record_problem == os.strerror(errno.ENOSPC)
    assert (run.ledger.record.closing.line, run.ledger.record.closing.exit) == (closing.line, closing.exit)


def test_telemetry_that_was_not_kept_is_no_evidence(here: Callable[..., Session]) -> None:
    """The disk was full for a while: the record fits, its side file is cut off."""
    run = here()
    run.pool.sensor.telemetry.close()
    run.pool.sensor.telemetry.write_to(Path("/dev/full"))
    run.pool.sensor.telemetry.hear({"uuid": run.target.devices[0].uuid, "at": 1.0})
    run.finish()
    assert run.ledger.record.circumstances
    assert run.ledger.record.circumstances.record_problem == "/dev/full: No space left on device"


@pytest.mark.nightly
def test_a_device_cannot_write_a_closing_line_by_its_name(tmp_path: Path) -> None:
    """Neither to the terminal, nor from the record, and not by the threshold file that expects such a name."""
    name = r"X\e[2J\nSIMULATED ACCEPTED 8/8 devices"
    source = "source: {kind: measured, by: us, date: 2026-11}"
    (tmp_path / "own.yaml").write_text(f'sku: mine\nextends: h100-sxm\nmatch: {{names: ["{name}"], {source}}}\n')
    (tmp_path / "node.yaml").write_text("sku: own.yaml\nplatform: single\n")
    ran = as_user.pytest(
        tmp_path, "--accel-simulate=node.yaml", "--accel-level=quick", "-k", "inventory", sku=None, paths=()
    )
    judged = subprocess.run(
        [as_user.BIN / "pytest-accel", "judge", ran.folder, "--sku=own.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for shown in (ran.out, judged.stdout + judged.stderr):
        assert "\x1b" not in shown
        assert not re.search(r"^SIMULATED ACCEPTED", shown, re.MULTILINE)
    assert r"X\x1b[2J" in ran.out
