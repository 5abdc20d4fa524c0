"""What the kernel log says of failing hardware: real lines, told apart, laid to device or node, judged by class."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import shipped
from in_process import Kept

from pytest_accel.core.measurement import NODE
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import kernel_log
from pytest_accel.drivers.kernel_messages import SOURCE, find, messages
from pytest_accel.drivers.sensor import Sensor
from pytest_accel.judging.facts.error_counters import ReadingWindow
from pytest_accel.judging.facts.error_reports import Ended, ErrorReports
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.skus import requirements

WINDOWS = [ReadingWindow("matmul.bf16", 0.0, 10.0), ReadingWindow("soak.rate", 10.0, 20.0)]
OURS = {"GPU-0": "0000:0c:00.0", "GPU-1": "0000:e3:00.0"}
OF = {"nvidia": ("h100-sxm", "hgx8"), "amd": ("mi300x", "oam8")}

LINES = [
    # NVIDIA/nvtrust issue 124 (the words), leptonai/gpud components/.../sxid (the number and text of the fatal one)
    ("nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
     "NVSwitch non-fatal", "0000:04:00.0"),
    ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
     "NVSwitch fatal", "0000:00:00.0"),
    # leptonai/gpud, docs of its SXid component
    ("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.", "off the bus", "0000:91:00.0"),
    # NVIDIA/NVSentinel issue 155: one record, whose line breaks the kernel escapes; and as three records
    ((r"NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has\x0a"
      r"NVRM: fallen off the bus and is not responding to commands."), "not responding", "0000:b3:00.0"),
    ("NVRM: fallen off the bus and is not responding to commands.", "not responding", ""),
    # NVIDIA/gpu-operator issue 1146
    ("NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "not initialised", "0000:0a:00.0"),
    # scitix/sichek issue 51, kubernetes-sigs/dra-driver-nvidia-gpu issue 982; NVIDIA/open-gpu-kernel-modules issue 1045
    ("NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)",
     "reset required", ""),
    ("NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)",
     "reset required", ""),
    # NVIDIA/open-gpu-kernel-modules issue 688
    ("NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)",
     "lost from the bus", ""),
    # ROCm/legacy-rocm-build issue 4021 (MI300X) and 1886 (MI50)
    ("amdgpu 0000:1c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
     "amdgpu uncorrectable", "0000:1c:00.0"),
    ("amdgpu 0000:e3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
     "amdgpu uncorrectable", "0000:e3:00.0"),
    ("amdgpu 0000:e3:00.0: amdgpu: GPU reset begin!", "amdgpu reset", "0000:e3:00.0"),
    # pop-os/cosmic-epoch issue 3764
    ("amdgpu 0000:0c:00.0: GPU reset begin!. Source:  1", "amdgpu ring timeout", "0000:0c:00.0"),
    ("amdgpu 0000:0c:00.0: ring gfx_0.0.0 timeout, signaled seq=5389552, emitted seq=5389554",
     "amdgpu ring timeout", "0000:0c:00.0"),
    # Linux, amdgpu_ras.c and kfd_int_process_v9.c: the format strings, filled in
    ("amdgpu 0000:0c:00.0: amdgpu: {2}socket: 4, die: 0, 10 new uncorrectable hardware errors detected in umc block",
     "amdgpu uncorrectable", "0000:0c:00.0"),
    ("amdgpu 0000:0c:00.0: amdgpu: 1 uncorrectable hardware errors detected in gfx block",
     "amdgpu uncorrectable", "0000:0c:00.0"),
    ("amdgpu 0000:0c:00.0: amdgpu: {2}socket: 4, die: 0, 1 new deferred hardware errors detected in umc block",
     "amdgpu deferred", "0000:0c:00.0"),
    ("amdgpu 0000:0c:00.0: amdgpu: RAS poison consumption, unmap queue flow succeeded: client id 10",
     "amdgpu poison", "0000:0c:00.0"),
    # amd/node-scraper, test/unit/plugin/test_dmesg_analyzer.py
    ("amdgpu 0000:f5:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:0 vmid:0 pasid:0, for process pid 0)",
     "amdgpu page fault", "0000:f5:00.0"),
    # Red Hat solution 7128107; linux-pci, "PCI/DPC" threads of 2022
    ("pcieport 0000:03:04.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
     "PCIe fatal", "0000:03:04.0"),
    ("igb 0000:09:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
     "PCIe non-fatal", "0000:09:00.0"),
    ("pcieport 0000:00:1b.0: DPC: containment event, status:0x1f01 source:0x0000", "PCIe contained", "0000:00:1b.0"),
    # amd/node-scraper, ERROR_REGEX "PCIe Link Down"; Linux, pciehp_ctrl.c
    ("pcieport 0000:00:1b.0: pciehp: Slot(7): Link Down", "PCIe slot", "0000:00:1b.0"),
    # from linux-acpi (GHES threads) and linux-edac
    ("{1}[Hardware Error]: event severity: recoverable", "firmware: recoverable", ""),
    ("{1}[Hardware Error]: event severity: fatal", "firmware: fatal", ""),
    ("mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 5: bea0000000000108", "machine check", ""),
    ("[Hardware Error]: System Fatal error.", "machine check", ""),
    ("mce: Uncorrected hardware memory error in user-access at af34214200", "machine check", ""),
    ("EDAC MC3: 1 UE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 page:0x7e025e)",
     "memory uncorrectable", ""),
]  # fmt: skip
NO_NEWS = [
    # beside the lines of a dead GPU (NVSentinel issue 155, gpu-operator issue 1146, sichek issue 51)
    "NVRM: The NVIDIA probe routine failed for 1 device(s).",
    "NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 5",
    "NVRM: rpcRmApiAlloc_GSP: GspRmAlloc failed: hClient=0xc1d1a616; paramsStatus=0x00000062; status=0x00000062",
    # the lines that go with an SXid, and what a switch corrects (error_nvswitch.h)
    "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine instance 00",
    "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x000001c0, 0x00bd5c8a, 0x00000500, 0x00000064}",
    "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20012, Correctable, Link 28 RX CRC",
    # corrected: the counters have it; totals are told whenever somebody asks
    "amdgpu 0000:c1:00.0: amdgpu: socket: 4, die: 0 1 correctable hardware errors detected in total in gfx block",
    "amdgpu 0000:c1:00.0: amdgpu: socket: 4, die: 0, 3 uncorrectable hardware errors detected in total in umc block",
    "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
    "amdgpu 0000:0c:00.0: amdgpu: GPU reset succeeded, trying to resume",
    "amdgpu 0000:42:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0x98000800003e0000",
    "pcieport 0000:00:01.0: AER: Corrected error received: id=0008",
    "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=0008(Transmitter ID)",
    "{359}[Hardware Error]: event severity: corrected",
    "mce: [Hardware Error]: Machine check events logged",
    "mce: [Hardware Error]: CPU 20: Machine Check: 0 Bank 8: 8c00004000010090",
    "[Hardware Error]: Corrected error, no action required.",
    "EDAC MC0: 4858 CE memory read error on CPU_SrcID#0_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1021ad)",
]


def kmsg(line: str, priority: int = 3) -> str:
    """A record of /dev/kmsg."""
    return f"{priority},1234,5678901,-;{line}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:1b.0\n"


def event(line: str) -> dict[str, Any]:
    """The event in a log of one line; empty if there is none."""
    reports = kernel_log.Reports()
    return next(iter(reports.take(kmsg(line).encode()) + reports.end()), {})


@pytest.mark.parametrize(("line", "name", "address"), LINES)
def test_a_line_is_known_with_its_address(line: str, name: str, address: str) -> None:
    found = event(line)
    assert (found["message"], found["address"], found["at"]) == (name, address, pytest.approx(5.678901))
    assert found["text"] == line.removeprefix("{1}").removeprefix("[Hardware Error]: ")


@pytest.mark.parametrize("line", NO_NEWS)
def test_what_was_corrected_or_only_goes_with_it_is_no_news(line: str) -> None:
    assert find(line) is None


def test_every_message_has_a_real_line() -> None:
    """Those that several lines make are in test_real_kernel_logs.py."""
    assert set(messages()) - {name for _, name, _ in LINES} == {
        "reboot requested", "firmware of a GPU", "NVLinks not found", "no address space", "unread Xid",
        "amdgpu reset failed", "amdgpu lost", "amdgpu too hot", "amdgpu bad pages", "amdgpu not initialised",
        "amdgpu block", "amdgpu queues hang", "NIC health", "firmware: previous boot", "firmware: PCIe fatal",
        "firmware: PCIe",
    }  # fmt: skip


# -- laid to a device or the node, and judged


def heard(*lines: str, ended: tuple[Ended, ...] = ()) -> ErrorReports:
    """The reports of a node that has read these lines at 12 s, during the soak."""
    reports = ErrorReports(deaf={SOURCE: None}, ended=list(ended))
    for line in lines:
        reports.hear({**event(line), "at": 12.0, "source": SOURCE}, OURS)
    return reports


def verdict(line: str, metric: str, *, vendor: str = "nvidia", ended: tuple[Ended, ...] = ()) -> Verdict:
    reports, subject = heard(line, ended=ended), NODE if metric.startswith("host") else "GPU-0"
    return judge([reports.measured(metric, subject, WINDOWS)], limit(metric, vendor))


def limit(metric: str, vendor: str = "nvidia") -> Any:
    name, platform = OF[vendor]
    sku = shipped.load(name)
    return requirements.limits(sku, sku.platforms[platform], 8)[metric]


RESET = "amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!"
FATAL = "pcieport 0000:{}:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"


@pytest.mark.parametrize("vendor", OF)
def test_hardware_fails_its_device_and_advice_warns(vendor: str) -> None:
    found = verdict(FATAL.format("0c"), "counters.log_hardware", vendor=vendor)
    assert found.status is Status.FAIL
    assert sentence_of(found).startswith(
        "1, expected 0, during soak.rate: PCIe fatal, a PCI Express link failed; check"
    )
    assert "severity=Uncorrected (Fatal)" in sentence_of(found)
    advice = verdict(FATAL.format("0c").replace("Fatal", "Non-Fatal"), "counters.log_advice", vendor=vendor)
    assert advice.status is Status.MARGINAL


def test_what_is_at_no_device_is_the_nodes() -> None:
    bridge = FATAL.format("03")
    assert verdict(bridge, "counters.log_hardware").status is Status.PASS
    found = verdict(bridge, "host_counters.log_hardware")
    assert (found.status, found.subject) == (Status.FAIL, NODE)
    assert verdict(FATAL.format("0c"), "host_counters.log_hardware").status is Status.PASS, "that was the device's"
    switch = "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    assert verdict(switch, "host_counters.log_hardware").status is Status.FAIL


def test_another_graphics_card_is_no_fault_of_the_node() -> None:
    reports = ErrorReports(deaf={SOURCE: None})
    note = reports.hear({**event(RESET.replace("0c", "77")), "at": 12.0, "source": SOURCE}, OURS)
    assert reports.heard == []
    assert "amdgpu reset of 0000:77:00.0, which is not a device of this run" in str(note)


@pytest.mark.parametrize(
    ("ended", "counts"),
    [
        (Ended("GPU-0", 812, 11.0), False),
        (Ended("GPU-0", 812, 13.0), True),
        (Ended("GPU-0", 812, -60.0), True),
        (Ended("GPU-1", 812, 11.0), True),
    ],
)
def test_a_reset_after_we_killed_its_worker_is_ours(ended: Ended, counts: bool) -> None:
    assert verdict(RESET, "counters.log_hardware", vendor="amd", ended=(ended,)).value == int(counts)
    lost_data = "amdgpu 0000:0c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"
    assert verdict(lost_data, "counters.log_hardware", vendor="amd", ended=(ended,)).value == 1


@pytest.mark.parametrize(("ended", "count"), [((), 0), ((Ended("GPU-0", 812, 11.0),), 1)])
def test_a_port_follows_a_device_that_failed_and_none_that_we_reset(ended: tuple[Ended, ...], count: int) -> None:
    """A device that our own kill reset is not the cause of what a port reports beside it."""
    reports = heard(RESET, FATAL.format("03"), ended=ended)
    assert reports.measured("counters.log_hardware", "GPU-0", WINDOWS).value == 1 - count
    assert reports.measured("host_counters.log_hardware", NODE, WINDOWS).value == count


def test_of_a_flood_the_record_has_the_beginning() -> None:
    found = heard(*[FATAL.format("0c")] * 1000).measured("counters.log_hardware", "GPU-0", WINDOWS)
    assert (found.value, len(found.details["reports"])) == (1000, 50)


def test_an_xid_is_not_counted_twice() -> None:
    line = "NVRM: Xid (PCI:0000:0c:00): 79, pid=1234, name=python, GPU has fallen off the bus."
    assert verdict(line, "counters.log_hardware").value == 0


def test_who_may_not_read_the_log_is_not_judged_by_it() -> None:
    reports = ErrorReports(
        deaf={SOURCE: "/dev/kmsg: Permission denied (requires root, on the host instead of a container)"}
    )
    for metric in ("counters.log_hardware", "host_counters.log_hardware"):
        found = judge([reports.measured(metric, "GPU-0", WINDOWS)], limit(metric))
        assert found.status is Status.NOT_APPLICABLE
        assert "requires root" in sentence_of(found)


def test_without_a_probe_nothing_could_be_logged() -> None:
    assert ErrorReports(deaf={SOURCE: None}).measured("counters.log_hardware", "GPU-0", []).trouble


# -- the log itself


def test_the_sensor_tells_lines_from_xids() -> None:
    sent = Kept()
    lines = (FATAL.format("0c"), "NVRM: Xid (PCI:0000:0c:00): 79, pid=7, GPU has fallen off the bus.")
    Sensor(sent)._report(SOURCE, lambda: (kernel_log.parse(line) or {} for line in lines))  # type: ignore[arg-type]
    assert [each["event"] for each in sent] == ["hearing", "logged", "xid"]


def test_what_a_program_writes_into_the_log_is_not_the_kernels(tmp_path: Path) -> None:
    """Whoever echoes a line to /dev/kmsg gets the facility `user`; agents and drills do."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    events = kernel_log._events(reader, path)
    os.write(writer, kmsg(RESET, priority=12).encode())

    def later() -> None:
        os.write(writer, kmsg(FATAL.format("0c")).encode())

    threading.Timer(0.5, later).start()
    assert next(events)["message"] == "PCIe fatal"
