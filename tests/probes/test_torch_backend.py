"""Probes on a torch that drives something else than CUDA. The stand-in answers from the CPU, below our code."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import as_user
from support.rows import each_row

pytest.importorskip("torch")

import torch
from support.probe_device import AtOnce, Instead
from torch_module import module

from pytest_accel import probes
from pytest_accel.core.measurement import Device
from pytest_accel.drivers import registry
from pytest_accel.probes.device import error_class, worker
from pytest_accel.probes.device.error_class import NotApplicable, Unmeasurable
from pytest_accel.probes.device.torch_device import Compute


def _unpinned(*size: Any, pin_memory: bool = False, **how: Any) -> torch.Tensor:
    """Memory of the host is pinned for an accelerator, which is not there."""
    return torch.empty(*size, **how)


class Torch(Instead):
    """torch with another accelerator, whose memory is the host's."""

    def __init__(self, accelerator: Any, **names: Any) -> None:
        super().__init__(
            torch,
            get_device_module=lambda name: accelerator,
            device=lambda name, place=0: torch.device("cpu"),
            empty=_unpinned,
            **names,
        )


def on(monkeypatch: pytest.MonkeyPatch, stand_in: Any, count: int = 1, driver: str = "intel", **facts: Any) -> Compute:
    """The devices as a worker opens them."""
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    address = "0000:{:02x}:00.0"
    devices = [
        Device(f"PCI-{place}", place, driver, "", pci_id="8086:0bd5", pci_address=address.format(place), facts=facts)
        for place in range(count)
    ]
    found = Compute(devices, AtOnce())
    found.seconds = 0.15
    return found


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Compute:
    return on(monkeypatch, Torch(module()))


def test_it_is_no_cpu_and_says_who_drives_it(device: Compute) -> None:
    assert not device.is_cpu
    assert not device.measures_peak
    assert device.extra_conditions["driven_by"] == "torch.xpu"
    assert device.extra_conditions["identity"].startswith("not verified: torch.xpu does not report the PCI address")
    [finding] = worker._results([1.0], "own", device.extra_conditions)
    assert finding.conditions == device.extra_conditions, "it stands with every figure"


def test_every_probe_of_one_device_is_measured(device: Compute) -> None:
    found = [probes.matmul(device, dtype=dtype, m=64, n=64, k=64) for dtype in ("fp32", "bf16")]
    found += [probes.stream(device, op=op, mib=1) for op in ("copy", "triad", "read")]
    copies = [probes.host_copy(device, direction=direction, mib=1) for direction in ("h2d", "d2h", "both")]
    assert [each.metric for each in [*found, *copies] if not each.samples] == []
    assert all(each.conditions["pinned"] for each in copies)
    assert probes.memory_pattern(device, mib=1).value == 0
    assert probes.exact_matmul(device, dtype="fp32", m=64, n=64, k=64).value == 0
    soaked = [each.metric for each in probes.soak(device, dtype="fp32", m=64, n=64, k=64)]
    assert soaked == ["soak.rate", "soak.droop_slow", "soak.slowest_window", "matmul.fp32"]


@pytest.mark.parametrize("known", [True, None])
def test_peer_copy(monkeypatch: pytest.MonkeyPatch, known: bool | None) -> None:
    tell = (lambda here, there: True) if known else None
    device = on(monkeypatch, Torch(module(can_device_access_peer=tell)), count=2)
    monkeypatch.setattr(device, "torch_devices", [torch.device("cpu", 0)] * 2)
    first = next(probes.peer_copy(device, mib=1))
    assert first.samples
    assert first.conditions["peer_access"] is known


# -- what torch does not have is a sentence


@each_row("name", ["Event", "synchronize", "mem_get_info", "Stream", "stream", "current_stream"])
def test_what_the_module_lacks_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    device = on(monkeypatch, Torch(module(**{name: None})))
    with pytest.raises(Unmeasurable, match=rf"^torch\.xpu \(torch .*\) has no {name}$"):
        probes.host_copy(device, direction="both", mib=1)


@pytest.mark.parametrize("name", ["device_count", "set_device"])
def test_so_is_what_opens_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(Unmeasurable, match=f"has no {name}"):
        on(monkeypatch, Torch(module(**{name: None})))


