"""What the host counted from the first probe to the last: read again, told apart by part, judged by class."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import shipped
from support.host_tree import FAR_NIC, MC, METAL, make, rdma
from support.in_process import InlineChild

from pytest_accel.core.host_facts import COUNTED_HOST_FACTS
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.run import HostCountedEntry
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers.host.reading import HOST_READERS, answer
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.drivers.sensor import Machine, Sensor, host_facts
from pytest_accel.judging.facts.host_counters import HOST_RATES, measurement
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.processes.programs import Processes
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.skus import requirements

OF = {"nvidia": ("h100-sxm", "hgx8"), "amd": ("mi300x", "oam8")}
HEALTHY = {**rdma("mlx5_0", {}), **rdma("mlx5_1", {}, FAR_NIC), MC.format(0, "ue"): "0", MC.format(0, "ce"): "5"}


def limits(vendor: str = "nvidia") -> dict[str, Any]:
    name, platform = OF[vendor]
    sku = shipped.load(name)
    found = requirements.limits(sku, sku.platforms[platform], 8)
    return {metric: limit for metric, limit in found.items() if metric.startswith("host_counters.")}


def seen(folder: Path, at: float, tree: Mapping[str, Any]) -> HostCountedEntry:
    make(folder, tree)
    return {"at": at, "answers": {name: answer(HOST_READERS[name], folder, METAL) for name in COUNTED_HOST_FACTS}}


def between(folder: Path, name: str, *trees: Mapping[str, Any], seconds: float = 600.0) -> Measurement:
    """On a host whose files are these two trees, before the first probe and after the last."""
    first, last = (seen(folder / str(at), at * seconds, tree) for at, tree in enumerate(trees))
    return measurement(f"host_counters.{name}", first, last)


def verdict(folder: Path, name: str, *trees: Mapping[str, Any], seconds: float = 600.0) -> Verdict:
    metric = f"host_counters.{name}"
    return judge([between(folder, name, *trees, seconds=seconds)], limits().get(metric))


def port(nic: str, counter: str, number: int) -> dict[str, str]:
    return {f"sys/class/infiniband/{nic}/ports/1/counters/{counter}": str(number)}


def test_what_stands_still_holds_whatever_it_stands_at(tmp_path: Path) -> None:
    old = {**HEALTHY, **port("mlx5_0", "link_downed", 9), MC.format(0, "ue"): "3"}
    for place, name in enumerate(("nic_link_downed", "ecc_uncorrected", "ecc_corrected")):
        assert verdict(tmp_path / str(place), name, old, old).status is Status.PASS


def test_a_link_that_is_lost_fails_the_node_and_names_the_port(tmp_path: Path) -> None:
    found = verdict(tmp_path, "nic_link_downed", HEALTHY, {**HEALTHY, **port("mlx5_1", "link_downed", 1)})
    assert (found.status, found.subject, sentence_of(found)) == (Status.FAIL, "node", "1, expected 0, at mlx5_1/1")


def test_a_port_that_stood_higher_hides_none_that_moved(tmp_path: Path) -> None:
    """The fact of the host is the worst port's count, which did not change."""
    before = {**HEALTHY, **port("mlx5_0", "symbol_error", 900)}
    found = between(tmp_path, "nic_errors", before, {**before, **port("mlx5_1", "symbol_error", 2)})
    assert (found.value, found.details["moved"]) == (2, {"mlx5_1/1": 2})


def test_memory_that_loses_data_fails_memory_that_corrects_is_advice(tmp_path: Path) -> None:
    assert verdict(tmp_path / "lost", "ecc_uncorrected", HEALTHY, {**HEALTHY, MC.format(0, "ue"): "1"}).fails
    for corrected, status in ((1, Status.PASS), (40, Status.MARGINAL)):
        after = {**HEALTHY, MC.format(0, "ce"): str(5 + corrected)}
        found = verdict(tmp_path / str(corrected), "ecc_corrected", HEALTHY, after)
        assert (found.status, found.value, found.unit) == (status, corrected, "per h")


