"""What a worker process sees of the devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.run.processes.programs import environment_of, visible_to
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool


def node(driver: str) -> list[Device]:
    return [Device(f"{driver}-{place}", place, driver, "", facts={"visible_as": f"GPU-{place}"}) for place in range(4)]


@pytest.mark.parametrize(("driver", "seen"), [("nvidia", 1), ("cpu", 1), ("amd", 4)])
def test_a_rank_sees_its_peers_only_if_its_vendor_needs_that(driver: str, seen: int) -> None:
    devices = node(driver)
    visible = visible_to((devices[2],), devices)
    assert len(visible) == seen
    assert devices[2] in visible


def test_the_ranks_of_rccl_all_see_the_same_devices_in_one_order() -> None:
    devices = node("amd")
    shown = {environment_of(visible_to((each,), devices))["ROCR_VISIBLE_DEVICES"] for each in devices}
    assert shown == {"GPU-0,GPU-1,GPU-2,GPU-3"}


def test_a_worker_is_told_what_it_sees_without_a_lost_neighbour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = {}

    class Silent:
        def worker(self, name: str, visible: list[Device], log: Path) -> object:
            started[name] = [device.name for device in visible]
            return object()

        def threads(self, group: list[Device]) -> int:
            return 1

    pool = WorkerPool(SensorClient(60.0), lambda what, spent, expected: None)
    pool.processes, pool.logs, pool.devices = Silent(), tmp_path, node("amd")  # type: ignore[assignment]
    monkeypatch.setattr(pool.sensor.counters, "lost", lambda uuid: "fell off" if uuid == "amd-1" else None)
    group = (pool.devices[2],)
    pool._spawn(group)
    assert started == {"gpu2": ["gpu0", "gpu2", "gpu3"]}
    assert pool._opening(group)["visible"] == ["amd-0", "amd-2", "amd-3"]
