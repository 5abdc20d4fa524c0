"""Figures of other tools: judged by the same judge as those of a run, never an acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import shipped
import tabled

from pytest_accel.cli.main import main
from pytest_accel.cli.tool_outputs.output import ToolOutput
from pytest_accel.cli.tool_outputs.verdicts import judge_output, measurable
from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.probes.declare import unit_of
from pytest_accel.run.terms import Terms

SKU = shipped.load("h100-sxm")
LIMITS = SKU.limits_on(SKU.platforms["hgx8"])
H200 = Path(__file__).parent.parent / "real" / "outputs" / "nvbandwidth" / "h200-8.json"
PLATFORMS = (tabled.DATA / "cli/platforms.yaml").read_text()

Place = tuple[str, str]
"""Device and metric."""


def figure(place: Place, value: float, **conditions: object) -> Measurement:
    device, metric = place
    return Measurement(metric, device, unit_of(metric) or "", value, conditions=conditions)


def judged(
    figures: Sequence[Measurement], platform: str = "hgx8"
) -> tuple[list[Verdict], Closing, list[tuple[str, str]]]:
    names = dict.fromkeys(each.subject for each in figures if each.subject != NODE)
    devices = [Device(name, place, "nvidia", "") for place, name in enumerate(names)]
    output = ToolOutput("a tool", [*figures], devices, [])
    return judge_output(output, SKU, Terms(SKU, SKU.platforms[platform], devices=tuple(devices)))


def whole() -> Mapping[Place, Measurement]:
    """A figure, as its limit has it as healthy, for everything measured that an acceptance on HGX8 requires."""
    lacking = judged([figure(("gpu0", "matmul.bf16"), 731)])[2]
    metrics = dict.fromkeys(metric for metric, device in lacking if measurable(metric) and device != NODE)
    places = [(f"gpu{n}", metric) for metric in ("matmul.bf16", *metrics) for n in range(8)]
    found = {}
    for place in [(NODE, "all_reduce.busbw@8GiB"), *places]:
        limit = LIMITS[place[1]]
        conditions = {"ranks": 8} if place[0] == NODE else {}
        found[place] = figure(place, limit.reference or limit.floor or limit.ceiling or 0.0, **conditions)
    return found


def test_what_holds_is_held_and_never_accepted() -> None:
    _, closing, _ = judged([*whole().values()])
    assert closing.line.startswith("HELD ")
    assert closing.line.endswith("; no acceptance: measured by another tool")
    assert closing.exit == 6


def test_without_a_required_figure_nothing_is_held() -> None:
    """The test of the tool may have failed: it leaves no row."""
    crashed = [each for place, each in whole().items() if place != ("gpu3", "stream.triad")]
    _, closing, _ = judged(crashed)
    n = len(crashed)
    assert (closing.line, closing.exit) == (f"NOT JUDGED {n}/{n} limits hold; no verdict on gpu3 stream.triad", 6)
    seven = [each for (device, _), each in whole().items() if device != "gpu7"]
    _, closing, lacking = judged(seven)
    assert closing.line.startswith(f"NOT JUDGED {len(seven)}/{len(seven)} limits hold; no verdict on missing device 7 ")
    assert closing.exit == 6
    assert ("stream.triad", "missing device 7") in lacking
    assert ("stream.triad", "gpu0") not in lacking


@pytest.mark.parametrize(("metric", "value"), [("matmul_mamf.bf16", 73000), ("stream.copy_kernel", 2_900_000)])
def test_what_no_device_can_do_is_not_judged(metric: str, value: float) -> None:
    _, closing, _ = judged([figure(("gpu0", metric), value)])
    assert "implausible, so it was not judged" in closing.line
    assert closing.exit == 6


@pytest.mark.parametrize(
    ("conditions", "status"),
    [({"ranks": 8}, Status.PASS), ({"ranks": 4}, Status.UNMEASURED), ({}, Status.UNMEASURED)],
)
def test_conditions_of_the_limit_have_to_be_those_of_the_figure(conditions: dict[str, object], status: Status) -> None:
    ((verdict,), _, _) = judged([figure((NODE, "all_reduce.busbw@8GiB"), 478, **conditions)])
    assert verdict.status is status


def test_devices_of_an_output_are_compared_where_no_limit_decides() -> None:
    figures = [figure((f"gpu{place}", "matmul.fp64"), value) for place, value in enumerate((50, 51, 50, 4.7))]
    verdicts, closing, _ = judged(figures, "single")
    assert [each.status for each in verdicts] == [Status.NOT_APPLICABLE] * 3 + [Status.FAIL]
    assert (
        sentence_of(verdicts[-1])
        == "4.7 TFLOPS, 90.6% behind its 3 neighbours (median 50, healthy up to 13.5%, spread 1.6%);"
        " not measured again: another tool measured it once"
    )
    assert closing.exit == 1


# -- the command


def by_platforms(
    others: float, folder: Path, capsys: pytest.CaptureFixture[str], platform: str = ""
) -> tuple[int, str]:
    """Judge eight H200, to which the host copies 55.4 GB/s: on HGX8 by a floor of 60, on the others by `others`."""
    (folder / "ours.yaml").write_text(PLATFORMS.replace("OTHERS", str(others)))
    named = [f"--platform={platform}"] if platform else []
    code = main(["judge", str(H200), f"--sku={folder / 'ours.yaml'}", *named])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_one_platform_rejects_and_another_accepts_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = by_platforms(44, tmp_path, capsys)
    assert code == 6
    assert "NOT JUDGED the platform decides: name it by --platform; as hgx8: REJECTED" in said
    assert "; as vm-passthrough: NOT JUDGED " in said
    assert by_platforms(44, tmp_path, capsys, "hgx8")[0] == 1
    assert by_platforms(44, tmp_path, capsys, "vm-passthrough")[0] == 6


def test_what_every_platform_rejects_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = by_platforms(80, tmp_path, capsys)
    assert code == 1
    assert "the platform decides" not in said
