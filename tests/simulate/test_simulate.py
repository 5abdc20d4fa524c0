"""The simulated node: its file, its model, its faults below the real drivers, probes and judge."""

from __future__ import annotations

import dataclasses
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pynvml
import pytest
from support import shipped, torch_features
from support.as_user import Ran
from support.as_user import pytest as run_pytest
from support.data_files import content, tables
from support.probe_device import AtOnce

from pytest_accel import probes
from pytest_accel.cli.main import main
from pytest_accel.core.measurement import Device
from pytest_accel.core.run import Circumstances
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.judging.closing.line import close
from pytest_accel.probes.device.error_class import WrongResult
from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.run import earlier_records
from pytest_accel.run.options import Refused
from pytest_accel.run.simulation import for_record, model, node
from pytest_accel.simulate import management, stated
from pytest_accel.simulate.board import SharedState
from pytest_accel.simulate.cluster import CLUSTER_FAULTS
from pytest_accel.simulate.device import SimulatedDevice
from pytest_accel.simulate.faults import FAULTS, PARAMETERS
from pytest_accel.simulate.libraries import nvml
from pytest_accel.simulate.model import Model, model_of
from pytest_accel.simulate.node import load

ROWS = tables("simulate/node-files")

PAIR = content("simulate/pair.yaml")
"""Two devices are enough for every path, and cheap."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a node file of two devices with these faults; returns its path."""

    def make(*faults: str, head: str = "sku: ./pair.yaml\nplatform: two") -> str:
        (tmp_path / "pair.yaml").write_text(PAIR, encoding="utf-8")
        lines = [head, *(["faults:"] if faults else []), *(f"  - {{{each}}}" for each in faults)]
        path = tmp_path / "node.yaml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    return make


@pytest.fixture
def modelled(write: Callable[..., str], tmp_path: Path) -> Callable[..., Model]:
    """The model of such a file, as the children of a run get it."""
    return lambda *faults, **more: Model.read(model(load(write(*faults, **more)), tmp_path))


def of_amd(fault: str) -> dict[str, str]:
    """The head of a node file of two AMD devices where only those have the fault."""
    return {"head": "sku: mi300x\nplatform: pair"} if fault in stated.ONLY_ON["amd"] else {}


# -- the node file


def test_a_sku_alone_is_a_healthy_node_of_its_first_platform() -> None:
    healthy = load("h100-sxm")
    assert (healthy.platform.name, healthy.devices, healthy.faults, healthy.sha256) == ("hgx8", 8, (), None)


def test_a_node_file(write: Callable[..., str]) -> None:
    found = load(write("fault: slow-compute, device: 1, by: 0.2", "fault: device-lost, device: [0, 1], at: soak+10"))
    slow, lost = found.faults
    assert (slow.name, slow.devices, slow.parameters) == ("slow-compute", (1,), {"by": 0.2})
    assert (lost.devices, lost.probe, lost.seconds) == ((0, 1), "soak", 10.0)
    assert found.sha256


@pytest.mark.parametrize(("fault", "said"), ROWS["faults"])
def test_every_mistake_is_named_with_its_line(write: Callable[..., str], fault: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        load(write(fault))


@pytest.mark.parametrize(("head", "said"), ROWS["heads"])
def test_what_a_node_file_begins_with(write: Callable[..., str], head: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        load(write(head=head))


@pytest.mark.nightly
def test_every_fault_works_with_its_defaults_and_is_listed(
    modelled: Callable[..., Model], capsys: pytest.CaptureFixture[str]
) -> None:
    """It changes something, and of its own device alone."""
    without_effect = []
    for name, kind in FAULTS.items():
        made = modelled(f"fault: {name}" + ("" if kind.of_node else ", device: 1"), **of_amd(name))
        row = SharedState(Path(made.board), 2).row(1)
        sick = made.of_node() if kind.of_node else made.symptoms(1, row)
        if sick == made.symptoms(0, row):
            without_effect.append(name)
    assert without_effect == []
    assert [name for name, kind in FAULTS.items() if not set(kind.parameters) <= set(PARAMETERS)] == []
    for name, kind in FAULTS.items():
        assert main(["simulate", "--list", name]) == 0
        assert capsys.readouterr().out.startswith(f"{name}\n    {kind.does}\n")


def test_the_list_of_faults_fits_a_screen_and_a_part_of_a_name_tells_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines[1:])) <= 80
    assert {*FAULTS, *CLUSTER_FAULTS} <= set(re.findall(r"[a-z-]+", text))
    assert "stream: slow-memory, slow-writes" in lines

    assert main(["simulate", "--list", "remap-"]) == 0
    assert re.findall(r"^\S+", capsys.readouterr().out, re.MULTILINE) == ["remap-pending", "remap-failure"]
    assert main(["simulate", "--list", "slow-memroy"]) == 4
    assert "no fault is named 'slow-memroy'; did you mean 'slow-memory' " in capsys.readouterr().err


