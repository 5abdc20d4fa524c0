"""Outputs of other tools that others published: read as they are printed, and judged as a run is."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import shipped
import yaml

from pytest_accel.cli.main import main
from pytest_accel.cli.tool_outputs.output import ToolOutput
from pytest_accel.cli.tool_outputs.recognise import READERS, reader_of
from pytest_accel.core.sku import Limit
from pytest_accel.core.untrusted import BadFile

OUTPUTS = Path(__file__).parent.parent / "real" / "outputs"
H800 = (OUTPUTS / "nvbandwidth" / "h800-8.txt").read_text()
H100 = (OUTPUTS / "nccl-tests" / "h100-1-node.txt").read_text()
SKU = shipped.load("h100-sxm")
LIMITS = SKU.limits_on(SKU.platforms["hgx8"])
SENT = (OUTPUTS / "nccl-tests" / "sendrecv-a100-64gb-2.txt").read_text()
PUBLISHED: list[dict[str, Any]] = yaml.safe_load((OUTPUTS / "published.yaml").read_text(encoding="utf-8"))
OTHERS: list[dict[str, str]] = yaml.safe_load((OUTPUTS / "others.yaml").read_text(encoding="utf-8"))
START = "# Collective test starting:"
AT_8GIB = next(line for line in H100.splitlines() if line.startswith("  8589934592"))


def read(text: str, limits: dict[str, Limit] | None = None) -> dict[str, object]:
    """Return the values of a text by metric and device."""
    reader, text, _ = reader_of(text)
    figures = reader.read(text, "f.txt", limits or dict(LIMITS), SKU).figures if reader else []
    return {f"{each.metric}{each.subject.removeprefix('node')}": each.value for each in figures}


def read_output(text: str) -> ToolOutput:
    reader, text, _ = reader_of(text)
    assert reader
    return reader.read(text, "f.txt", dict(LIMITS), SKU)


def judged(text: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    path = folder / "any.name"
    path.write_text(text)
    code = main(["judge", str(path), *(more or ("--sku=h100-sxm", "--platform=hgx8"))])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    ("name", "sku", "rows"),
    [
        ("nccl-tests/h100-1-node", "h100-sxm", ["PASS node all_reduce.busbw@8GiB 479.8 GB/s floor 450.1 GB/s +6.6%"]),
        (
            "nccl-tests/h100-2-nodes",
            "h100-sxm",
            [
                "info node fabric.all_reduce 337.4 GB/s",
                "2 nodes, 8GiB: a port carries 42.2 GB/s by rings, 22.5 by trees (nodes reduce first)",
                "platform hgx8 states no NICs; name one that does",
            ],
        ),
        (
            "nccl-tests/a100-1-node",
            "a100-sxm-40gb",
            [
                "PASS node all_reduce.busbw@8GiB 235 GB/s advice floor 220.9 GB/s +6.4%",
                "nccl-tests: values were not checked by the tool",
            ],
        ),
        ("rccl-tests/mi300x-1-node", "mi300x", ["PASS node all_reduce.busbw@8GiB 315.9 GB/s floor 304 GB/s +3.9%"]),
        ("rccl-tests/mi300x-2-nodes", "mi300x", ["info node fabric.all_reduce 357.4 GB/s 2 nodes, 16GiB: a port"]),
        ("rccl-tests/mi355x-2-nodes", "mi355x", ["the output is cut off: its last line", "names no product"]),
    ],
)
def test_what_others_published_is_judged_as_a_run_is(
    name: str, sku: str, rows: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["judge", str(OUTPUTS / f"{name}.txt"), f"--sku={sku}"])
    said = " ".join(capsys.readouterr().out.split())
    assert code == 6, "a single tool measures no whole level"
    assert all(row in said for row in rows), said
    (lacking,) = re.findall(r"required, but not in the file: .*?, which only a run on the node reads", said)
    assert "matmul_mamf.bf16" in lacking
    assert "inventory." not in lacking, "facts are counted, not listed"
    assert "NOT JUDGED" in said


H100_2 = (OUTPUTS / "nccl-tests" / "h100-2-nodes.txt").read_text()


@pytest.mark.parametrize(
    ("replaced", "rows"),
    [
        (
            ("", ""),
            [
                "wire rate of a port: 50 GB/s; used: 84% by rings, 45% by trees",
                "healthy: 368 to 384 GB/s by rings, up to 513 by trees",
            ],
        ),
        (("47743  179.92  337.35", "34268  250.67  470.00"), ["wire rate of a port: 50 GB/s; used: 63%, by trees"]),
        (
            ("179.92  337.35      0", "179.92  337.35      7"),
            ["REJECTED node: fabric.all_reduce", "7 values are wrong"],
        ),
    ],
)
def test_ranks_on_several_nodes_are_held_against_the_nics_of_the_platform(
    replaced: tuple[str, str], rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = judged(H100_2.replace(*replaced), tmp_path, capsys, "--sku=h100-sxm", "--platform=dgx")
    said = " ".join(said.split())
    assert code == (1 if "REJECTED" in rows[0] else 6)
    assert all(row in said for row in rows), said
    assert "all_reduce.busbw@8GiB 3" not in said, "no limit of a single node judges it"


def test_of_nodes_with_unequal_ranks_and_of_small_messages_nothing_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = judged(H100_2.replace("on      node1 device  7", "on      node2 device  7"), tmp_path, capsys)
    assert (code, "its nodes have 1, 7, 8 ranks" in said) == (4, True)
    small = "".join(line for line in H100_2.splitlines(keepends=True) if not line.strip().startswith(tuple("1248")))
    assert read(H100_2) == {"fabric.all_reduce": 337.35}
    assert read(small) == {}


PREFIXES = [
    "0: ",
    " 12: ",
    "[1,0]<stdout>:",
    "    [2,10]<stdout>:",
    "Thu Jul 18 15:41:{n:02} 2024<stdout>:",
    "(head, rank=0, pid=3808) [1,0]<stdout>:",
    "2026-02-16T10:00:{n:02}.0{n:04}Z ",
    "[pod/nccl-0/test] 2026-02-16T10:{n:02}:01+00:00 ",
    "Mar  2 08:15:{n:02} node0 nccl[4100]: ",
    "nccl-1  | ",
    "node0: ",
    "[   12.{n:06}] ",
    "> ",
    "\x1b[36mtest\x1b[0m | ",
    "17724393{n:02} ",
    "[  {n}.5s] ",
    "{day} 2026[1,0]<stdout>:",
    "{day} UTC nccl[4100]: ",
]
"""What launchers and collectors of logs put before line n."""


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_a_launcher_puts_before_every_line_is_taken_off(prefix: str) -> None:
    """nccl-tests as srun, Open MPI, SkyPilot, Kubernetes, journald, docker and others show it."""
    days = ["Mon Mar  2 23:59:59", "Tue Mar  3 00:00:03"] if "stdout" in prefix else ["Mon 2026-03-02 23:59:59"]
    lines = [
        f"{prefix.format(n=n // 20 + 10, day=days[n // 20 % len(days)])}{line}"
        for n, line in enumerate(H100.splitlines())
    ]
    assert read("\n".join(["a line before", *lines])) == read(H100)
    assert read("\n".join(["$ all_reduce_perf # nThread default", *lines])) == read(H100)
    assert read("\r\n".join(lines)) == read(H100)


def test_what_two_ranks_print_is_not_merged() -> None:
    both = [f"{rank}: {line}" for line in H100.splitlines() for rank in range(2)]
    with pytest.raises(BadFile, match="rank 0 where rank 1 is expected"):
        read("\n".join(both))
    tables = [f"{rank}: {line}" for line in H800.splitlines() for rank in range(2)]
    with pytest.raises(BadFile, match="is given twice"):
        read("\n".join(tables))


def test_the_failure_of_another_rank_is_told() -> None:
    failed = "node0: Test NCCL failure common.cu:958 'unhandled cuda error'"
    lines = [f"0: {line}" for line in H100.splitlines()]
    row = next(place for place, line in enumerate(lines) if AT_8GIB in line)
    reader, text, _ = reader_of("\n".join([*lines[:row], f"3: {failed}"]))
    assert reader
    notes = reader.read(text, "f.txt", dict(LIMITS), SKU).notes
    assert any("the output is cut off" in note and failed in note for note in notes)


@pytest.mark.parametrize("name", ["nvbandwidth/h800-8.txt", "nvbandwidth/h200-8.json"])
def test_the_prefix_of_any_tool_is_taken_off(name: str) -> None:
    text = (OUTPUTS / name).read_text()
    lines = text.splitlines()
    found, own, notes = reader_of("\n".join([*(f"[1,0]<stdout>:{line}" for line in lines), "a line behind"]))
    assert found is reader_of(text)[0]
    assert own.removesuffix("a line behind").split() == text.split()
    assert notes == [f"'[1,0]<stdout>:' and the like is taken off {len(lines)} of {len(lines) + 1} lines"]


COLUMNS = "time   algbw   busbw #wrong"


@pytest.mark.parametrize(
    ("head", "cells"),
    [
        (COLUMNS, ""),
        (f"{COLUMNS}  i_min  i_max  i_p99 i_cv%", "  31200  31900  31850   0.4"),
        (f"{COLUMNS} #bitdiff", "      0"),
    ],
)
@pytest.mark.parametrize("timestamp", [False, True])
def test_columns_that_an_option_adds_are_left_alone(head: str, cells: str, timestamp: bool) -> None:
    """`-I 1` and newer versions add columns behind each half, `-S 1` a date and a time behind both."""
    lines = []
    for line in H100.splitlines():
        row = re.match(r"( +\d+ +\d+ +float +sum +-1)((?: +\S+){4})((?: +\S+){4})$", line)
        text = line.replace(COLUMNS, head) if not row else f"{row[1]}{row[2]}{cells}{row[3]}{cells}"
        lines.append(text + ("  2026-03-02 08:15:11" if row else "  timestamp" if "busbw" in line else "") * timestamp)
    assert read("\n".join(lines)) == read(H100)


def test_a_row_is_joined_again_where_the_library_writes_between_its_parts() -> None:
    said = "node0:4100:4100 [0] NCCL INFO AllReduce: 8589934592 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}"
    first, second = AT_8GIB[: AT_8GIB.index("-1") + 2], AT_8GIB[AT_8GIB.index("-1") + 2 :]
    host = re.search(r"on +(\S+) +device", H100)
    assert host
    torn = f"{first}{said}\n{said}\n{second}".replace("node0", host[1])
    output = read_output(H100.replace(AT_8GIB, torn))
    assert {each.metric: each.value for each in output.figures} == read(H100)
    at_8gib = next(each for each in output.figures if each.metric.endswith("8GiB"))
    assert at_8gib.conditions["algorithm"] == "ring"


@pytest.mark.parametrize("before", ["", "[2026-03-02 08:15:12] ", "[0] "])
@pytest.mark.parametrize("cut", [0, AT_8GIB.index("-1") + 2, AT_8GIB.index("-1") + 30])
@pytest.mark.parametrize("hosts", [True, False])
def test_no_row_is_lost_to_what_the_library_writes(before: str, cut: int, hosts: bool) -> None:
    """NCCL puts the time before its warnings (user guide, "Logging"). Without a host whole lines are told apart."""
    host = re.search(r"on +(\S+) +device", H100)
    assert host
    said = f"{before}{host[1]}:4100:4131 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1"
    text = H100 if hosts else re.sub(r"on +\S+ +device", "device", H100)
    torn = f"{AT_8GIB[:cut]}{said}\n{said}\n{AT_8GIB[cut:]}"
    if hosts or not cut:
        assert read(text.replace(AT_8GIB, torn)) == read(H100)


def with_rate(busbw: float) -> str:
    """The output of eight H100 whose row of 8 GiB has another rate."""
    algbw = busbw * 8 / 14
    half = f"{8589934592 / algbw / 1e3:.0f}  {algbw:.2f}  {busbw:.2f}      0"
    return H100.replace(AT_8GIB, f"  8589934592    2147483648     float     sum      -1    {half}    {half}")


@pytest.mark.parametrize(
    ("busbw", "before", "code", "says"),
    [
        (366.0, "", 6, "the algorithm is not stated, and rings give 364.8 GB/s"),
        (358.0, "", 6, "the algorithm is not stated, and rings give 364.8 GB/s"),
        (355.0, "", 1, "REJECTED node: all_reduce.busbw@8GiB 355 GB/s"),
        (
            366.0,
            "node0:4100:4131 [0] NCCL INFO NCCL_ALGO set by environment to Ring.",
            6,
            "by NCCL_ALGO=Ring in the envi",
        ),
        (340.0, "mpirun -np 8 -x NCCL_NVLS_ENABLE=0 all_reduce_perf", 6, "restricted by NCCL_NVLS_ENABLE=0"),
        (340.0, "NCCL_DEBUG=INFO NCCL_ALGO=Ring ./all_reduce_perf", 6, "restricted by NCCL_ALGO=Ring"),
        (340.0, "export NCCL_ALGO=Ring", 6, "restricted by NCCL_ALGO=Ring"),
        (340.0, "# NCCL_ALGO=Ring can be used to compare", 1, "REJECTED"),
        (340.0, "to compare, NCCL_ALGO=Ring can be used", 1, "REJECTED"),
        (340.0, "node0:4100:4131 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 0.", 1, "REJECTED"),
        (366.0, "node0:1:1 [0] NCCL INFO AllReduce: 8589934592 Bytes -> Algo NVLS proto SIMPLE", 1, "REJECTED"),
        (366.0, "node0:1:1 [0] NCCL INFO AllReduce: 8589934592 Bytes -> Algo RING proto SIMPLE", 1, "NCCL used ring"),
    ],
)
def test_what_the_output_states_counts_as_in_a_run(
    busbw: float, before: str, code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it states no algorithm, a value that a ring gives is not judged (NVIDIA/nccl-tests issue 212)."""
    found, said = judged(f"{before}\n{with_rate(busbw)}", tmp_path, capsys)
    assert says in " ".join(said.split())
    assert found == code


