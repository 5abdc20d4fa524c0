"""Vendors are declared by entry points: ours, a third party's, and those that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path
from typing import Any

import pytest
from support import as_user

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import Driver, DriverProblem, Hint, NoDriver, TorchKind, Vendor, registry, sensor
from pytest_accel.drivers.host.hints import hints
from pytest_accel.run.processes.programs import environment_of, readings_per_second

OURS = ["amd", "ascend", "cpu", "google", "habana", "intel", "neuron", "nvidia"]
GOOD = """
from pytest_accel.drivers import Vendor

VENDOR = Vendor(name="acme", title="ACME", make_driver=lambda shown: None)
"""


class Plain(Driver):
    """A driver of one device."""

    def discover(self) -> list[Device]:
        return [Device("ACME-1", 0, "acme", "ACME X1")]

    def read(self, device: Device) -> dict[str, float]:
        return {}


ACME = Vendor(name="acme", title="ACME", make_driver=lambda shown: Plain(), short_name="acme")
BOARD = Vendor(name="bread", title="Board", make_driver=lambda shown: Plain(), accelerator=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python imports from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def installed(site: Path, distribution: str, entries: str, **modules: str) -> list[EntryPoint]:
    """Install a distribution as pip would lay it down; returns the vendors that it declares."""
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
    folder = site / f"{distribution}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{entries}\n")
    return list(PathDistribution(folder).entry_points)


def using(monkeypatch: pytest.MonkeyPatch, *vendors: Vendor, **problems: str) -> None:
    """Have these vendors declared, and no other."""
    found = registry.Registry({each.name: each for each in vendors}, problems)
    monkeypatch.setattr(registry, "registered", lambda: found)


# -- what is declared


def test_our_own_vendors_come_by_the_same_way() -> None:
    assert sorted(registry.registered().vendors) == OURS
    assert registry.registered().problems == {}


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("from pytest_accel.drivers import registry; registry.registered()", ("torch", "pynvml", "amdsmi", "psutil")),
        ("import pytest_accel.plugin", ("pytest_accel.drivers",)),
    ],
)
def test_a_declaration_imports_no_library_and_loading_the_plugin_no_declaration(
    code: str, without: tuple[str, ...]
) -> None:
    """Every process of a run reads all of them, pytest itself included."""
    script = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith(without)]


# -- what cannot be used is said, with the distribution and the entry


@pytest.mark.parametrize(
    ("name", "module", "said"),
    [
        ("acme", "import no_such_library", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_library'"),
        ("acme", "1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("acme", "", "cannot be loaded: AttributeError"),
        ("acme", "VENDOR = 'acme'", "is a str, not a pytest_accel.drivers.Vendor"),
        ("umbrella", GOOD, "declares a vendor of another name: acme"),
    ],
)
def test_a_broken_declaration_costs_only_itself(site: Path, name: str, module: str, said: str) -> None:
    bad = installed(site, "bad-accel", f"{name} = bad_accel:VENDOR", bad_accel=module)
    other = GOOD.replace('name="acme"', 'name="other"')
    found = registry.read([*bad, *installed(site, "other-accel", "other = acme_other:VENDOR", acme_other=other)])
    assert list(found.vendors) == ["other"]
    [(broken, why)] = found.problems.items()
    assert broken == name
    assert why.startswith(f"bad-accel: the entry point {name} = bad_accel:VENDOR of pytest_accel_drivers {said}")


def test_two_distributions_that_declare_one_vendor_are_both_named_and_neither_is_used(site: Path) -> None:
    one = installed(site, "acme-accel", "acme = acme_good:VENDOR", acme_good=GOOD)
    found = registry.read([*one, *installed(site, "acme-fork", "acme = acme_fork:VENDOR", acme_fork=GOOD)])
    assert found.vendors == {}
    assert found.problems["acme"] == "acme-accel and acme-fork both declare the vendor acme: uninstall all but one"


def test_no_vendor_at_all_is_an_old_installation() -> None:
    assert "install pytest-accel again" in registry.read([]).problems["pytest-accel"]


def test_a_vendor_that_nobody_declares_is_an_accelerator_that_cannot_be_opened() -> None:
    """As in a record that was written where its package is installed."""
    unknown = registry.vendor("umbrella")
    assert unknown.accelerator
    with pytest.raises(NoDriver, match="no installed package declares a vendor umbrella"):
        unknown.driver([])


# -- what the rest takes from a declaration


def raising(error: Exception) -> Callable[[Sequence[Hint]], Driver]:
    """What makes a driver and fails."""

    def make(shown: Sequence[Hint]) -> Driver:
        raise error

    return make


def announced(want: str | None, *shown: Hint, container: str = "") -> dict[str, Any]:
    """The answer of a sensor to `discover`."""
    sent: list[dict[str, Any]] = []
    pipe: Any = type("Pipe", (), {"send": staticmethod(lambda event, **fields: sent.append(fields))})
    machine = sensor.Machine(hints=lambda: list(shown), container=lambda: container, kernel_reports=None)
    sensor.Sensor(pipe, machine).discover(want)
    return sent[0]


def test_a_broken_declaration_is_announced_whatever_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, ACME, umbrella="umbrella-accel: cannot be loaded")
    wanted = {"driver": "umbrella", "kind": "need", "reason": "umbrella-accel: cannot be loaded", "shown": []}
    assert announced("acme")["problems"] == [wanted]
    assert announced("umbrella")["problems"] == [wanted]


def test_a_driver_that_raises_anything_keeps_no_other_from_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, ACME, Vendor(name="bad", title="Bad", make_driver=raising(KeyError("serial"))))
    answer = announced(None, Hint("bad", node="/dev/bad0"), Hint("acme", node="/dev/acme0"))
    assert [each["uuid"] for each in answer["devices"]] == ["ACME-1"]
    [problem] = answer["problems"]
    assert (problem["driver"], problem["kind"], problem["shown"]) == ("bad", "need", ["/dev/bad0"])
    assert problem["reason"] == "its driver failed: KeyError: 'serial'"


def test_a_library_that_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = raising(ModuleNotFoundError("No module named 'acme_smi'", name="acme_smi"))
    using(monkeypatch, replace(ACME, make_driver=missing, library="acme_smi", install="install ACME 2"))
    [problem] = announced("acme")["problems"]
    assert (problem["kind"], problem["reason"]) == ("device", "acme_smi cannot be imported: install ACME 2")

    [problem] = announced("acme", container="podman")["problems"]
    why = "acme_smi cannot be imported: install ACME 2; this is a container (podman), which may lack it"
    assert (problem["kind"], problem["reason"]) == ("need", why)


def test_a_device_that_does_not_answer_is_at_fault_in_a_container_too(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, replace(ACME, make_driver=raising(DriverProblem("GPU 0 does not answer: GPU is lost"))))
    [problem] = announced("acme", container="docker")["problems"]
    assert problem["kind"] == "device"


def test_where_no_accelerator_is_shown_the_machine_itself_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, ACME, BOARD)
    assert sensor.of_every_machine() == ["bread"]
    assert len(announced(None)["devices"]) == 1


class Pair(Driver):
    """A driver of two devices, of which the second states `uuid`, and of one that does not answer."""

    problems = ("card 2 does not answer",)

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid

    def discover(self) -> list[Device]:
        places = (("ACME-1", "0000:17:00.0"), (self.uuid, "0000:18:00.0"))
        return [Device(uuid, index, "acme", "ACME X1", pci_address=place) for index, (uuid, place) in enumerate(places)]

    def read(self, device: Device) -> dict[str, float]:
        return {}


SLOTS = [Hint("acme", pci=f"0000:{slot}:00.0") for slot in (17, 18, 19)]


def test_a_lost_device_is_shown_at_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of the healthy ones beside it would send somebody to the wrong slot."""
    using(monkeypatch, replace(ACME, make_driver=lambda shown: Pair("ACME-2")))
    [problem] = announced(None, *SLOTS)["problems"]
    assert problem["shown"] == ["PCI 0000:19:00.0"]