@pytest.mark.parametrize("name", ["empty_cache", "init", "get_device_properties"])
def test_what_is_only_a_help_may_lack(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert probes.stream(on(monkeypatch, Torch(module(**{name: None}))), mib=1).samples


def raises(error: Exception) -> Any:
    def call(*given: object, **named: object) -> None:
        raise error

    return call


def test_events_without_a_time_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = on(monkeypatch, Torch(module(Event=raises(TypeError("unexpected keyword 'enable_timing'")))))
    with pytest.raises(Unmeasurable, match=r"no events that can be timed: unexpected keyword"):
        probes.matmul(device, dtype="fp32", m=32, n=32, k=32)
    device = on(monkeypatch, Torch(module(Event=lambda enable_timing: SimpleNamespace())))
    with pytest.raises(Unmeasurable, match="its events have no elapsed_time"):
        probes.matmul(device, dtype="fp32", m=32, n=32, k=32)


def test_a_dtype_that_the_library_refuses_does_not_apply_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = NotImplementedError("Could not run 'aten::_int_mm' with arguments from the 'XPU' backend.\nmore")
    device = on(monkeypatch, Torch(module(), _int_mm=raises(refused)))
    words = r"^torch\.xpu cannot multiply int8: Could not run 'aten::_int_mm' .* backend\.$"
    with pytest.raises(NotApplicable, match=words):
        probes.matmul(device, dtype="int8", m=64, n=64, k=64)


def test_memory_of_the_host_that_cannot_be_pinned_is_a_need(device: Compute) -> None:
    device.torch = Instead(torch, empty=raises(RuntimeError("Cannot access accelerator device")))
    with pytest.raises(Unmeasurable, match=r"torch cannot pin host memory for torch\.xpu: Cannot access"):
        probes.host_copy(device, mib=1)


def test_a_library_of_short_integers_is_not_taken_for_bad_memory(device: Compute) -> None:
    class Short(torch.Tensor):
        """int64 that is kept as int32."""

        def to(self, *given: Any, **named: Any) -> Any:
            return self.as_subclass(torch.Tensor).to(torch.int32).to(torch.int64)

    device.torch = Instead(torch, tensor=lambda numbers: torch.tensor(numbers).as_subclass(Short))
    with pytest.raises(Unmeasurable, match="does not keep 64-bit integers"):
        probes.memory_pattern(device, mib=1)


# -- what keeps it from being opened


def test_a_torch_without_the_vendor_is_a_need(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "torch .* cannot use PCI id 8086:0bd5: "
    with pytest.raises(Unmeasurable, match=words + "Torch not compiled with XPU enabled"):
        on(monkeypatch, Torch(module(init=raises(AssertionError("Torch not compiled with XPU enabled")))))
    with pytest.raises(Unmeasurable, match=words + r"torch\.xpu sees no device"):
        on(monkeypatch, Torch(module(device_count=lambda: 0)))
    with pytest.raises(Unmeasurable, match=r"torch\.xpu sees only 2 of 3 devices"):
        on(monkeypatch, Torch(module()), count=3)


def test_the_real_torch_of_a_machine_without_any_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stand-in at all: what a user reads whose torch is another vendor's."""
    said = {"intel": "cannot use PCI id 8086:0bd5", "ascend": "torch_npu", "habana": "habana_frameworks"}
    for driver, words in said.items():
        with pytest.raises(Unmeasurable, match=words):
            on(monkeypatch, torch, driver=driver, module_id="0")


@pytest.mark.parametrize("driver", ["google", "neuron"])
def test_torch_xla_is_not_driven(monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    with pytest.raises(Unmeasurable, match="torch_xla has no streams and events that can be timed"):
        on(monkeypatch, Torch(module()), driver=driver)


def test_another_product_than_meant_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    integrated = SimpleNamespace(device_id=0x56C0)
    with pytest.raises(Unmeasurable, match="torch opened another device: 56c0 instead of PCI-0"):
        on(monkeypatch, Torch(module(get_device_properties=lambda place: integrated)))


def test_an_address_that_torch_tells_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(bus: int) -> Torch:
        told = SimpleNamespace(device_id=0x0BD5, pci_domain_id=0, pci_bus_id=bus, pci_device_id=0)
        return Torch(module(get_device_properties=lambda place: told))

    verified = "verified by the PCI address of the device that torch opened"
    assert on(monkeypatch, at(0)).extra_conditions["identity"] == verified
    with pytest.raises(Unmeasurable, match="torch opened another device: 0000:07:00 instead of PCI-0"):
        on(monkeypatch, at(7))


def test_a_gaudi_is_named_by_its_module_or_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unmeasurable, match=r"the module of 0000:00:00\.0 is not known"):
        on(monkeypatch, Torch(module()), driver="habana")
    with pytest.raises(Unmeasurable, match="a process can open only one Gaudi"):
        on(monkeypatch, Torch(module()), driver="habana", count=2, module_id="0")


# -- what an error says


def test_an_error_of_a_library_that_we_do_not_know_blames_nobody() -> None:
    odd = RuntimeError("UR backend failed with error 40")
    assert error_class.trouble_kind_of(odd, other=True) == "need"
    assert error_class.trouble_kind_of(odd) == "bug"
    assert error_class.trouble_kind_of(KeyError("a probe's own"), other=True) == "bug"


def test_a_device_that_its_library_calls_lost_is_to_blame() -> None:
    lost = RuntimeError("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")
    intel, gaudi = (registry.vendor(name).torch for name in ("intel", "habana"))
    assert intel
    assert gaudi
    assert error_class.trouble_kind_of(lost, other=True, words=intel.device_errors) == "device"
    assert error_class.context_is_lost(lost, intel.device_errors)
    of_another = error_class.trouble_kind_of(lost, other=True, words=gaudi.device_errors)
    assert of_another == "need", "it is no word of that library"


# -- a whole run, in processes of its own

SITE = """
import pathlib, sys
sys.path.insert(0, {tests!r})
from pytest_accel.drivers import Hint, pci, pci_only
from pytest_accel.drivers.host import hints
from pytest_accel.drivers.host.host_environment import HostEnvironment
pci.DEVICES = pathlib.Path({bus!r})
hints.hints = lambda: [Hint("habana", pci="0000:33:00.0")]
pci_only.host_environment = lambda: HostEnvironment(False, "", "")
"""
"""A node with one Gaudi3 on its bus, for every process that begins."""

CORE = """
import torch
from torch_module import module

device, told = torch.device, torch.get_device_module

class Kind(type):
    def __instancecheck__(cls, thing):
        return isinstance(thing, device)

class Device(metaclass=Kind):
    def __new__(cls, name, *place):
        return device("cpu") if str(name).startswith("hpu") else device(name, *place)

hpu = module(device_count=lambda: 1, get_device_properties=None)
torch.device = Device
torch.get_device_module = lambda name: hpu if name == "hpu" else told(name)
"""
"""What the vendor's package is to torch: it gives it a device, here one whose memory is the host's."""


SMALL = "  matmul_mamf: {shapes: {bf16: [64, 64, 64], fp8: [64, 64, 64]}}\n"


@pytest.mark.nightly
@pytest.mark.devices
def test_a_node_of_gaudi_is_measured_and_shown_and_never_accepted(tmp_path: Path) -> None:
    site, bus = tmp_path / "site", tmp_path / "bus" / "0000:33:00.0"
    package = site / "habana_frameworks" / "torch"
    for folder in (package, bus):
        folder.mkdir(parents=True)
    (site / "sitecustomize.py").write_text(SITE.format(tests=str(Path(__file__).parent), bus=str(bus.parent)))
    (package / "core.py").write_text(CORE)
    for name, text in {"vendor": "0x1da3", "device": "0x1060", "module_id": "3", "current_link_width": "16"}.items():
        (bus / name).write_text(f"{text}\n")
    (tmp_path / "own.yaml").write_text("sku: own\nextends: gaudi3\nprobes:\n  matmul: {m: 64, n: 64, k: 64}\n" + SMALL)
    wanted = "inventory or health or (test_matmul and (fp32 or bf16))"
    ran = as_user.pytest(tmp_path, "-k", wanted, sku="own.yaml", paths=(), env={"PYTHONPATH": str(site)})

    assert ran.exit == 6, ran.out
    assert ran.closing.startswith("NOT JUDGED")
    assert ran.statuses("inventory.driver") == {"node": "UNMEASURED"}
    assert list(ran.statuses("health.pcie_width").values()) == ["PASS"]
    assert "gpu0, before the run: whether it was idle is not known" in ran.out
    measured = [each for each in ran.record["measurements"] if each["metric"] == "matmul.bf16"]
    assert [each["unit"] for each in measured] == ["TFLOPS"]
    assert measured[0]["samples"]
    assert measured[0]["conditions"]["driven_by"] == "torch.hpu"
    assert measured[0]["conditions"]["identity"].startswith("not verified")


def test_a_device_that_is_lost_while_it_is_opened_is_to_blame() -> None:
    """There is no device in the process yet, but the vendor of the one that is being opened is known."""
    sent: list[dict[str, Any]] = []

    class Heard:
        def send(self, event: str, **fields: Any) -> None:
            sent.append({"event": event, **fields})

    def opened(devices: list[Device], gate: Any, visible: Any) -> Any:
        raise RuntimeError("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")

    opening = worker.Worker(Heard(), None, opened)  # type: ignore[arg-type]
    opening.take({"event": "open", "devices": [{"uuid": "X", "index": 0, "driver": "intel", "model": "Max"}]})
    assert [each["kind"] for each in sent] == ["device"]