# -- the model


def test_the_same_file_gives_the_same_node_another_seed_another(write: Callable[..., str]) -> None:
    def numbers(seed: int) -> list[Any]:
        made = model_of(load(write(head=f"sku: ./pair.yaml\nseed: {seed}")), 0.0, "")
        return [made.uuid(1), *itertools.islice(made.noise(1, "matmul.bf16", 1), 5)]

    assert numbers(7) == numbers(7)
    assert not set(numbers(7)) & set(numbers(8))


def test_healthy_rates_are_those_of_the_file_and_what_is_assumed_is_marked(write: Callable[..., str]) -> None:
    rates = for_record(load(write()))["rates"]
    assert rates["peer_copy.one_way"]["value"] == 370
    assert rates["peer_copy.one_way"]["source"].startswith("reference (")
    assert rates["host_copy.h2d"]["value"] == pytest.approx(48 / 0.95), "by the rule that derives floors"
    assert rates["matmul.fp16"]["source"] == "assumed: 0.7 of fp16 datasheet peak"


def test_a_healthy_node_of_any_seed_is_above_every_floor() -> None:
    healthy = load("h100-sxm")
    for seed, place in itertools.product(range(20), range(8)):
        made = dataclasses.replace(model_of(healthy, 0.0, ""), seed=seed)
        for metric, limit in healthy.sku.limits_on(healthy.platform).items():
            if limit.floor and limit.unit != "K":  # of a temperature, whose share says nothing
                value = made.value(metric, limit.unit, place, made.symptoms(place, {}))
                assert value > 1.02 * limit.floor, "not even marginal"


# -- below the real driver


@pytest.fixture
def driver() -> Iterator[Callable[[Model], NvidiaDriver]]:
    """The real driver over the real pynvml over the library of a node."""
    loads = pynvml.CDLL

    def make(made: Model) -> NvidiaDriver:
        management.install(made)
        return NvidiaDriver()

    yield make
    pynvml.CDLL = loads
    nvml.install(None)


def test_the_driver_finds_the_devices_of_the_node(
    modelled: Callable[..., Model], driver: Callable[[Model], NvidiaDriver]
) -> None:
    made = modelled("fault: mig-on, device: 1")
    first, second = driver(made).discover()
    assert load("h100-sxm").sku.recognises(first)
    assert (first.uuid, first.facts["power_limit_w"], first.memory_bytes) == (made.uuid(0), 700.0, 80_000_000_000)
    assert (first.facts["mig"], second.facts["mig"]) == (False, True)