def test_two_devices_of_one_identity_are_one_device_and_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, replace(ACME, make_driver=lambda shown: Pair("ACME-1")))
    answer = announced(None, *SLOTS)
    assert [each["index"] for each in answer["devices"]] == [0]
    assert (answer["problems"][0]["kind"], answer["problems"][0]["reason"]) == (
        "device",
        "acme0 (0000:17:00.0) and acme1 (0000:18:00.0) state the same UUID ACME-1",
    )


def test_a_library_may_find_devices_that_the_machine_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in WSL2, where neither the PCI bus nor /dev shows a GPU and NVML answers."""
    using(monkeypatch, replace(ACME, unseen=True), BOARD)
    assert [each["driver"] for each in announced(None)["devices"]] == ["acme"]


def test_a_library_that_finds_nothing_unseen_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without an accelerator has no failing driver because a Python package is installed."""
    missing = raising(DriverProblem("the library is not there"))
    using(monkeypatch, replace(ACME, unseen=True, make_driver=missing), BOARD)
    answer = announced(None)
    assert ([each["driver"] for each in answer["devices"]], answer["problems"]) == (["bread"], [])


def test_a_machine_shows_the_devices_of_a_third_party(tmp_path: Path) -> None:
    function = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    function.mkdir(parents=True)
    (function / "vendor").write_text("0xacce\n")
    (function / "class").write_text("0x120000\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/acme0").touch()
    bus = replace(ACME, pci_vendor="0xacce", pci_classes=("0x1200",))
    nodes = replace(ACME, nodes=("acme[0-9]*",))
    assert hints(tmp_path, [bus]) == [Hint("acme", pci="0000:17:00.0")]
    assert hints(tmp_path, [nodes]) == [Hint("acme", node="/dev/acme0")]


def test_a_worker_of_devices_that_torch_drives_on_the_processor_sees_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, replace(ACME, torch=TorchKind("cpu", "gloo"), readings_per_second=3.0))
    devices = Plain().discover()
    assert environment_of(devices)["CUDA_VISIBLE_DEVICES"] == ""
    assert readings_per_second(devices) == 3.0


# -- seen by a user


@pytest.mark.devices
def test_a_broken_driver_is_seen_and_nothing_is_accepted(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    installed(site, "bad-accel", "bad = bad_accel:VENDOR", bad_accel="import no_such_library")
    path = {"PYTHONPATH": f"{site}:{as_user.STUB_TORCH['PYTHONPATH']}"}
    sentence = "bad-accel: the entry point bad = bad_accel:VENDOR of pytest_accel_drivers cannot be loaded"

    command = [str(as_user.BIN / "pytest-accel"), "discover"]
    shown = subprocess.run(command, env=as_user.environment(path), capture_output=True, text=True, check=False)
    assert shown.returncode == 6
    assert f"bad: {sentence}" in shown.stderr

    ran = as_user.pytest(tmp_path, "-k", "inventory", paths=(), env=path)
    assert ran.exit == 6, ran.out
    assert ran.statuses("inventory.driver") == {"node": "UNMEASURED"}
    assert set(ran.statuses("inventory.sku").values()) == {"PASS"}, "the rest goes on"
    assert sentence in ran.out
