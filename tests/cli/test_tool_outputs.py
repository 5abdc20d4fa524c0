"""Outputs of other tools that others published: read as they are printed, and judged as a run is."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import shipped
import tabled
import yaml

from pytest_accel.cli.main import main
from pytest_accel.cli.tool_outputs.output import ToolOutput
from pytest_accel.cli.tool_outputs.recognise import READERS, reader_of
from pytest_accel.core.sku import Limit
from pytest_accel.core.untrusted import BadFile

OUTPUTS = Path(__file__).parent.parent / "real" / "outputs"
H800 = (OUTPUTS / "nvbandwidth" / "h800-8.txt").read_text()
H100 = (OUTPUTS / "nccl-tests" / "h100-1-node.txt").read_text()
H100_2 = (OUTPUTS / "nccl-tests" / "h100-2-nodes.txt").read_text()
SKU = shipped.load("h100-sxm")
LIMITS = SKU.limits_on(SKU.platforms["hgx8"])
PUBLISHED: list[dict[str, Any]] = yaml.safe_load((OUTPUTS / "published.yaml").read_text(encoding="utf-8"))
OTHERS: list[dict[str, str]] = yaml.safe_load((OUTPUTS / "others.yaml").read_text(encoding="utf-8"))
H200 = (OUTPUTS / "nvbandwidth" / "h200-8.json").read_text()
TABLES: dict[str, list[Any]] = tabled.tables("cli/tool-outputs")
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
    return judged_file(path, capsys, *(more or ("--sku=h100-sxm", "--platform=hgx8")))


def judged_file(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main(["judge", str(path), *options])
    said = capsys.readouterr()
    return code, " ".join((said.out + said.err).split())


Case = tuple[str, str, int, str]
"""An output, the options beside it, the exit status, and what is said."""


H800_AT_512 = H800.replace("Version: v0.2", "Version: v0.8")
LAST_SENDER = next(line for line in H800.splitlines() if line.startswith("7    176.08"))
LARGE = f"""Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
{" ".join(map(str, range(9000)))}
0 {"1.00 " * 9000}
SUM host_to_device_memcpy_ce 9000.00
"""


def without(pattern: str, text: str = H100) -> str:
    """The text without the lines that hold a pattern."""
    return "".join(line for line in text.splitlines(keepends=True) if not re.search(pattern, line))


def twice(text: str) -> str:
    """The text as two ranks print it, line by line."""
    return "\n".join(f"{rank}: {line}" for line in text.splitlines() for rank in range(2))


def with_sender(rate: str, total: str) -> str:
    """The table of H800 whose last sender has another rate of its last pair, and the sum that follows from it."""
    return H800_AT_512.replace(LAST_SENDER, LAST_SENDER.replace("176.02", rate)).replace("9861.63", total)


TEXTS = {
    "H100": H100,
    "H100_2": H100_2,
    "H100 of two ranks": twice(H100),
    "H100 of one rank": without("# *Rank +[1-7]"),
    "H100 without ranks": without("# *Rank"),
    "H100 of many ranks": H100 + "#  Rank  9 device  0 [0x00] x\n" * 65_529,
    "H200": H200,
    "H800": H800,
    "H800 of two ranks": twice(H800),
    "H800 at 512 MiB": H800_AT_512,
    "H800 with a slow sender": with_sender("100.02", "9785.63"),
    "H800 without a pair": with_sender("N/A", "9685.61"),
    "SENT": (OUTPUTS / "nccl-tests" / "sendrecv-a100-64gb-2.txt").read_text(),
    "a large table": LARGE,
}


def text_of(case: dict[str, Any]) -> str:
    """Return the output that a case of the tables has."""
    names = [case["of"]] if isinstance(case.get("of"), str) else case.get("of", [])
    text: str = case.get("text", "".join(TEXTS[name] for name in names))
    for old, new in case.get("change", ()):
        text = text.replace(old, new)
    return f"{case.get('before', '')}{text}"


def cases_of(name: str) -> list[Case]:
    return [(text_of(each), each.get("options", ""), each["exit"], each["says"]) for each in TABLES[name]]


def told_otherwise(cases: Sequence[Case], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return those that end otherwise or say something else, with what they say."""
    found = []
    for text, options, code, says in cases:
        status, said = judged(text, folder, capsys, *options.split())
        if status != code or says not in said:
            found.append(f"{says} ({code}), not {said} ({status})")
    return found