def test_readings_follow_what_the_worker_does(
    modelled: Callable[..., Model], driver: Callable[[Model], NvidiaDriver]
) -> None:
    made = modelled("fault: thermal-slowdown, device: 1, at: soak")
    opened, board = driver(made), SharedState(Path(made.board), 2)
    devices = opened.discover()
    for place in (0, 1):
        board.write(place, **{"began soak": 0.0})
        at = next(
            now / 10 for now in range(1000, 1100) if made.symptoms(1, {"now": now / 10, "began soak": 0.0}).reasons
        )
        sick = made.symptoms(place, {**board.row(place), "now": at})
        board.write(place, **made.step(place, board.row(place), at, "compute", sick))
    time.sleep(2 * management.FRESH_SECONDS)
    good, bad = (dict(opened.read(device)) for device in devices)
    assert good["power_w"] == bad["power_w"] == 700
    assert good["energy_j"] == pytest.approx(70_000, rel=0.05)
    assert good["sw_power_cap_s"] == pytest.approx(90, rel=0.05)
    assert good["hw_thermal_s"] == 0
    assert bad["hw_thermal_s"] == pytest.approx(40, rel=0.05)
    assert bad["temperature_c"] > good["temperature_c"] + 15
    assert bad["clock_mhz"] == pytest.approx(good["clock_mhz"] * (1 - 0.15 / 0.4), rel=0.01), "while it holds"
    assert (int(good["reasons"]) & 0x40, int(bad["reasons"]) & 0x40) == (0, 0x40)


def test_no_counter_goes_back_where_each_device_is_read_in_a_thread(
    driver: Callable[[Model], NvidiaDriver], tmp_path: Path
) -> None:
    """One that does counts nothing: the time under the power cap would be missing in the record."""
    made = Model.read(model(load("h100-sxm"), tmp_path))
    opened, board = driver(made), SharedState(Path(made.board), made.devices)
    stop = time.monotonic() + 1.0

    def follow(device: Device) -> list[float]:
        read = []
        while time.monotonic() < stop:
            read.append(float(dict(opened.read(device))["sw_power_cap_s"]))
        return read

    with ThreadPoolExecutor() as threads:
        reading = [threads.submit(follow, device) for device in opened.discover()]
        while time.monotonic() < stop:
            now = time.monotonic()
            for place in range(made.devices):
                board.write(place, sw_power_cap_s=now)
            time.sleep(0.0005)
    for device in reading:
        assert device.result() == sorted(device.result())


# -- the device that a probe is handed


def only(found: Iterator[ProbeResult]) -> ProbeResult:
    (one,) = found
    return one


@pytest.fixture
def device(modelled: Callable[..., Model]) -> Callable[..., SimulatedDevice]:
    """The second device of a node with these faults."""

    def make(*faults: str, **facts: Any) -> SimulatedDevice:
        made = modelled(*faults)
        shown = Device(made.uuid(1), 1, "nvidia", made.product, facts=facts)
        opened = SimulatedDevice([shown], AtOnce(), model=made)
        opened.seconds = 3.0
        return opened

    return make


