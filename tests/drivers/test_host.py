"""Facts of the host, read from a made tree of /proc, /sys and /dev: each also missing, hidden and garbage."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.host_tree import BUS, CPU, FAR_NIC, GPU, METAL, NIC, Tree, make, rdma, value, why
from support.rows import each_row

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.drivers.host import DECLARED, HostReader
from pytest_accel.drivers.host.host_environment import HostEnvironment, host_environment
from pytest_accel.drivers.host.reading import HOST_READERS, answer, needed, read

VIRTUAL = f"{NIC[:-1]}2"
"""A virtual function of the NIC."""
FAR_GPU = "sys/devices/pci0000:c0/0000:c0:0{0}.0/0000:c{0}:00.0"
PLACES = {"cpu": CPU, "port": str(Path(BUS).parent), "bus": BUS, "gpu": GPU, "nic": NIC, "far_nic": FAR_NIC,
          "virtual": VIRTUAL, "gpu1": FAR_GPU.format(1), "gpu2": FAR_GPU.format(2)}  # fmt: skip
CASES = data_files.tables("drivers/host")


def tree(told: Mapping[str, Any]) -> Tree:
    """The files of a tree of tests/data/drivers/host.yaml."""
    found: dict[str, str | bytes] = {}
    for what, content in told.items():
        name, *places = what.split()
        made = MADE[name](content, *places) if name in MADE else {what.format(**PLACES): content}
        found.update(made)
    return found


def gpu(files: Mapping[str, str], place: str = "gpu") -> Tree:
    """An accelerator on the PCI bus."""
    path = PLACES[place]
    address = Path(path).name
    group = f"sys/kernel/iommu_groups/{int(address[5:7], 16)}"
    inside = {"vendor": "0x10de", "class": "0x030200", "numa_node": "0", **files}
    return {
        **{f"{path}/{name}": text for name, text in inside.items()},
        f"sys/bus/pci/devices/{address} -> {path}": "",
        f"{group}/type": "identity",
        f"{path}/iommu_group -> {group}": "",
    }


def card(files: Mapping[str, str], name: str) -> Tree:
    """An Ethernet interface that `lost` its carrier so often; `infiniband` if it is an RDMA NIC's."""
    folder = f"sys/class/net/{name}"
    inside = {f"{folder}/device/{file}/x": text for file, text in {"x": "", **files}.items() if file != "lost"}
    return {**inside, f"{folder}/type": "1", f"{folder}/carrier_down_count": files.get("lost", "3")}


def config(capabilities: list[list[int]]) -> bytes:
    """A PCI configuration space with extended capabilities: number and the 16 bits at offset 6 of each."""
    space = bytearray(4096)
    for place_, (number, control) in enumerate(capabilities):
        at, following = 0x100 + 0x40 * place_, 0x140 + 0x40 * place_
        last = place_ == len(capabilities) - 1
        struct.pack_into("<IHH", space, at, number | 1 << 16 | (0 if last else following) << 20, 0xFF, control)
    return bytes(space)


def bridges(capabilities: list[list[list[int]]], size: str = "4096") -> Tree:
    """The configuration of root port, upstream port and downstream port, of which `size` bytes can be read."""
    paths = (str(Path(BUS).parent), BUS, f"{BUS}/0000:12:00.0")
    told = [*capabilities, [], []]
    return {f"{path}/config": config(each)[: int(size)] for path, each in zip(paths, told, strict=False)}


def dimm(sizes: list[int], slot: str) -> Tree:
    """A module of so many MiB, and its rated and configured MT/s."""
    mib, rated, configured = sizes
    raw = bytearray(0x28)
    raw[0] = 17
    struct.pack_into("<H", raw, 0x0C, min(mib, 0x7FFF))
    struct.pack_into("<H", raw, 0x15, rated)
    struct.pack_into("<I", raw, 0x1C, mib)
    struct.pack_into("<H", raw, 0x20, configured)
    return {f"sys/firmware/dmi/entries/17-{slot}/raw": bytes(raw)}


def nic(port: Mapping[str, str], name: str, place: str = "nic") -> Tree:
    return rdma(name, port, PLACES[place])


MADE: dict[str, Callable[..., Tree]] = {"gpu": gpu, "rdma": nic, "card": card, "bridges": bridges, "dimm": dimm}
KNOWN: list[tuple[str, Tree, Any]] = [(name, tree(told), expected) for name, told, expected in CASES["known"]]
EVERYWHERE = ("shm", "shm_free")
"""Facts of a file system, which a tree has too."""


IDS = [f"{name}-{count}" for count, (name, *_) in enumerate(KNOWN)]


@each_row(("name", "files", "expected"), KNOWN)
def test_a_fact_is_what_the_files_say(tmp_path: Path, name: str, files: Tree, expected: Any) -> None:
    assert value(make(tmp_path, files), name) == expected


def test_every_fact_that_is_declared_is_read() -> None:
    assert set(HOST_FACTS) == set(DECLARED)