def test_nothing_is_said_of_ports_where_nvlink_joins_the_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = H100_2.replace("NVIDIA H100 80GB HBM3", "NVIDIA GB200")
    _, said = judged(text, tmp_path, capsys, "--sku=gb200", "--platform=gb200-tray")
    assert "NVLink joins 72 devices of several nodes, so the load of no port follows from it" in " ".join(said.split())
    assert "a port carries" not in said


def test_a_slow_collective_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = AT_8GIB.replace("31328  274.19  479.84", "42950  200.00  350.00")
    code, said = judged(H100.replace(AT_8GIB, slow), tmp_path, capsys)
    assert code == 1
    assert "REJECTED node: all_reduce.busbw@8GiB 350 GB/s" in " ".join(said.split())
    assert "(-22.2%)" in said


@pytest.mark.parametrize("size", ["8589934592", "  2147483648"])
def test_wrong_values_reject_whatever_their_size(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = next(line for line in H100.splitlines() if line.strip().startswith(size.strip()))
    text = H100.replace(row, f"{row[:-1]}3").replace("values : 0 OK", "values : 3 FAILED")
    code, said = judged(text, tmp_path, capsys)
    assert code == 1
    assert "3 values are wrong (line " in " ".join(said.split())


def test_wrong_values_in_a_row_that_is_gone_are_not_overlooked() -> None:
    with pytest.raises(BadFile, match="no row that can be read has wrong values"):
        read(H100.replace("values : 0 OK", "values : 3 FAILED"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("479.84      0", "979.84      0"),
        ("31328", "13328"),
        ("479.84", "nan"),
        ("479.84", "-479.84"),
        ("479.84", "1e999"),
        ("274.19  479.84", "274.19  \x1b[2J479.84"),
        ("274.19  479.84      0", ""),
        ("8589934592    2147483648", "17179869185    2147483648"),
        ("sum      -1    31307", "sum       0    31307"),
        ("float     sum      -1    31307", "half     sum      -1    31307"),
    ],
)
def test_a_row_that_does_not_agree_with_itself_is_not_judged(before: str, after: str) -> None:
    found = read(H100.replace(AT_8GIB, AT_8GIB.replace(before, after, 1)))
    assert "all_reduce.busbw@8GiB" not in found
    assert found["all_reduce.busbw@16GiB"] == 479.99


def test_another_collective_is_no_all_reduce() -> None:
    """The bus bandwidth of reduce_scatter is algbw x (n - 1) / n; its rows look the same otherwise."""
    row = AT_8GIB.replace("480.16", "240.08").replace("479.84", "239.92")
    assert "all_reduce.busbw@8GiB" not in read(H100.replace(AT_8GIB, row))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (H100.replace(AT_8GIB, f"{AT_8GIB}\n{AT_8GIB}"), "f.txt:23: size 8589934592 is given twice (first in line 22)"),
        (H100 + H100, "rank 0 where rank 8 is expected; judge the whole output of one run"),
        (H100.replace("Rank  3", "Rank  4"), "rank 4 where rank 3 is expected"),
        (f"{START} reduce_perf\n{H100}", "an output of reduce_perf; all_reduce_perf alone is read"),
        (
            f"{START} all_reduce_perf\n{START} alltoall_perf\n{H100}",
            "an output of alltoall_perf; all_reduce_perf al",
        ),
        (f"{START} sendrecv_perf\n{SENT}", "an output of sendrecv_perf; all_reduce_perf alone is read"),
        (SENT, "its rows are not those of all_reduce_perf"),
        (
            "\n".join(line for line in H100.splitlines() if not re.match("# *Rank +[1-7]", line)),
            "an output of one rank",
        ),
        (H100.replace(" float ", " uint8 "), "its rows are of uint8; judged are those of all_reduce_perf -d float -o"),
        (H100.replace(" sum ", " max "), "its rows are of max; judged are those of all_reduce_perf -d float -o sum"),
        (re.sub("# *Rank.*\n", "", H100), "without its list of ranks (# Rank  0 ...): judge the whole output"),
        (
            SENT.replace("      0 ", "    N/A "),
            "can be those of sendrecv_perf, and the line '# Collective",
        ),
        (H100 + "#  Rank  9 device  0 [0x00] x\n" * 65_529, "65,537 ranks; at most 65,536 are read"),
    ],
)
def test_what_cannot_be_one_output_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(BadFile) as bad:
        read(text)
    assert says in str(bad.value)


