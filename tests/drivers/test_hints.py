"""Accelerators that the machine shows without any library, read from a made /sys and /dev."""

from pathlib import Path

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.drivers import Hint
from pytest_accel.drivers.host.hints import hints

CASES = data_files.tables("drivers/hints")


def function(root: Path, address: str, vendor: str, kind: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")


def eight(root: Path, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    for bus in range(8):
        function(root, f"0000:0{bus}:00.0", vendor, kind)


def node(root: Path, name: str) -> None:
    path = root / "dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@each_row(("vendor", "kind", "driver"), CASES["functions"])
def test_a_pci_function_is_an_accelerator_by_vendor_and_class(
    tmp_path: Path, vendor: str, kind: str, driver: str | None
) -> None:
    function(tmp_path, "0000:17:00.0", vendor, kind)
    assert hints(tmp_path) == ([Hint(driver, pci="0000:17:00.0")] if driver else [])


@each_row(("name", "driver"), CASES["nodes"])
def test_in_a_container_the_device_nodes_tell(tmp_path: Path, name: str, driver: str | None) -> None:
    node(tmp_path, name)
    assert hints(tmp_path) == ([Hint(driver, node=f"/dev/{name}")] if driver else [])


def test_the_bus_is_believed_over_the_nodes(tmp_path: Path) -> None:
    """Otherwise every device would be counted twice."""
    function(tmp_path, "0000:17:00.0", "0x10de", "0x030200")
    node(tmp_path, "nvidia0")
    assert hints(tmp_path) == [Hint("nvidia", pci="0000:17:00.0")]


@each_row(("given", "where"), [(0, "PCI"), (1, "/dev/nvidia"), (3, "/dev/nvidia"), (8, "PCI")])
def test_a_container_is_to_reach_what_it_was_given_and_sees_the_bus_of_its_host(
    tmp_path: Path, given: int, where: str
) -> None:
    eight(tmp_path)
    for place in range(given):
        node(tmp_path, f"nvidia{place}")
    assert {hint.where[:3] for hint in hints(tmp_path)} == {"PCI"}, "on the host, one without a node is lost"
    (tmp_path / ".dockerenv").touch()
    found = hints(tmp_path)
    assert len(found) == (given or 8)
    assert all(hint.where.startswith(where) for hint in found)


@each_row(("given", "count"), [(0, 8), (1, 1), (4, 4), (8, 8)])
def test_a_job_is_to_reach_the_nodes_that_its_cgroup_lets_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: int, count: int
) -> None:
    """Otherwise the seven other GPUs of the host would be missing in a job of Slurm that was given one."""
    eight(tmp_path)
    for place in range(8):
        node(tmp_path, f"nvidia{place}")
    monkeypatch.setattr("os.access", lambda path, _mode: int(Path(path).name.removeprefix("nvidia")) < given)
    assert len(hints(tmp_path)) == count


@pytest.mark.parametrize(("driver", "count"), [("vfio-pci", 4), ("nvidia", 8)])
def test_what_the_host_keeps_for_a_virtual_machine_is_not_expected(tmp_path: Path, driver: str, count: int) -> None:
    (tmp_path / "sys/bus/pci/drivers" / driver).mkdir(parents=True)
    eight(tmp_path)
    for place in range(4):
        link = tmp_path / f"sys/bus/pci/devices/0000:0{place}:00.0/driver"
        link.symlink_to(tmp_path / "sys/bus/pci/drivers" / driver)
    assert len(hints(tmp_path)) == count


def test_one_node_for_all_devices_does_not_tell_their_number(tmp_path: Path) -> None:
    eight(tmp_path, "0x1002", "0x120000")
    node(tmp_path, "kfd")
    (tmp_path / ".dockerenv").touch()
    assert len(hints(tmp_path)) == 8


def test_an_unreadable_function_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices/0000:01:00.0").mkdir(parents=True)
    function(tmp_path, "0000:17:00.0", "0x10de", "0x030200")
    assert hints(tmp_path) == [Hint("nvidia", pci="0000:17:00.0")]