def test_every_fact_has_a_test() -> None:
    assert {name for name, *_ in KNOWN} | set(EVERYWHERE) == set(HOST_FACTS)


ANYWAY = {"nics", "nics_active", "machine", "numa_balancing"}
"""Facts that an empty tree has: none."""


@each_row("name", sorted(set(HOST_FACTS) - ANYWAY))
def test_what_is_missing_is_said(tmp_path: Path, name: str) -> None:
    assert why(tmp_path, name)


@each_row(("name", "files"), [case[:2] for case in KNOWN])
def test_what_cannot_be_read_or_is_garbage_breaks_nothing(tmp_path: Path, name: str, files: Tree) -> None:
    """Each file in turn is empty, garbage, and a folder, which even root cannot read: never an error of ours."""
    for place_, file in enumerate(file for file in files if " -> " not in file and not file.endswith("/")):
        path = make(tmp_path / str(place_), files) / file
        for content in (b"", b"\xff\xfe garbage \x00\n", b"-99999999999\n", None):
            if content is None:
                path.unlink()
                path.mkdir()
            else:
                path.write_bytes(content)
            found = answer(HOST_READERS[name], tmp_path / str(place_), METAL)
            reason = str(found.get("unreadable") or found.get("absent") or "")
            assert "value" in found or reason
            assert not re.match(r"\w+Error:", reason), reason


def folder(files: Tree, file: str) -> Tree:
    """Make a folder of a file, which even root cannot read."""
    return {f"{name}/" if name == file else name: content for name, content in files.items()}


@each_row(("name", "told", "file"), CASES["folders"])
def test_a_fact_whose_file_cannot_be_read_names_it(tmp_path: Path, name: str, told: Any, file: str) -> None:
    path = file.format(**PLACES)
    assert f"/{path}: Is a directory" in why(make(tmp_path, folder(tree(told), path)), name)


@each_row(("name", "told", "words"), CASES["hidden"])
def test_a_fact_that_is_hidden_says_where_and_why(tmp_path: Path, name: str, told: Any, words: str) -> None:
    assert words in why(make(tmp_path, tree(told)), name)


@pytest.mark.parametrize(("name", "told", "worst"), CASES["worst"])
def test_the_worst_of_several_is_named(tmp_path: Path, name: str, told: Any, worst: str) -> None:
    assert answer(HOST_READERS[name], make(tmp_path, tree(told)), METAL)["worst"] == worst


@each_row(("what", "told", "rates"), CASES["rates"])
def test_the_rates_of_the_nics_for_accelerators(tmp_path: Path, what: str, told: Any, rates: dict[str, float]) -> None:
    """One of a storage network hides none that is down; one below no switch of an accelerator is not left out alone."""
    found = answer(HOST_READERS["nics_active"], make(tmp_path, tree(told)), METAL)
    assert found["details"]["rates"] == rates, what


@each_row(("told", "container", "machine"), CASES["places"])
def test_container_and_virtual_machine_are_told_apart(tmp_path: Path, told: Any, container: str, machine: str) -> None:
    found = host_environment(make(tmp_path, tree(told)))
    assert (found.container, found.machine) == (container, machine)


@each_row(
    ("where", "words"),
    [
        (HostEnvironment(root=False, container="", machine=""), "requires root"),
        (HostEnvironment(root=True, container="docker", machine=""), "requires the host instead of a container"),
        (HostEnvironment(root=False, container="", machine="kvm"), "requires bare metal and root"),
        (METAL, ""),
    ],
)
def test_what_is_hidden_says_what_it_takes(tmp_path: Path, where: HostEnvironment, words: str) -> None:
    assert needed(HOST_READERS["acs"], where) == words
    assert why(tmp_path, "acs", where) == "the PCI bus shows no accelerator", "what is absent takes no permission"
    make(tmp_path, tree({"gpu": {}, "bridges 64": [[]]}))
    assert why(tmp_path, "acs", where).endswith(f"({words})" if words else "can be read")


def test_a_reading_that_hangs_costs_only_itself(tmp_path: Path) -> None:
    """As a file of /sys whose driver is stuck: here a pipe that nobody writes to."""
    make(tmp_path, {"proc/sys/kernel/numa_balancing": "0"})
    os.mkfifo(tmp_path / "proc/cmdline")
    began = time.monotonic()
    chosen: dict[str, HostReader] = {name: HOST_READERS[name] for name in ("kernel_arguments", "numa_balancing")}
    found = read(tmp_path, chosen, 0.5)
    threading.Thread(target=(tmp_path / "proc/cmdline").write_text, args=("x",), daemon=True).start()
    assert time.monotonic() - began < 5
    assert found["numa_balancing"]["value"] == 0
    assert "did not answer within 0.5 s" in found["kernel_arguments"]["unreadable"]


def test_this_machine_is_read() -> None:
    found = read()
    assert list(found) == list(HOST_FACTS)
    assert found["cpus_usable"]["value"] == len(os.sched_getaffinity(0))
    assert found["memory"]["value"] > 0