def test_a_lost_rank_takes_its_bandwidths_with_it() -> None:
    with pytest.raises(BadFile, match="its rows are not those of all_reduce_perf"):
        read("\n".join(line for line in H100.splitlines() if "Rank  7" not in line))


def test_another_product_and_an_unknown_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = judged(H100, tmp_path, capsys, "--sku=b200-sxm")
    assert code == 4
    assert "names gpu0 NVIDIA H100 80GB HBM3, which is another product" in said
    code, said = judged("perftest 6.12\n", tmp_path, capsys)
    assert code == 4
    assert "is no record and no output of a known tool: nccl-tests and rccl-tests, by '# Rank  0" in said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"test_info": {}, "results": []}', "is JSON with test_info, results, but without 'schema'"),
        ("{}", "is JSON with no key, but without 'schema'"),
        ("[1,0]<stdout>: nothing that is known", "is no record"),
        ('{"nvbandwidth": [', ":1: is not JSON: Expecting value (column 18)"),
    ],
)
def test_a_json_of_an_unknown_tool_is_named_by_what_it_holds(
    text: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = judged(text, tmp_path, capsys)
    assert code == 4
    assert found in said
    assert "no output of a known tool: nccl-tests and rccl-tests, by" in said
    assert "nvbandwidth, by" in said


H800_AT_512 = H800.replace("Version: v0.2", "Version: v0.8")
LAST_SENDER = next(line for line in H800.splitlines() if line.startswith("7    176.08"))


@pytest.mark.parametrize(
    ("name", "sku", "code", "rows"),
    [
        (
            "h800-8.txt",
            "h800-sxm",
            6,
            ["UNMEASURED gpu4 peer_copy.one_way 176 GB/s", "64 MiB is taken, the default of v0.2"],
        ),
        ("gh200-1.txt", "gh200-96gb", 6, ["UNMEASURED gpu0 host_copy.h2d 299.5 GB/s", "measured with mib=64"]),
        ("rtx-4090-8.txt", "rtx-4090", 6, ["NOT JUDGED", "9.1% behind its 7 neighbours", "not measured again"]),
        ("a100-wrong-data.txt", "a100-sxm-80gb", 4, ["line 18: the tool found wrong data, and does not say of which"]),
        (
            "h200-8.json",
            "h200-sxm",
            6,
            [
                "PASS all 8, gpu2 < peer_copy.one_way 396.3 to 396.4 GB/s advice floor 382.5 GB/s +3.6%",
                "PASS all 8, gpu3 < host_copy.h2d 55.42 to 55.53 GB/s advice floor 52.66 GB/s +5.2%",
                "512 MiB is taken, the default of v0.8",
                "left out, because no limit is measured so: host_to_device_bidirectional_memcpy_ce",
                "NOT JUDGED 24/24 limits hold",
            ],
        ),
        ("b200-2.json", "b200-sxm", 6, ["PASS gpu1 < host_copy.d2h 55.95 GB/s floor 39.69", "platform slice2"]),
        (
            "h100-8-v0.5.json",
            "h100-sxm",
            6,
            [
                "UNMEASURED gpu7 host_copy.h2d 27.67",
                "h2d of gpu0, gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7: measured with mib=64",
            ],
        ),
        ("t4-8-wrong-data.json", "t4", 1, ["line 1: the tool found wrong data", "the tool states: ASSERT in", "6.241"]),
        ("a100-not-ready.json", "a100-sxm-40gb", 4, ["can be judged: the tool states: [CUDA_ERROR_SYSTEM_NOT_READY]"]),
        ("h200-8.json", "h100-sxm", 4, ["names gpu0 NVIDIA H200, which is another product"]),
    ],
)
def test_nvbandwidth_is_judged_by_the_size_of_its_version(
    name: str, sku: str, code: int, rows: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(OUTPUTS / "nvbandwidth" / name), f"--sku={sku}"]) == code
    captured = capsys.readouterr()
    said = " ".join((captured.out + captured.err).split())
    assert all(row in said for row in rows), said


