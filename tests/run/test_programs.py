"""What a worker process sees of the devices and of the user's environment, and what follows if it cannot open them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import data_files

from pytest_accel.core.measurement import Device
from pytest_accel.run.processes import environment as environments
from pytest_accel.run.processes.programs import Environment, Processes, environment_of, visible_to
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.supervisor import Child
from pytest_accel.run.processes.worker_pool import WorkerPool

TABLES = data_files.tables("run/programs")


def node(driver: str) -> list[Device]:
    return [Device(f"{driver}-{place}", place, driver, "", facts={"visible_as": f"GPU-{place}"}) for place in range(4)]


def test_a_rank_sees_its_peers_only_if_its_vendor_needs_that() -> None:
    """Those of RCCL all see the same devices in one order."""
    for driver in ("nvidia", "cpu"):
        devices = node(driver)
        assert list(visible_to((devices[2],), devices)) == [devices[2]]
    devices = node("amd")
    shown = {environment_of(visible_to((each,), devices))["ROCR_VISIBLE_DEVICES"] for each in devices}
    assert shown == {"GPU-0,GPU-1,GPU-2,GPU-3"}


def test_a_worker_sees_no_neighbour_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(SensorClient(60.0))
    devices = node("amd")
    pool.hold(devices)
    monkeypatch.setattr(pool.sensor.counters, "loss", lambda uuid: "fell off" if uuid == "amd-1" else None)
    assert [device.name for device in pool._sees((devices[2],))] == ["gpu0", "gpu2", "gpu3"]


# -- opening, a second time

OPENS = """
import json, os, pathlib, signal, sys
def send(**fields):
    print(json.dumps(fields), flush=True)
for line in sys.stdin:
    event = json.loads(line)["event"]
    seen, me = os.environ["SEES"].split(), os.environ["ME"]
    tried = pathlib.Path(os.environ["TRIED"]) / me
    if event == "load" and "NO_TORCH" in os.environ:
        os.kill(os.getpid(), signal.SIGSEGV)
    if event == "load":
        send(event="done")
    elif event == "open":
        with open(tried, "a") as file:
            file.write(" ".join(seen) + ";")
        if eval(os.environ["FAILS"]):
            os.kill(os.getpid(), signal.SIGSEGV)
        send(event="opened", software={})
"""
ONCE = "me.endswith('-1') and tried.read_text().count(';') == 1"
ALWAYS = "me.endswith('-1')"
NEIGHBOUR = "'amd-1' in seen"
TOGETHER = "len(seen) > 1"


def opened(folder: Path, driver: str, fails: str, **more: str) -> WorkerPool:
    """Start the workers of a node whose opening fails under a condition; each writes down what it sees."""
    (folder / "opens.py").write_text(OPENS)

    def spawn(name: str, module: str, log: Path, environment: Environment) -> Child:
        extra = {"ME": f"{driver}-{name[-1]}", "TRIED": str(folder), "FAILS": fails, "PYTHONPATH": str(folder), **more}
        return Child(name, module, log, {**environment, **extra})

    pool = WorkerPool(SensorClient(60.0))
    sees = Processes(
        worker_module="opens", environment=lambda seen: {"SEES": " ".join(each.uuid for each in seen)}, spawn=spawn
    )
    pool.begin(sees, folder)
    pool.hold(node(driver))
    pool._start([(device,) for device in node(driver)])
    pool.stop()
    return pool


def unopened(pool: WorkerPool) -> dict[str, str]:
    """The kind of trouble of each device that could not be opened."""
    return {group[0].name: trouble.kind for group, trouble in pool._unopened.items()}


@pytest.mark.parametrize("driver", ["nvidia", "amd"])
def test_a_device_that_opens_at_the_second_time_is_measured(tmp_path: Path, driver: str) -> None:
    pool = opened(tmp_path, driver, ONCE)
    assert unopened(pool) == {}
    assert any(note.startswith("gpu1 was opened on the second attempt only: ") for note in pool.sensor.notes)


def test_a_device_that_never_opens_is_at_fault(tmp_path: Path) -> None:
    assert unopened(opened(tmp_path, "nvidia", ALWAYS)) == {"gpu1": "device"}
    assert (tmp_path / "nvidia-1").read_text() == "nvidia-1;nvidia-1;"


def test_a_device_that_breaks_its_neighbours_is_blamed_alone(tmp_path: Path) -> None:
    """RCCL's ranks see all devices, so that a sick one can hang or crash the start of every worker."""
    assert unopened(opened(tmp_path, "amd", NEIGHBOUR)) == {"gpu1": "device"}
    assert (tmp_path / "amd-0").read_text() == "amd-0 amd-1 amd-2 amd-3;amd-0;amd-0 amd-2 amd-3;"


def test_devices_that_open_alone_only_are_not_judged(tmp_path: Path) -> None:
    """Which of them is at fault is not known, and nobody guesses."""
    pool = opened(tmp_path, "amd", TOGETHER)
    assert unopened(pool) == dict.fromkeys(("gpu0", "gpu1", "gpu2", "gpu3"), "external")
    reason = next(iter(pool._unopened.values())).reason
    assert reason.endswith("alone it opens, so it is not known which device is at fault")


def test_a_crash_while_torch_is_imported_is_no_fault_of_the_device(tmp_path: Path) -> None:
    pool = opened(tmp_path, "nvidia", ALWAYS, NO_TORCH="1")
    assert set(unopened(pool).values()) == {"need"}
    assert next(iter(pool._unopened.values())).reason.startswith("torch could not be loaded: it was killed by SIGSEGV")


# -- the user's settings


def test_settings_that_change_what_is_measured_do_not_reach_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    cleared = TABLES["cleared"]
    kept = {"NCCL_TOPO_FILE": "/opt/topo.xml", "NCCL_IB_HCA": "mlx5", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    for name, text in {**cleared, **kept, "HOME_OF_MINE": "1"}.items():
        monkeypatch.setenv(name, text)
    child = environments.of_child({"OMP_NUM_THREADS": "3", "NCCL_IB_HCA": None})

    assert not set(cleared) & set(child)
    assert (child["NCCL_TOPO_FILE"], child["HSA_OVERRIDE_GFX_VERSION"]) == ("/opt/topo.xml", "11.0.0")
    assert child["HOME_OF_MINE"] == "1"
    assert child["OMP_NUM_THREADS"] == "3", "ours counts"
    assert "NCCL_IB_HCA" not in child, "unless the vendor chose it"


def test_the_users_settings_are_in_the_record_and_in_words() -> None:
    given = {"NCCL_P2P_DISABLE": "1", "LD_PRELOAD": "/x.so", "PATH": "/bin"}

    assert environments.user_settings(given) == ({"NCCL_P2P_DISABLE": "1"}, {"LD_PRELOAD": "/x.so"})
    assert environments.notes(given) == [
        "settings of the user that the workers do not inherit: NCCL_P2P_DISABLE=1",
        "settings of the user in force: LD_PRELOAD=/x.so",
    ]
    assert environments.notes({"PATH": "/bin"}) == []
