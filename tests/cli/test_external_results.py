"""Figures of other tools: read exactly or refused with their line, judged by the same judge, never an acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import shipped

from pytest_accel.cli.external_results import ExternalFigure, judge_figures, measurable, names, parse
from pytest_accel.cli.main import main
from pytest_accel.core.measurement import Device
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.run.terms import Terms

SKU = shipped.load("h100-sxm")
HGX8 = SKU.platforms["hgx8"]
LIMITS = SKU.limits_on(HGX8)
HEADER = "device,metric,value,unit"


def read(*rows: str, header: str = HEADER) -> list[ExternalFigure]:
    return parse("\n".join([header, *rows]), "f.csv", LIMITS)


def one(row: str, header: str = HEADER) -> ExternalFigure:
    (found,) = read(row, header=header)
    return found


@pytest.mark.parametrize(
    ("metric", "value", "unit", "wanted", "ours"),
    [
        ("matmul.bf16", "0.7", "PFLOPS", 700.0, "TFLOPS"),
        ("matmul.bf16", "700", "TFLOPS", 700.0, "TFLOPS"),
        ("matmul.bf16", "612400.1", "GFLOPS", 612.4001, "TFLOPS"),
        ("stream.copy", "2.9", "TB/s", 2900.0, "GB/s"),
        ("stream.copy", "2900000", "MB/s", 2900.0, "GB/s"),
        ("host_copy.h2d", "5.48e1", "GB/s", 54.8, "GB/s"),
        ("soak.throttle.hw_thermal", "50", "ms", 0.05, "s"),
        ("soak.throttle.hw_thermal", "50", "us", 0.00005, "s"),
        ("soak.power", "690", "W", 690.0, "W"),
    ],
)
def test_units_are_converted_exactly(metric: str, value: str, unit: str, wanted: float, ours: str) -> None:
    found = one(f"gpu0,{metric},{value},{unit}").measurement
    assert (found.value, found.unit) == (wanted, ours)


def test_time_of_the_node() -> None:
    assert one("node,ddp.step_ms,0.0325,s").measurement.value == 32.5


def test_other_columns_are_conditions() -> None:
    header = "metric,value,unit,device,ranks,algorithm,source,software"
    found = one('all_reduce.busbw@8GiB,477,GB/s,node,8,nvls,"nccl-tests, run 2",NCCL 2.18.5; torch=2.7.0', header)
    assert found.measurement.conditions == {
        "ranks": 8,
        "algorithm": "nvls",
        "source": "nccl-tests, run 2",
        "software": "NCCL 2.18.5; torch=2.7.0",
    }
    assert found.software == {"nccl": "2.18.5", "torch": "2.7.0"}


def test_comments_and_empty_lines_are_left_out() -> None:
    text = f"# by hand\n\n{HEADER}\n  # more\ngpu0,stream.copy,2900,GB/s\n"
    assert [each.line for each in parse(text, "f.csv", LIMITS)] == [5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f.csv:1: the file is empty"),
        (HEADER, "f.csv:1: there is no row below the header"),
        ("device,metric,value\n", "f.csv:1: column 'unit' is missing; the header needs device, metric, value, unit"),
        (f"{HEADER},unit\n", "f.csv:1: a column is given twice"),
        (f"{HEADER}\ngpu0,matmul.bf61,1,TFLOPS", "f.csv:2: metric 'matmul.bf61' is not known; did you mean"),
        (f"{HEADER}\ngpu0,matmul.bf16,fast,TFLOPS", "f.csv:2: value 'fast' is not a number"),
        (f"{HEADER}\ngpu0,matmul.bf16,nan,TFLOPS", "f.csv:2: value 'nan' is not a number"),
        (f"{HEADER}\ngpu0,matmul.bf16,,TFLOPS", "f.csv:2: value '' is not a number"),
        (f'{HEADER}\ngpu0,matmul.bf16,"1,234",TFLOPS', "f.csv:2: value '1,234' is not a number"),
        (f"{HEADER}\ngpu0,stream.copy,2700,GiB/s", "not a unit of stream.copy; choose TB/s or GB/s or MB/s"),
        (f"{HEADER}\ngpu0,matmul.bf16,700,GB/s", "f.csv:2: unit 'GB/s' is not a unit of matmul.bf16"),
        (f"{HEADER}\ngpu0,soak.throttle.hw_thermal,-5,s", "f.csv:2: value -5 s is not possible for soak"),
        (f"{HEADER}\ngpu0,matmul.bf16,1e9999,TFLOPS", "f.csv:2: value 1E+9999 TFLOPS is not possible for matmul.bf16"),
        (f"{HEADER}\ngpu0,inventory.ecc,0,text", "f.csv:2: inventory.ecc is a text; only numbers"),
        (f"{HEADER}\ngpu0,matmul.bf16,700", "f.csv:2: the row has 3 cells, but the header has 4"),
        (f"{HEADER}\ngpu0,matmul.bf16,700,TFLOPS,x", "f.csv:2: the row has 5 cells, but the header has 4"),
        (f"{HEADER}\n,matmul.bf16,700,TFLOPS", "f.csv:2: the device is missing"),
        (f"{HEADER}\nnode,matmul.bf16,700,TFLOPS", "f.csv:2: matmul.bf16 is a metric of a device, not of 'node'"),
        (f"{HEADER}\ngpu0,all_reduce.busbw@8GiB,470,GB/s", "f.csv:2: all_reduce.busbw@8GiB is a metric of the node"),
        (f"{HEADER}\ngpu0,stream.copy,1,GB/s\n#\ngpu0,stream.copy,2,GB/s", "f.csv:4: gpu0 stream.copy is given twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text: str, says: str) -> None:
    with pytest.raises(BadFile) as bad:
        parse(text, "f.csv", LIMITS)
    assert says in str(bad.value)


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(BadFile) as bad:
        read("gpu0,matmul.bf16,x,TFLOPS", "gpu0,stream.copy,1,GB/s", "gpu0,stream.triad,1,GiB/s")
    assert [line.partition(": ")[0] for line in str(bad.value).splitlines()] == ["f.csv:2", "f.csv:4"]


# -- judged


def by_limits(
    figures: list[ExternalFigure], sku: Sku = SKU, platform: str = "hgx8"
) -> tuple[list[Verdict], Closing, list[tuple[str, str]]]:
    devices = tuple(Device(name, place, "nvidia", "") for place, name in enumerate(names(figures)))
    return judge_figures(figures, sku, Terms(sku, sku.platforms[platform], devices=devices))


def closed(*rows: str, header: str = HEADER) -> tuple[str, int]:
    _, closing, _ = by_limits(read(*rows, header=header))
    return closing.line, closing.exit


def whole() -> dict[tuple[str, str], str]:
    """A row for every value that a table can have of those that an acceptance on HGX8 requires, by device and metric.

    Each is what its limit has as healthy.
    """
    required = {"node": ["all_reduce.busbw@8GiB"], **{f"gpu{place}": [] for place in range(8)}}
    lacking = by_limits(read("gpu0,matmul.bf16,731,TFLOPS"))[2]
    for metric in dict.fromkeys(metric for metric, device in lacking if device.startswith("missing device")):
        if measurable(metric):
            required |= {device: [*metrics, metric] for device, metrics in required.items() if device != "node"}
    rows = {}
    for device, metrics in required.items():
        for metric in metrics:
            limit = LIMITS[metric]
            value = limit.reference or limit.floor or limit.ceiling
            rows[device, metric] = f"{device},{metric},{value},{limit.unit},{8 if device == 'node' else ''}"
    return rows


def test_what_holds_is_held_and_never_accepted() -> None:
    line, code = closed(*whole().values(), header=f"{HEADER},ranks")
    assert line.startswith("HELD ")
    assert line.endswith("; no acceptance: measured by another tool")
    assert code == 6


def test_a_table_without_a_required_value_is_not_judged() -> None:
    """The test of the tool may have failed: it leaves no row."""
    rows = whole()
    crashed = [row for (device, metric), row in rows.items() if (device, metric) != ("gpu3", "stream.triad")]
    line, code = closed(*crashed, header=f"{HEADER},ranks")
    assert (line, code) == (f"NOT JUDGED {len(crashed)}/{len(crashed)} limits hold; no verdict on gpu3 stream.triad", 6)
    seven = [row for (device, _), row in rows.items() if device != "gpu7"]
    line, code = closed(*seven, header=f"{HEADER},ranks")
    assert line.startswith(f"NOT JUDGED {len(seven)}/{len(seven)} limits hold; no verdict on missing device 7 ")
    assert code == 6


@pytest.mark.parametrize("row", ["gpu0,matmul.bf16,73000,TFLOPS", "gpu0,stream.copy_kernel,2900,TB/s"])
def test_what_no_device_can_do_is_not_judged(row: str) -> None:
    line, code = closed(row)
    assert "implausible, so it was not judged" in line
    assert code == 6


def test_a_shortfall_is_rejected() -> None:
    line, code = closed("gpu0,stream.triad,2970,GB/s", "gpu1,stream.triad,2600,GB/s")
    assert line.startswith("REJECTED gpu1: stream.triad 2600 GB/s, floor 2762")
    assert code == 1


def test_a_shortfall_under_an_advisory_limit_is_held_as_short() -> None:
    rows = {**whole(), ("gpu0", "matmul.bf16"): "gpu0,matmul.bf16,600,TFLOPS,"}
    line, code = closed(*rows.values(), header=f"{HEADER},ranks")
    assert line.startswith("HELD ")
    assert "(1 marginal: gpu0 matmul.bf16 -3.5%)" in line
    assert code == 6


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ("8,nvls", Status.PASS),
        ("8,", Status.PASS),
        ("8,ring", Status.PASS),  # it holds by any algorithm
        ("4,nvls", Status.UNMEASURED),
        (",nvls", Status.UNMEASURED),
    ],
)
def test_conditions_of_the_limit_have_to_be_those_of_the_figure(conditions: str, status: Status) -> None:
    figures = read(f"node,all_reduce.busbw@8GiB,478,GB/s,{conditions}", header=f"{HEADER},ranks,algorithm")
    ((verdict,), _, _) = by_limits(figures)
    assert verdict.status is status


def test_another_shape_is_not_judged() -> None:
    line, code = closed("gpu0,matmul.bf16,600,TFLOPS,4096", header=f"{HEADER},m")
    assert code == 6
    assert "measured with m=4096, but the limits of h100-sxm are for m=8192" in line


def test_what_no_limit_judges_alone_is_not_judged() -> None:
    line, code = closed("gpu0,matmul.fp64,60,TFLOPS")
    assert line.startswith("NOT JUDGED 0/0 limits hold; no verdict on gpu0, missing device 1 to missing device 7 ")
    assert code == 6


def test_what_is_required_and_lacking_is_listed() -> None:
    figures = read("gpu0,matmul.bf16,731,TFLOPS", "gpu1,stream.copy_kernel,2900,GB/s")
    _, _, lacking = by_limits(figures)
    assert ("matmul.bf16", "gpu1") in lacking
    assert ("matmul.bf16", "gpu0") not in lacking
    assert ("all_reduce.busbw@8GiB", "node") in lacking


def test_software_outside_of_the_validated_range() -> None:
    limit = Limit("matmul.bf16", "TFLOPS", floor=700.0, software={"cuda": ">=12.4"}, origin="f:1")
    own = replace(SKU, limits={"matmul.bf16": limit})
    figures = read("gpu0,matmul.bf16,600,TFLOPS,cuda 12.2", header=f"{HEADER},software")
    ((verdict,), closing, _) = by_limits(figures, own)
    assert (verdict.status, closing.exit) == (Status.MARGINAL, 6)


def test_devices_of_a_table_are_compared_where_no_limit_decides() -> None:
    rows = [f"gpu{place},matmul.fp64,{value},TFLOPS" for place, value in enumerate((50, 51, 50, 4.7))]
    sku = shipped.load("h100-sxm")
    verdicts, closing, _ = by_limits(read(*rows), sku, "single")
    assert [each.status for each in verdicts] == [Status.NOT_APPLICABLE] * 3 + [Status.FAIL]
    assert (
        sentence_of(verdicts[-1])
        == "4.7 TFLOPS, 90.6% behind its 3 neighbours (median 50, healthy up to 24.0%, spread 1.6%);"
        " not measured again: another tool measured it once"
    )
    assert closing.exit == 1


# -- the command


HOSTS = [f"gpu{index},host_copy.h2d,{{}},GB/s" for index in range(8)]
TWO_PLATFORMS = """
sku: ours
extends: h100-sxm
platforms:
  hgx8: {limits: {host_copy.h2d: {floor: 52, source: &us {kind: measured, by: us, date: 2026-11}}}}
  vm-passthrough: {limits: {host_copy.h2d: {floor: 44, source: *us}}}