def test_the_host_s_columns_are_devices_and_the_peers_rows_are_senders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = LAST_SENDER.replace("176.02", "100.02")
    text = H800_AT_512.replace(LAST_SENDER, slow).replace("9861.63", "9785.63")
    found = read(text)
    assert (found["peer_copy.one_waygpu7"], found["peer_copy.one_waygpu6"]) == (100.02, 176.05)
    assert (found["host_copy.h2dgpu7"], found["host_copy.d2hgpu4"]) == (55.34, 55.09)
    assert len(found) == 24
    code, said = judged(text, tmp_path, capsys, "--sku=h800-sxm")
    assert code == 1
    assert "REJECTED gpu7: peer_copy.one_way 100 GB/s, floor 136 GB/s (-26.5%)" in " ".join(said.split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LAST_SENDER, ""),
        ("176.02       N/A", "96.02       N/A"),
        ("176.02       N/A", "N/A       N/A"),
        ("176.02       N/A", "-176.02       N/A"),
        ("SUM device_to_device_memcpy_write_ce 9861.63", ""),
        ("GPU(row) <- GPU(column)", "GPU(row) <-> GPU(column)"),
        ("Device 7: NVIDIA H800\n", ""),
    ],
)
def test_a_table_that_is_not_whole_is_not_judged(before: str, after: str) -> None:
    try:
        found = read(H800_AT_512.replace(before, after))
    except BadFile:
        found = {}
    assert not any(name.startswith("peer_copy") for name in found)