ASKED = {"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192}


def healthy(metric: str) -> float:
    """The middle of the rates that were published for healthy H100; a healthy simulated device reaches it."""
    limit = shipped.load("h100-sxm").limits[metric]
    return limit.reference or (
        statistics.mean((limit.published.lowest, limit.highest or 0.0)) if limit.published else 0.0
    )


@pytest.mark.usefixtures("one_thread")
def test_a_matmul_takes_the_time_of_the_model_and_says_what_was_done(device: Callable[..., SimulatedDevice]) -> None:
    found = only(device().run(probes.matmul, ASKED))
    value = statistics.mean(found.samples)
    assert value == pytest.approx(healthy("matmul.bf16"), rel=0.03)
    assert statistics.mean(found.seconds) == pytest.approx(2 * 8192**3 / 1e12 / value, rel=0.01)
    assert (found.metric, found.conditions["m"]) == ("matmul.bf16", 8192)
    assert found.conditions["simulated"] == {"m": 32, "n": 32, "k": 32}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As few threads as a worker has on a busy machine; small operations are slow with more."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_single_calls_take_the_time_of_the_model_too(device: Callable[..., SimulatedDevice]) -> None:
    asked = {"dtype": "bf16", "shapes": {"bf16": [2048, 2048, 13312], "fp8": [1024, 9216, 14336]}}
    found = only(device().run(probes.matmul_mamf, asked))
    value = statistics.mean(found.samples)
    assert value == pytest.approx(healthy("matmul_mamf.bf16"), rel=0.03)
    assert statistics.mean(found.seconds) == pytest.approx(2 * 2048 * 2048 * 13312 / 1e12 / value, rel=0.01)
    assert found.conditions["simulated"] == {"shapes": {"bf16": [32, 32, 32], "fp8": [32, 32, 32]}}
    slow = only(device("fault: slow-compute, device: 1, by: 0.2").run(probes.matmul_mamf, asked))
    assert statistics.mean(slow.samples) == pytest.approx(0.8 * healthy("matmul_mamf.bf16"), rel=0.03)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("what", "probe", "conditions"),
    [
        ("matmul", probes.matmul, ASKED),
        pytest.param("matmul", probes.matmul, {**ASKED, "dtype": "fp8"}, marks=pytest.mark.nightly),
        *(
            pytest.param(
                "matmul",
                probes.matmul_mamf,
                {"dtype": dtype, "shapes": {dtype: [2048, 2048, 13312]}},
                marks=pytest.mark.nightly,
            )
            for dtype in ("bf16", "fp8")
        ),
        ("matmul", probes.matmul, {**ASKED, "dtype": "int8"}),
        ("copy", probes.stream, {"op": "copy", "mib": 4096}),
        ("copy", probes.host_copy, {"direction": "both", "mib": 256}),
    ],
)
def test_a_flipped_bit_is_found_by_the_probe_itself(
    device: Callable[..., SimulatedDevice], what: str, probe: Callable[..., Any], conditions: dict[str, Any]
) -> None:
    if conditions.get("dtype") == "fp8":
        torch_features.skip_without_fp8()
    only(device().run(probe, conditions))
    with pytest.raises(WrongResult):
        only(device(f"fault: wrong-result, device: 1, what: {what}").run(probe, conditions))


def test_a_probe_of_ones_own(device: Callable[..., SimulatedDevice]) -> None:
    def relu(device: SimulatedDevice, *, mib: int = 256) -> ProbeResult:
        x = device.torch.randn(mib * 2**18)
        return device.sample(x.relu_, amount=2 * x.nbytes / 1e9, unit="GB/s")

    found = only(device().run(relu, {"mib": 256}))
    assert statistics.mean(found.samples) == pytest.approx(2900, rel=0.02), "as the device's memory, it is assumed"


# -- explicit and loud