def test_what_only_a_run_measures_is_named_as_lacking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = judged(H100, tmp_path, capsys)
    assert (code, "NOT JUDGED" in said) == (6, True), "a single tool measures no whole level"
    (lacking,) = re.findall(r"required, but not in the file: .*?, which only a run on the node reads", said)
    assert "matmul_mamf.bf16" in lacking
    assert "inventory." not in lacking, "facts are counted, not listed"


def test_of_several_nodes_the_fabric_alone_is_judged_and_by_large_messages() -> None:
    small = "".join(line for line in H100_2.splitlines(keepends=True) if not line.strip().startswith(tuple("1248")))
    assert read(H100_2) == {"fabric.all_reduce": 337.35}
    assert read(small) == {}


def test_what_a_launcher_puts_before_every_line_is_taken_off() -> None:
    """nccl-tests as srun, Open MPI, SkyPilot, Kubernetes, journald, docker and others show it."""
    kept = []
    for prefix in TABLES["prefixes"]:
        days = ["Mon Mar  2 23:59:59", "Tue Mar  3 00:00:03"] if "stdout" in prefix else ["Mon 2026-03-02 23:59:59"]
        lines = [
            f"{prefix.format(n=n // 20 + 10, day=days[n // 20 % len(days)])}{line}"
            for n, line in enumerate(H100.splitlines())
        ]
        shown = ("\r\n".join(lines), *("\n".join([line, *lines]) for line in ("a line", "$ x_perf # nThread default")))
        kept += [prefix for text in shown if read(text) != read(H100)]
    assert kept == []


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


def test_columns_that_an_option_adds_are_left_alone() -> None:
    """`-I 1` and newer versions add columns behind each half, `-S 1` a date and a time behind both."""
    added = {
        COLUMNS: "",
        f"{COLUMNS}  i_min  i_max  i_p99 i_cv%": "  31200  31900  31850   0.4",
        f"{COLUMNS} #bitdiff": "      0",
    }
    offenders = []
    for (head, cells), timestamp in itertools.product(added.items(), (False, True)):
        lines = []
        for line in H100.splitlines():
            row = re.match(r"( +\d+ +\d+ +float +sum +-1)((?: +\S+){4})((?: +\S+){4})$", line)
            text = line.replace(COLUMNS, head) if not row else f"{row[1]}{row[2]}{cells}{row[3]}{cells}"
            lines.append(
                text + ("  2026-03-02 08:15:11" if row else "  timestamp" if "busbw" in line else "") * timestamp
            )
        if read("\n".join(lines)) != read(H100):
            offenders.append((head, timestamp))
    assert offenders == []


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


def test_no_row_is_lost_to_what_the_library_writes() -> None:
    """NCCL puts the time before its warnings (user guide, "Logging"). Without a host whole lines are told apart."""
    host = re.search(r"on +(\S+) +device", H100)
    assert host
    without_host = re.sub(r"on +\S+ +device", "device", H100)
    at = AT_8GIB.index("-1")
    texts = [*((H100, cut) for cut in (0, at + 2, at + 30)), (without_host, 0)]
    lost = []
    for before, (text, cut) in itertools.product(("", "[2026-03-02 08:15:12] ", "[0] "), texts):
        said = f"{before}{host[1]}:4100:4131 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1"
        if read(text.replace(AT_8GIB, f"{AT_8GIB[:cut]}{said}\n{said}\n{AT_8GIB[cut:]}")) != read(H100):
            lost.append((said, cut))
    assert lost == []


def with_rate(busbw: float) -> str:
    """The output of eight H100 whose row of 8 GiB has another rate."""
    algbw = busbw * 8 / 14
    half = f"{8589934592 / algbw / 1e3:.0f}  {algbw:.2f}  {busbw:.2f}      0"
    return H100.replace(AT_8GIB, f"  8589934592    2147483648     float     sum      -1    {half}    {half}")