def test_without_its_version_or_with_small_copies_nvbandwidth_s_size_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "NOTE: You have chosen a buffer size that is smaller than the default buffer size."
    for text in (H800.replace("Version: v0.2", ""), f"{note}\n{H800_AT_512}"):
        code, said = judged(text, tmp_path, capsys, "--sku=h800-sxm")
        assert code == 6
        assert "measured with mib=not stated, but the limits of h800-sxm are for mib=512" in " ".join(said.split())


def test_a_sender_with_a_pair_that_was_not_measured_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = H800_AT_512.replace(LAST_SENDER, LAST_SENDER.replace("176.02", "N/A")).replace("9861.63", "9685.61")
    senders = [name for name in read(text) if name.startswith("peer_copy")]
    assert senders == [f"peer_copy.one_waygpu{n}" for n in range(7)]
    code, said = judged(text, tmp_path, capsys, "--sku=h800-sxm")
    assert code == 6
    row = text.splitlines().index(LAST_SENDER.replace("176.02", "N/A")) + 1
    assert f"line {row}: not judged, because a copy has no value" in said
    assert "peer_copy.one_way (gpu7)" in " ".join(said.split()), "what the level requires of it is named as lacking"


def test_a_table_of_thousands_of_devices_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    text = f"{head}{' '.join(map(str, range(9000)))}\n0 {'1.00 ' * 9000}\nSUM host_to_device_memcpy_ce 9000.00\n"
    code, said = judged(text, tmp_path, capsys, "--sku=h800-sxm")
    assert code == 4
    assert "line 1: not read, because the table is not whole" in said


