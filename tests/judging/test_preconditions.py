"""The gate: what stops what, who else works on the devices, and waiting until they are settled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import in_process, shipped
from support.judged_tables import tabled

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts import preconditions
from pytest_accel.judging.facts.preconditions import others_at_work
from pytest_accel.probes.declare import declarations
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.idle_gate import check_idle
from pytest_accel.run.processes.programs import Processes

H100 = shipped.load("h100-sxm")
SWITCHED, ALONE = H100.platforms["hgx8"], H100.platforms["single"]
HEALTHY: dict[str, Any] = {
    "ecc": True, "ecc_pending": True, "recovery_action": "none",
    "remap_pending": False, "fabric_state": "completed", "fabric_status": 0, "temperature_c": 40,
}  # fmt: skip
MEASURING = {each.name: each for each in declarations() if each.packaged and not each.fact}


def gpu(index: int = 3, **facts: Any) -> Device:
    return Device(f"GPU-{index}", index, "nvidia", "a GPU", facts={**HEALTHY, **facts})


def stops(**facts: Any) -> set[str]:
    device = gpu(**facts)
    return {name for name, probe in MEASURING.items() if preconditions.obstacle(probe, device.uuid, [device], SWITCHED)}


def stressing(*parts: str) -> set[str]:
    return {name for name, probe in MEASURING.items() if set(parts) & set(probe.stresses)}


@tabled("facts, parts", "data/judging/preconditions.yaml")
def test_a_reason_stops_what_it_makes_meaningless_and_nothing_else(facts: dict[str, Any], parts: Any) -> None:
    assert stops(**facts) == (set(MEASURING) if parts == "all" else stressing(*parts))


def test_the_packaged_probes_say_what_they_stress() -> None:
    assert {"stream", "memory_pattern"} <= stressing("memory")
    assert {"matmul", "matmul_best", "exact_matmul", "soak", "training_step", "ddp_step"} <= stressing("compute")
    assert {"peer_copy", "peer_copy_all", "collective", "ddp_step"} <= stressing("link")
    assert not stressing("memory") & stressing("compute")


def test_the_sentence_names_the_verdict_that_fails_and_what_to_do() -> None:
    said = preconditions.obstacle(MEASURING["stream"], "GPU-3", [gpu(remap_pending=True)], SWITCHED)
    assert said is not None
    assert said.startswith("gpu3: the remapping of a memory row is pending (health.remap_pending); ")
    assert "`nvidia-smi --gpu-reset -i 3`" in said


def test_a_fabric_matters_where_there_is_a_switch() -> None:
    device = gpu(fabric_state="not started")
    assert "error 802" in str(preconditions.obstacle(MEASURING["matmul"], device.uuid, [device], SWITCHED))
    assert preconditions.obstacle(MEASURING["matmul"], device.uuid, [device], ALONE) is None
    silent = Device("GPU-0", 0, "nvidia", "a GPU")
    stopped = [preconditions.obstacle(probe, silent.uuid, [silent], SWITCHED) for probe in MEASURING.values()]
    assert set(stopped) == {None}, "what a device does not state stops nothing"


def test_a_device_stops_itself_and_the_node_and_not_its_neighbour() -> None:
    node = [gpu(0), gpu(1, recovery_action="node reboot")]
    assert preconditions.obstacle(MEASURING["matmul"], "GPU-0", node, SWITCHED) is None
    said = str(preconditions.obstacle(MEASURING["collective"], NODE, node, SWITCHED))
    assert "gpu1: its driver requests recovery: node reboot" in said


# -- others


class Pool:
    """What is asked of pool and sensor at the door: a device that cools by so many kelvin between two readings."""

    processes = Processes(settle_step=0.2)
    deadline = Deadline()

    def __init__(self, kelvin: float, busy: dict[str, str]) -> None:
        self.sensor = self
        self.kelvin, self.busy = kelvin, busy
        self.temperature, self.asked, self.told = 80.0, 0, list[str]()

    def not_idle(self) -> dict[str, str] | None:
        return self.busy

    def health(self) -> dict[str, dict[str, Any]]:
        self.asked += 1
        self.temperature = max(35.0, self.temperature - self.kelvin)
        return {"GPU-3": {"temperature_c": self.temperature}, "CPU-0": {}}

    @property
    def progress(self) -> Pool:
        return self

    def timed(self, what: str, spent: float, expected: float) -> None:
        self.told.append(what)

    def done(self) -> None: ...


def test_a_device_that_cools_down_is_waited_for_with_progress() -> None:
    pool = Pool(kelvin=9.0, busy={})
    found = check_idle(pool, [gpu()])  # type: ignore[arg-type]
    assert pool.temperature == 35.0
    assert "letting the devices cool down" in pool.told
    assert (found.notes, found.disturbances) == ([], {})


def test_a_device_that_flickers_or_is_busy_is_not_waited_for_and_nobody_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flickers, busy = Pool(kelvin=1.0, busy={}), Pool(kelvin=9.0, busy={"GPU-3": "it is 90 % busy (pid 42)"})
    check_idle(flickers, [gpu()])  # type: ignore[arg-type]
    found = check_idle(busy, [gpu()])  # type: ignore[arg-type]
    assert (flickers.asked, busy.asked) == (2, 0)
    assert found.notes == ["gpu3, before the run: it is 90 % busy (pid 42)"]
    monkeypatch.setattr(preconditions, "SETTLE_SECONDS", 0.5)
    found = check_idle(Pool(kelvin=2.0, busy={}), [gpu()])  # type: ignore[arg-type]
    assert found.notes == ["still cooling down after 0.5 s: gpu3"]


def test_the_load_of_a_cpu_excuses_where_that_of_a_gpu_disturbs() -> None:
    load = "other processes take 83% of the processor's time"
    found = check_idle(Pool(0.0, {"CPU-0": load, "GPU-3": "it is 90 % busy"}), [gpu(), Device("CPU-0", 0, "cpu", "x")])  # type: ignore[arg-type]
    assert (found.excuses, found.disturbances) == ({"CPU-0": load}, {"GPU-3": "it is 90 % busy"})
    assert any(note.endswith(f"before the run: {load}") for note in found.notes)


# -- as a user sees it

NODE_FILE = "sku: h100-sxm\nplatform: hgx8\nfaults: [{fault: remap-pending, device: 1}]\n"


@pytest.mark.nightly
def test_a_pending_repair_fails_and_stops_what_depends_on_it(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE_FILE)
    with in_process.fast():
        here, closing = in_process.run(tmp_path / "node.yaml", tmp_path / "out", measured=("stream", "matmul"))
    found = {(here.ledger.names[each.subject], each.metric): each.status for each in here.ledger.verdicts}
    assert (found["gpu0", "health.remap_pending"], found["gpu1", "health.remap_pending"]) == (Status.PASS, Status.FAIL)
    assert found["gpu1", "stream.triad"] is Status.UNMEASURED
    assert found["gpu0", "stream.triad"].holds
    assert found["gpu1", "matmul.bf16"].holds
    assert closing.line.startswith("SIMULATED REJECTED gpu1: health.remap_pending 1, expected 0")


def test_who_works_on_a_device_beside_us_is_told_by_our_own_process() -> None:
    def told(*pids: int | None) -> str | None:
        return others_at_work({"processes": [{"pid": pid} for pid in pids]}, {41, 42})

    assert [told(), told(41), told(41, 42)] == [None] * 3
    assert told(41, 99) == "pid 99 used the device too"
    assert told(41, None) == "pid None used the device too", "NVML knows that there is one, and not which"
    assert told(99) is None, "in another PID namespace all of them may be ours"