def test_a_short_run_makes_no_rate_out_of_few_errors(tmp_path: Path) -> None:
    storm = {**HEALTHY, MC.format(0, "ce"): "35"}
    for seconds, rate in ((60.0, 30), (3600.0, 30), (36000.0, 3)):
        assert between(tmp_path / str(seconds), "ecc_corrected", HEALTHY, storm, seconds=seconds).value == rate
    before, after = ({**HEALTHY, **port("mlx5_0", "link_downed", count)} for count in (7, 2))
    assert between(tmp_path, "nic_link_downed", before, after).value == 2, "it went back, and has counted since"


def test_a_nic_that_vanished_is_not_taken_for_one_that_counted_nothing(tmp_path: Path) -> None:
    gone = "mlx5_1/1 was present before the first probe and is gone"
    none = "there is no RDMA NIC; it could be read before the first probe"
    for place, (tree, said) in enumerate((({**rdma("mlx5_0", {})}, gone), ({MC.format(0, "ue"): "0"}, none))):
        found = verdict(tmp_path / str(place), "nic_link_downed", HEALTHY, tree)
        assert (found.status, sentence_of(found)) == (Status.UNMEASURED, said)


def test_what_cannot_be_seen_here_and_what_no_probe_could_move_is_not_judged(tmp_path: Path) -> None:
    found = verdict(tmp_path, "ecc_uncorrected", {"sys/": ""}, {"sys/": ""})
    assert found.status is Status.NOT_APPLICABLE
    assert "its EDAC driver is not loaded" in sentence_of(found)
    unmoved = measurement("host_counters.ecc_uncorrected", None, seen(tmp_path, 0.0, HEALTHY))
    assert (unmoved.trouble and unmoved.trouble.kind) == "not_applicable"


class Root(InlineChild):
    """A sensor that looks at the files of a tree, and finds no device."""

    def __init__(self, root: Path) -> None:
        super().__init__("sensor")
        machine = Machine(hints=list, host=partial(host_facts, root), kernel_reports=None)
        self._sensor = Sensor(self.pipe, machine)  # type: ignore[arg-type]

    def send(self, event: str, **fields: Any) -> None:
        if event == "discover":
            self.pipe.send("devices", devices=[])
        else:
            self._sensor.take({"event": event, **fields})


def watching(root: Path) -> SensorClient:
    """The client of such a sensor."""
    sensor = SensorClient(60.0)
    sensor.begin(Processes(spawn=lambda *how: Root(root)), root)
    sensor.discover("cpu")
    return sensor


def test_the_host_is_read_before_the_first_probe_and_again_after_the_last_so_far(tmp_path: Path) -> None:
    make(tmp_path, HEALTHY)
    sensor, metric = watching(tmp_path), "host_counters.nic_link_downed"
    assert sensor.host_counter(metric).trouble, "before any probe"
    for probe, lost in (("the start", 0), ("stream.copy", 1), ("soak.rate", 3)):
        make(tmp_path, port("mlx5_1", "link_downed", lost))
        sensor.count(probe)
        assert sensor.host_counter(metric).value == lost


def test_what_the_host_counts_between_two_runs_of_a_series_is_in_the_next(tmp_path: Path) -> None:
    make(tmp_path, HEALTHY)
    first, metric = watching(tmp_path), "host_counters.nic_link_downed"
    first.count("the start")
    assert first.host_counter(metric).value == 0
    make(tmp_path, port("mlx5_1", "link_downed", 2))
    then = watching(tmp_path)
    then.follow({}, first.host_now)
    then.count("the start")
    assert then.host_counter(metric).value == 2


@pytest.mark.parametrize("vendor", OF)
def test_every_counter_but_what_links_correct_has_a_limit_of_its_class(vendor: str) -> None:
    found = limits(vendor)
    logged = [found.pop(f"host_counters.{name}") for name in LOGGED]
    assert [limit.warns for limit in logged] == [False, True]
    assert set(found) == {f"host_counters.{name}" for name in HOST_RATES if name != "pcie_corrected"}
    warnings = {metric.partition(".")[2] for metric, limit in found.items() if limit.warns}
    assert warnings == {"ecc_corrected", "pcie_nonfatal", "nic_errors", "ethernet_carrier_lost"}
    assert all(limit.unit == HOST_RATES[metric.partition(".")[2]].unit for metric, limit in found.items())
    assert all(set(limit.levels) == set(LEVELS) for limit in found.values())