def test_it_is_refused_where_there_is_hardware(tmp_path: Path) -> None:
    function = tmp_path / "sys/bus/pci/devices/0000:1a:00.0"
    function.mkdir(parents=True)
    (function / "vendor").write_text("0x10de\n", encoding="utf-8")
    (function / "class").write_text("0x030200\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"this machine has accelerators \(nvidia at PCI 0000:1a:00.0\)"):
        node("h100-sxm", root=tmp_path)


def test_the_closing_line_says_so_first_whatever_it_is() -> None:
    for around in (Circumstances(), Circumstances(interrupted="Ctrl-C"), Circumstances(broken_tests=["t"])):
        real, rehearsed = close([], around), close([], Circumstances(**{**vars(around), "simulated": True}))
        assert (rehearsed.line, rehearsed.exit) == (f"SIMULATED {real.line}", real.exit)
        assert rehearsed.result == real.result


def rehearse(tmp_path: Path, file: str, *args: str, **more: Any) -> Ran:
    place = tmp_path / "out"
    options = [f"--accel-simulate={file}", "--accel-level=quick", f"--accel-output={place}"]
    return run_pytest(tmp_path, *options, *args, sku=None, paths=(), output=place, **more)


def test_only_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --accel-simulate=h100-sxm\n", encoding="utf-8")
    done = run_pytest(tmp_path, sku=None, paths=())
    assert done.exit == 4
    assert "--accel-simulate must be given on the command line" in done.out


@pytest.mark.parametrize(("sku", "library"), [("mi300x", "amdsmi"), ("h100-sxm", "pynvml")])
def test_a_missing_library_is_an_error_of_use_and_no_rejected_node(tmp_path: Path, sku: str, library: str) -> None:
    (tmp_path / "without.py").write_text(f"import sys\nsys.modules[{library!r}] = None\n", encoding="utf-8")
    done = rehearse(tmp_path, sku, "-p", "without", env={"PYTHONPATH": str(tmp_path)})
    assert done.exit == 4, done.out
    assert f"ERROR: --accel-simulate: a simulated {'AMD' if library == 'amdsmi' else 'NVIDIA'} node needs " in done.out
    assert "pip install" in done.out
    assert not (tmp_path / "out" / "record.json").exists()


def test_a_wrong_node_file_is_one_sentence_and_exit_4(tmp_path: Path, write: Callable[..., str]) -> None:
    done = rehearse(tmp_path, write("fault: slow, device: 1"))
    assert done.exit == 4
    assert "ERROR: --accel-simulate: " in done.out
    assert "node.yaml:4: faults.fault: 'slow' is not known; did you mean" in done.out


@pytest.mark.nightly
def test_a_healthy_node_is_simulated_and_nothing_else(tmp_path: Path, write: Callable[..., str]) -> None:
    torch_features.skip_without_fp8()  # which a limit requires
    done = rehearse(tmp_path, write(head="sku: h100-sxm\nplatform: single"), "--junitxml=junit.xml")
    assert done.exit == 0
    worth = "(matmul by 4 publishers, host link by 5)"
    assert done.closing == f"SIMULATED ACCEPTED 1/1 devices as h100-sxm at quick {worth}"
    assert done.out.count("SIMULATED") >= 3, "header, table, closing line"
    assert len(done.out.splitlines()) <= 40
    assert done.record["info"]["simulated"]["node"].endswith("node.yaml")
    assert done.record["closing"]["result"] == "ACCEPTED"
    assert '<property name="accel.simulated" value="' in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    uuid = done.record["devices"][0]["uuid"]
    rehearsal, earlier = (earlier_records.read(tmp_path / "next", rehearsal=each) for each in (True, False))
    assert [entry["devices"] for entry in rehearsal.entries_of([uuid])] == [[uuid]], "a rehearsal of the next one"
    assert (earlier.entries_of([uuid]), earlier.last_accelerators(done.record["info"]["host"])) == ([], None)


@pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
def test_what_cannot_exist_on_a_product_is_not_in_its_record(tmp_path: Path, write: Callable[..., str]) -> None:
    """The width of a link is read during copies to the device. An APU has none, so its record was not believed."""
    done = rehearse(tmp_path, write(head="sku: mi300a\nplatform: single"), "-k", "host_copy")
    copied = {each["metric"] for each in done.record["measurements"] if each["metric"].startswith("host_copy.")}
    assert copied == {"host_copy.pcie_gen", "host_copy.pcie_width"}
    assert "not believed" not in done.closing


@pytest.mark.nightly
def test_a_device_that_hung_is_not_waited_for_again(tmp_path: Path, write: Callable[..., str]) -> None:
    """Its first answer decides; what it was not asked any more is no pass, and the other device is judged in full."""
    done = rehearse(tmp_path, write("fault: hang, device: 1"), "--accel-patience=5", "-k", "stream")
    measured = [each for each in done.record["measurements"] if done.names[each["subject"]] == "gpu1"]
    events = [each["trouble"]["event"] for each in measured if each["trouble"]]
    assert events.count("hung") == 1
    assert set(events) == {"hung", "left out"}
    judged = {metric: done.statuses(metric) for metric in ("stream.copy_kernel", "stream.triad")}
    assert set(map(tuple, map(dict.items, judged.values()))) == {(("gpu0", "PASS"), ("gpu1", "FAIL"))}
    assert done.closing.startswith("SIMULATED REJECTED gpu1: stream.copy_kernel its process sent nothing for 15 s")