def test_what_the_output_states_counts_as_in_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it states no algorithm, a value that a ring gives is not judged (NVIDIA/nccl-tests issue 212)."""
    cases = [(f"{before}\n{with_rate(busbw)}", "", code, says) for busbw, before, code, says in TABLES["stated"]]
    assert told_otherwise(cases, tmp_path, capsys) == []


def test_what_is_changed_in_an_output_of_nccl_tests_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told_otherwise(cases_of("changed"), tmp_path, capsys) == []


def test_a_row_that_does_not_agree_with_itself_is_not_judged() -> None:
    """Nor that of another collective: the bus bandwidth of reduce_scatter is algbw x (n - 1) / n."""
    rows = [AT_8GIB.replace(old, new, 1) for old, new in TABLES["no_row"]]
    rows.append(AT_8GIB.replace("480.16", "240.08").replace("479.84", "239.92"))
    found = {row: read(H100.replace(AT_8GIB, row)) for row in rows}
    judged = [
        row for row, of in found.items() if "all_reduce.busbw@8GiB" in of or of["all_reduce.busbw@16GiB"] != 479.99
    ]
    assert (judged, len(found)) == ([], 11)


def test_what_cannot_be_one_output_is_refused_with_its_line() -> None:
    offenders = {}
    for case in TABLES["refused"]:
        found = "it is read"
        try:
            read(text_of(case))
        except BadFile as bad:
            found = str(bad)
        if case["says"] not in found:
            offenders[case["says"]] = found
    assert offenders == {}


def test_the_host_s_columns_are_devices_and_the_peers_rows_are_senders() -> None:
    found = read(TEXTS["H800 with a slow sender"])
    assert (found["peer_copy.one_waygpu7"], found["peer_copy.one_waygpu6"]) == (100.02, 176.05)
    assert (found["host_copy.h2dgpu7"], found["host_copy.d2hgpu4"]) == (55.34, 55.09)
    assert len(found) == 24


def test_what_is_changed_in_an_output_of_nvbandwidth_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told_otherwise(cases_of("changed_tables"), tmp_path, capsys) == []
    senders = [name for name in read(TEXTS["H800 without a pair"]) if name.startswith("peer_copy")]
    assert senders == [f"peer_copy.one_waygpu{n}" for n in range(7)]


def test_a_table_that_is_not_whole_is_not_judged() -> None:
    found = [_read_or_none(H800_AT_512.replace(*change), dict(LIMITS)) for change in TABLES["no_table"]]
    assert [
        change
        for change, of in zip(TABLES["no_table"], found, strict=True)
        if any(name.startswith("peer_copy") for name in of)
    ] == []


def test_a_matrix_that_is_not_whole_is_not_judged() -> None:
    found = [read(H200.replace(*change)) for change in TABLES["no_matrix"]]
    assert {of["host_copy.h2dgpu3"] for of in found} == {55.4164}
    pairs = zip(TABLES["no_matrix"], found, strict=True)
    whole = [change for change, of in pairs if any(name.startswith("peer_copy") for name in of)]
    assert whole == [each for each in TABLES["no_matrix"] if each[0] not in H200 or "7: NVIDIA" in each[0]]


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
    code, said = judged_file(OUTPUTS / output["file"], capsys, f"--sku={output['sku']}")
    assert code == output["exit"]
    assert all(words in said for words in output["says"]), said


def test_an_output_that_nothing_reads_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [(f"first line\n{output['line']}\n", "", 4, f"is {output['says']}: ") for output in OTHERS]
    assert told_otherwise(cases, tmp_path, capsys) == []


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_of_mutated_outputs_nothing_is_judged_that_is_not_there(path: Path) -> None:
    text = path.read_text()
    limits = {f"all_reduce.busbw@{size}": LIMITS["all_reduce.busbw@8GiB"] for size in ("1GiB", "4GiB", "8GiB", "16GiB")}
    limits |= dict.fromkeys(("reduce_scatter.busbw@128MiB", "all_gather.busbw@128MiB"), LIMITS["all_reduce.busbw@8GiB"])
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
        fixed = ('"nan"', '"-1"', '"1e999"', "null", "[]", "[[9]]", "{}", "9", '""')
        text = text[: part.start()] + draw.choice([*fixed, f'"{digits[:cut]}{digits[cut + 1 :]}"']) + text[part.end() :]
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