def test_one_test_twice_is_refused_with_its_line() -> None:
    with pytest.raises(BadFile, match=r"f.txt:\d+: host_to_device_memcpy_ce is given twice"):
        read(H800 + H800)


H200 = (OUTPUTS / "nvbandwidth" / "h200-8.json").read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"396.288"', '"296.288"'),
        ('"396.288"', "[396.288]"),
        ('"396.288",', ""),
        ('"GPU(row)', '"'),
        ("GPU(row) <- GPU(column)", "GPU(row) <-> GPU(column)"),
        ("22197.914752043012", '"none"'),
        ('_memcpy_write_ce",\n\t\t\t\t"status" : "Passed"', '_memcpy_write_ce",\n\t\t\t\t"status" : "Error"'),
        ('"7: NVIDIA H200', '"9: NVIDIA H200'),
    ],
)
def test_a_matrix_that_is_not_whole_is_not_judged(before: str, after: str) -> None:
    found = read(H200.replace(before, after))
    assert any(name.startswith("peer_copy") for name in found) == (before not in H200 or "7: NVIDIA" in before)
    assert found["host_copy.h2dgpu3"] == 55.4164


@pytest.mark.parametrize("nothing", ['"nvbandwidth" : {}', '"nvbandwidth" : {"testcases": [[], {"name": 3}]}'])
def test_a_json_without_a_test_says_that_nothing_can_be_judged(nothing: str) -> None:
    with pytest.raises(BadFile, match=r"f\.txt: output of nvbandwidth, but nothing in it can be judged"):
        read(f"{{{nothing}}}")