"""


def judged(
    folder: Path, capsys: pytest.CaptureFixture[str], rows: Sequence[str], *more: str, header: str = HEADER
) -> tuple[int, str]:
    (folder / "ours.yaml").write_text(TWO_PLATFORMS)
    (folder / "f.csv").write_text("\n".join([header, *rows, ""]))
    sku = next((each for each in more if each.startswith("--accel-sku")), f"--accel-sku={folder / 'ours.yaml'}")
    code = main(["judge", str(folder / "f.csv"), sku, *(each for each in more if each != sku)])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_one_platform_rejects_and_another_accepts_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row.format(48) for row in HOSTS]
    code, said = judged(tmp_path, capsys, rows)
    assert code == 6
    assert "platform hgx8 was taken by the number of devices; vm-passthrough fits, too, and judges otherwise" in said
    assert "NOT JUDGED the platform decides: name it by --accel-platform; as hgx8: REJECTED" in said
    assert "; as vm-passthrough: NOT JUDGED 8/8 limits hold; no verdict on gpu0 to gpu7 " in said
    assert judged(tmp_path, capsys, rows, "--accel-platform=hgx8")[0] == 1
    assert judged(tmp_path, capsys, rows, "--accel-platform=vm-passthrough")[0] == 6


def test_what_every_platform_rejects_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = judged(tmp_path, capsys, [row.format(30) for row in HOSTS])
    assert code == 1
    assert "judges otherwise" not in said


def test_a_ring_that_replaced_a_dead_nvls_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, header = "node,all_reduce.busbw@8GiB,360,GB/s,8,ring", f"{HEADER},ranks,algorithm"
    code, said = judged(tmp_path, capsys, [row], header=header)
    assert code == 1
    assert "the collective used ring; the limit's reference was measured with nvls" in said


def test_one_line_of_a_table_does_not_list_every_fact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = judged(tmp_path, capsys, ["gpu0,matmul.bf16,700,TFLOPS"])
    (line,) = (each for each in said.splitlines() if each.startswith("required, but not in the file"))
    assert "stream.triad" in line
    assert "host_copy.h2d" in line
    assert "soak.rate" in line
    assert "inventory." not in line
    assert "facts and counters, which only a run on the node reads" in line


def test_the_reason_is_given_once_for_all_figures_that_share_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"gpu{index},matmul.bf16,600,TFLOPS,4096" for index in range(3)]
    rows += ["gpu0,stream.triad,2900,GB/s,"]
    _, said = judged(tmp_path, capsys, rows, header=f"{HEADER},m")
    assert said.count("not judged: ") == 1
    assert "not judged: matmul.bf16 of gpu0, gpu1, gpu2: measured with m=4096, but the limits of ours are for" in said


@pytest.mark.parametrize(
    ("metric", "ours"),
    [
        ("hbm_bandwidth", "stream.copy_kernel"),
        ("stream.coppy", "stream.copy"),
        ("host_copy.H2D", "host_copy.h2d"),
        ("allreduce_busbw", "all_reduce.busbw@8GiB"),
        ("gemm_bf16", "matmul.bf16"),
    ],
)
def test_an_unknown_metric_gets_the_nearest_name_and_not_all_of_them(metric: str, ours: str) -> None:
    with pytest.raises(BadFile) as bad:
        read(f"gpu0,{metric},1,GB/s")
    said = str(bad.value)
    assert f"metric '{metric}' is not known; did you mean" in said
    assert f"'{ours}'" in said
    assert len(said) < 250