READ = sorted(path for path in OUTPUTS.glob("*/*.*") if path.parent.name != "unread")


def test_every_tool_is_held_against_three_outputs_at_least() -> None:
    """A tool that is added later is mutated, too: the test below takes all files."""
    readers = [reader_of(path.read_text())[0] for path in READ]
    assert [each.LOOKED_FOR for each in READERS if readers.count(each) < 3] == []
    assert None not in readers


@pytest.mark.parametrize("output", PUBLISHED, ids=lambda output: output["file"])
def test_a_published_output_is_judged_or_refused_for_its_reason(
    output: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(OUTPUTS / output["file"]), f"--sku={output['sku']}"]) == output["exit"]
    captured = capsys.readouterr()
    said = " ".join((captured.out + captured.err).split())
    assert all(words in said for words in output["says"]), said


@pytest.mark.parametrize("output", OTHERS)
def test_an_output_that_nothing_reads_is_named(
    output: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = judged(f"first line\n{output['line']}\n", tmp_path, capsys)
    assert (code, f"is {output['says']}: " in said) == (4, True)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_of_mutated_outputs_nothing_is_judged_that_is_not_there(path: Path) -> None:
    text = path.read_text()
    limits = {f"all_reduce.busbw@{size}": LIMITS["all_reduce.busbw@8GiB"] for size in ("1GiB", "4GiB", "8GiB", "16GiB")}
    there, draw, kept = _read_or_none(text, limits), random.Random(f"36 {path.stem}"), 0  # noqa: S311 - no secret
    for _ in range(100):
        mutated = _changed_json if path.suffix == ".json" and draw.random() < 0.8 else _mutated
        changed = mutated(text, draw)
        found = _read_or_none(changed, limits)
        kept += bool(found)
        if of_nodes := found.pop("fabric.all_reduce", None):  # of the largest size that is left
            assert f" {of_nodes:.2f} " in text
        for metric, value in found.items():
            assert value is None or value == pytest.approx(there[metric], rel=3e-3)
    assert kept > 20 * bool(there) - 1, "the mutations leave something to read"


def _read_or_none(text: str, limits: dict[str, Limit]) -> dict[str, object]:
    try:
        return read(text, limits)
    except BadFile:
        return {}


def _changed_json(text: str, draw: random.Random) -> str:
    """Return a JSON with up to three of its texts, keys and numbers replaced: most cuts leave no JSON at all."""
    for _ in range(draw.randint(1, 3)):
        part = draw.choice(list(re.finditer(r'"[^"\n]*"|(?<![\w."])[0-9.]+', text)))
        digits = part[0].strip('"')
        cut = draw.randrange(len(digits) + 1)
        new = [
            '"nan"',
            '"-1"',
            '"1e999"',
            "null",
            "[]",
            "[[9]]",
            "{}",
            "9",
            '""',
            f'"{digits[:cut]}{digits[cut + 1 :]}"',
        ]
        text = text[: part.start()] + draw.choice(new) + text[part.end() :]
    return text


def _mutated(text: str, draw: random.Random) -> str:
    """Return the text with up to four characters, or lines, changed, cut out or repeated."""
    for _ in range(draw.randint(1, 4)):
        place, kind = draw.randrange(len(text)), draw.randrange(5)
        lines = text.splitlines(keepends=True)
        if kind == 0:
            text = text[:place] + draw.choice("0123456789.-+eNa#* \t\n\x1b\x7f\u202eé") + text[place + 1 :]
        elif kind == 1:
            text = text[:place] + text[place + draw.randint(1, 30) :]
        elif kind == 2:
            row = draw.randrange(len(lines))
            text = "".join([*lines[: row + 1], *lines[row:]])
        elif kind == 3:
            text = text[:place] if draw.random() < 0.2 else "".join(lines[:-1] or lines)
        else:
            text = text[:place] + draw.choice(["nan", "1e999", "-1", "9" * 50, "inf"]) + text[place:]
    return text
