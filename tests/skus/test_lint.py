"""Plausibility of threshold files: every slip is caught by the right rule, in its line, and by nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_accel.cli import main
from pytest_accel.skus import lint, loader
from pytest_accel.skus.lint.linted_file import LintedFile
from pytest_accel.skus.lint.physics import physics, reach
from pytest_accel.views import lint_report

TODAY = "2026-11-28"
SOURCE = "{kind: measured, by: us, date: 2026-08}"
FP32 = "fp32_clock_mhz: 1980, fp32_flops_per_clock: 256"
GOOD = """\
sku: mine
vendor: nvidia
architecture: Hopper
match: {names: [NVIDIA Mine], pci_ids: ["10de:0001"]}
datasheet:
  tflops: {fp64: 67, fp32: 67, tf32: 494.7, bf16: 989.4, fp16: 989.4, fp8: 1978.9, int8: 1978.9}
  unsupported: [fp6, fp4]
  memory: {type: HBM3, gb: 80, gb_per_s: 3350, clock_mhz: 2619, bus_bits: 5120}
  compute: {units: 132, tensor_clock_mhz: 1830, tensor_flops_per_clock: 4096, FP32}
  power: {watts: 650, min_watts: 200, max_watts: 700}
  temperature: {max_operating_c: 87, slowdown_c: 89, shutdown_c: 95}
  source: SOURCE
limits:
  matmul.bf16: {floor: derived, reference: 730, unit: TFLOPS, source: SOURCE}
  matmul.fp8: {floor: 1200, reference: 1290, unit: TFLOPS, source: SOURCE}
  matmul.fp32: {floor: 48, unit: TFLOPS, source: SOURCE}
  matmul_best.bf16: {floor: derived, reference: 794.5, unit: TFLOPS, levels: [], source: SOURCE}
  matmul_best.fp8: {floor: derived, reference: 1402, unit: TFLOPS, levels: [], source: SOURCE}
  stream.read: {floor: derived, reference: 3180, unit: GB/s, source: SOURCE}
  soak.rate: {floor: derived, reference: 725, unit: TFLOPS, source: SOURCE}
  soak.power: {floor: 600, unit: W, source: SOURCE}
  soak.droop_slow: {ceiling: 0.05, unit: "1", source: SOURCE}
  inventory.slowdown_temperature: {ceiling: 87, unit: C, source: SOURCE}
  ddp.step_ms: {ceiling: 60, reference: 50, unit: ms, source: SOURCE}
platforms:
  hgx8:
    devices: 8
    pcie: {gen: 5, lanes: 16, gb_per_s: 63}
    link: {type: nvlink4, topology: switch, count: 18, gb_per_s: 450}
    power_watts: 700
    source: SOURCE
    limits:
      host_copy.h2d: {floor: derived, reference: 55, unit: GB/s, source: SOURCE}
      peer_copy.one_way: {floor: derived, reference: 396.4, unit: GB/s, source: SOURCE}
      all_reduce.busbw@8GiB: {floor: derived, reference: 478.9, unit: GB/s, ranks: 8, algorithm: nvls, source: SOURCE}
  single: {devices: 1}
"""
SISTER = """\
sku: sister
vendor: nvidia
architecture: Hopper
match: {names: [NVIDIA Sister], pci_ids: ["10de:0002"]}
datasheet:
  tflops: {fp64: 67, fp32: 67, tf32: 494.7, bf16: 989.4, fp16: 989.4, fp8: 1978.9, int8: 1978.9}
  unsupported: [fp6, fp4]
  memory: {type: HBM3e, gb: 141, gb_per_s: 4800}
  source: SOURCE
limits:
  stream.read: {floor: derived, reference: 4480, unit: GB/s, source: {kind: measured, by: them, date: 2026-08}}
platforms:
  tray:
    devices: 4
    link: {type: nvlink5, topology: switch, count: 18, gb_per_s: 900}
    source: SOURCE
    limits:
      all_reduce.busbw@8GiB: {floor: derived, reference: 830, unit: GB/s, algorithm: nvls, source: SOURCE}
"""


@pytest.mark.slow
def test_our_own_files_leave_nothing_unexplained() -> None:
    report = lint.lint([], TODAY)
    assert report.clean, lint_report.text(report)
    assert report.files == len(loader.names()) + 1 + len(list((loader.SHIPPED / loader.VENDOR_FILES).glob("*.yaml")))


def test_a_power_of_ten_in_any_of_our_limits_would_be_seen() -> None:
    unseen = []
    for name in sorted(set(loader.names()) - {"cpu"}):
        sku, root = loader.read(name)
        for _, limit, platform in LintedFile(sku, root).limits():
            if limit.floor is None or reach(sku, limit, platform) is None:
                continue
            for factor in (10, 0.1, 1000, 0.001):
                slipped = replace(limit, floor=factor * limit.floor, reference=None)
                alone = replace(platform, limits={limit.metric: slipped})
                subject = LintedFile(replace(sku, limits={}, platforms={platform.name: alone}), root)
                if not [*physics(subject)]:
                    unseen.append(f"{name} {platform.name} {limit.metric} times {factor}")
    assert unseen == []


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two good threshold files that is taken for the shipped ones."""
    folder = tmp_path / "thresholds"
    folder.mkdir()
    (folder / "mine.yaml").write_text(GOOD.replace("FP32", FP32).replace("SOURCE", SOURCE))
    (folder / "sister.yaml").write_text(SISTER.replace("SOURCE", SOURCE))
    monkeypatch.setattr(loader, "SHIPPED", folder)
    return folder


def edit(folder: Path, *changes: tuple[str, str], name: str = "mine") -> None:
    path = folder / f"{name}.yaml"
    text = path.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new.replace("SOURCE", SOURCE))
    path.write_text(text)


def found(*names: str) -> list[tuple[str, int, str]]:
    """Every unexplained finding as (rule, line, key)."""
    return [(each.rule, each.line, each.key) for each in lint.lint(names, TODAY).open]


BF16, FP8 = "datasheet.tflops.bf16", "datasheet.tflops.fp8"
HGX8, LIMITS = "platforms.hgx8", "platforms.hgx8.limits"
MEMORY, TFLOPS = "datasheet.memory.gb_per_s", "datasheet.tflops"
ALL_REDUCE = f"{LIMITS}.all_reduce.busbw@8GiB"
SLIPS = [
    # what no run would accept, all at once
    (("floor: 48", "floor: 0"), [("schema", 16, "")]),
    (("sku: mine", "sku: [mine"), [("schema", 2, "")]),
    # order
    (("floor: 1200", "floor: 1300"), [("healthy", 15, "limits.matmul.fp8")]),
    (("ceiling: 60", "ceiling: 45"), [("healthy", 24, "limits.ddp.step_ms")]),
    # physics
    (("floor: 48", "floor: 68"), [("physics", 16, "limits.matmul.fp32")]),
    (("floor: 48", "floor: 26"), [("physics", 16, "limits.matmul.fp32")]),
    (("reference: 725", "reference: 1000"),
     [("physics", 20, "limits.soak.rate"), ("burst", 20, "limits.soak.rate"), ("related", 20, "limits.soak.rate")]),
    (("algorithm: nvls, source: SOURCE}\n  single", "algorithm: ring, source: SOURCE}\n  single"),
     [("physics", 35, ALL_REDUCE)]),
    (("floor: 48, unit: TFLOPS", "floor: 0.3, unit: of peak"), [("physics", 16, "limits.matmul.fp32")]),
    # powers of ten
    (("reference: 3180", "reference: 3.18"), [("physics", 19, "limits.stream.read")]),
    (("gb: 80", "gb: 81559"), [("physics", 8, "datasheet.memory.gb")]),
    (("tensor_clock_mhz: 1830", "tensor_clock_mhz: 1.83"),
     [("physics", 9, "datasheet.compute.tensor_clock_mhz"), ("peak-arithmetic", 6, BF16)]),
    # burst figures on sustained limits
    (("reference: 730", "reference: 794.5"), [("burst", 14, "limits.matmul.bf16")]),
    # the datasheet against itself
    (("bf16: 989.4, fp16: 989.4", "bf16: 1000, fp16: 1000"), [("peak-arithmetic", 6, BF16)]),
    (("clock_mhz: 2619", "clock_mhz: 2419"), [("memory", 8, MEMORY)]),
    (("sku: mine\n", "sku: mine\ntitle: Mine of 94 GB\n"), [("memory", 9, "datasheet.memory.gb")]),
    (("sku: mine\n", "sku: mine\ntitle: Mine of 80GB\n"), []),
    (("bf16: 989.4, fp16: 989.4", "bf16: 989.4, fp16: 950"), [("dtypes", 6, f"{TFLOPS}.fp16")]),
    (("fp8: 1978.9", "fp8: 3957.8"),
     [("dtypes", 6, FP8), ("physics", 15, "limits.matmul.fp8"), ("physics", 18, "limits.matmul_best.fp8")]),
    (("fp64: 67", "fp64: 1.25"), []),  # cut
    (("fp64: 67", "fp64: 67, fp64_vector: 80"),
     [("dtypes", 6, f"{TFLOPS}.fp64_vector")] * 2),
    (("int8: 1978.9", "int8: 1978.9, fp4: 3957.8"), [("dtypes", 6, f"{TFLOPS}.fp4")]),
    (("watts: 650", "watts: 750"), [("power", 10, "datasheet.power.watts")]),
    (("power_watts: 700", "power_watts: 190"),
     [("power", 30, f"{HGX8}.power_watts"), ("physics", 21, "limits.soak.power")]),
    (("shutdown_c: 95", "shutdown_c: 203"), [("power", 11, "datasheet.temperature.shutdown_c")]),
    # the limit by itself
    (("floor: 1200", "floor: 880"), [("healthy", 15, "limits.matmul.fp8")]),
    (("floor: 1200", "floor: 1280"), [("healthy", 15, "limits.matmul.fp8")]),
    (("ceiling: 0.05", "ceiling: 5"), [("ceiling", 22, "limits.soak.droop_slow")]),
    (("ceiling: 87", "ceiling: 105"), [("ceiling", 23, "limits.inventory.slowdown_temperature")]),
    (("floor: 600, unit: W", "floor: 600, ceiling: 1000, unit: W"), [("ceiling", 21, "limits.soak.power")]),
    (("floor: 48", "ceiling: 48"), [("ceiling", 16, "limits.matmul.fp32")]),
    (("reference: 478.9, unit: GB/s, ranks: 8, algorithm: nvls, source: SOURCE}\n",
      "reference: 478.9, unit: GB/s, algorithm: nvls, source: {kind: measured, by: us, date: 2026-08, devices: 1}}\n"),
     [("several", 35, f"{ALL_REDUCE}.source.devices")]),
    (("ranks: 8", "ranks: 4"), [("several", 35, f"{ALL_REDUCE}.ranks")]),
    (("floor: 48", 'floor: 48, software: {nccl: ">=2.20,<2.18"}'),
     [("software", 16, "limits.matmul.fp32.software.nccl")]),
    (("floor: 48", 'floor: 48, software: {nccl: ">=2.18, <3", torch: "==2.7.0"}'), []),
    # links
    (("gen: 5", "gen: 4"), [("pcie-rate", 28, f"{HGX8}.pcie.gb_per_s")]),
    (("lanes: 16", "lanes: 12"), [("pcie-rate", 28, f"{HGX8}.pcie.lanes")]),
    (("gen: 5", "gen: 16"), [("pcie-rate", 28, f"{HGX8}.pcie.gen")]),
    (("type: nvlink4", "type: 18x200GbE RoCE"), []),
    (("type: nvlink4", "type: 18x100GbE RoCE"), [("link-rate", 29, f"{HGX8}.link.gb_per_s")]),
    (("power_watts: 700", "fabric: {nics: 8, gbit_per_s: 50, link: roce, source: SOURCE}"),
     [("fabric", 30, f"{HGX8}.fabric.gbit_per_s")]),
    (("      host_copy.h2d:",
      "      health.pcie_width: {floor: 8, unit: count, source: SOURCE}\n      host_copy.h2d:"),
     [("stated", 33, f"{LIMITS}.health.pcie_width")]),
    # collectives of other sizes and ranks
    (("      host_copy.h2d:",
      "      all_reduce.busbw@1GiB: {floor: 520, unit: GB/s, algorithm: nvls, source: SOURCE}\n      host_copy.h2d:"),
     [("related", 33, f"{LIMITS}.all_reduce.busbw@1GiB")]),
    # sources
    (("  source: SOURCE\nlimits", "limits"), [("source", 5, "datasheet")]),
    (("    source: SOURCE\n    limits", "    limits"), [("source", 26, HGX8)]),
    (("floor: 48, unit: TFLOPS, source: SOURCE",
      "floor: 48, unit: TFLOPS, source: {kind: measured, by: us, date: 2026-12}"),
     [("source", 16, "limits.matmul.fp32.source.date")]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), SLIPS, ids=[new[:50] for (_, new), _ in SLIPS])
def test_a_slip_is_caught_by_its_rule_alone(
    shipped: Path, change: tuple[str, str], expected: list[tuple[str, int, str]]
) -> None:
    edit(shipped, (change[0].replace("SOURCE", SOURCE), change[1]))
    assert sorted(found()) == sorted(expected)


@pytest.mark.parametrize(
    ("rule", "severity", "says"),
    [
        ("healthy", "warning", "expected a finding: delete the entry"),
        ("helthy", "error", "expected a rule; did you mean 'healthy'"),
    ],
)
def test_an_explanation_of_nothing_is_found_itself(shipped: Path, rule: str, severity: str, says: str) -> None:
    with (shipped / "mine.yaml").open("a") as file:
        file.write(f"explained:\n  - {{rule: {rule}, key: limits.matmul.fp8, reason: it was}}\n")
    (finding,) = lint.lint([], TODAY).open
    assert (finding.rule, finding.severity, finding.line) == ("explained", severity, 38)
    assert says in finding.expected


def test_everything_that_no_run_accepts_is_found_at_once_and_the_other_files_too(shipped: Path) -> None:
    edit(shipped, ("floor: 48", "flor: 48"), ("devices: 8\n", "devices: 0\n"))
    edit(shipped, ("vendor: nvidia", "vendor: nvida"), name="sister")
    report = lint.lint([], TODAY)
    assert [(each.file, each.line) for each in report.open] == [
        ("mine.yaml", 16),
        ("mine.yaml", 27),
        ("sister.yaml", 2),
    ]
    assert "unknown key 'limits.matmul.fp32.flor'; did you mean 'floor'" in report.open[0].value


def test_a_file_that_its_vendors_file_breaks_is_not_called_good(shipped: Path) -> None:
    (shipped / "vendor").mkdir()
    (shipped / "vendor" / "nvidia.yaml").write_text(
        "vendor: nvidia\nlimits: {soak.throttle.sw_thermal: {ceiling: low}}\n"
    )
    for names in ((), ("mine",), (str(shipped / "vendor" / "nvidia.yaml"),)):
        assert ("schema", 2) in {(rule, line) for rule, line, _ in found(*names)}


# -- files of one's own, and those below


def own(folder: Path, text: str) -> str:
    path = folder.parent / "own.yaml"
    path.write_text(text.replace("SOURCE", SOURCE))
    return str(path)


def test_only_the_lines_of_an_own_file_are_examined(shipped: Path) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    path = own(shipped, "extends: mine\nlimits:\n  stream.read: {floor: 3000, reference: 4480, source: SOURCE}\n")
    report = lint.lint([path], TODAY)
    assert [(each.rule, each.file, each.line) for each in report.open] == [
        ("physics", path, 3),
        ("healthy", path, 3),
    ]
    assert [(each.rule, each.file, each.line) for each in report.below] == [("healthy", "mine.yaml", 15)]
    assert (report.files, report.limits) == (1, 1)


def test_what_a_file_of_the_vendor_says_is_found_once(shipped: Path) -> None:
    (shipped / "vendor").mkdir()
    (shipped / "vendor" / "nvidia.yaml").write_text(
        f"vendor: nvidia\nlimits:\n  soak.throttle.sw_thermal: {{ceiling: 0.9, unit: '1', source: {SOURCE}}}\n"
    )
    expected = [("ceiling", 3, "limits.soak.throttle.sw_thermal")]
    assert found() == expected
    assert found(str(shipped / "vendor" / "nvidia.yaml")) == expected
    assert found("mine") == []


# -- the command


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = main.main(["sku", "lint", *arguments])
    return status, capsys.readouterr().out.splitlines()


def test_good_files_are_counted(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys) == (0, ["2 files, 16 limits: 0 errors, 0 warnings, 0 explained"])


def test_findings_are_one_a_line_errors_first(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"), ("reference: 3180", "reference: 3.18"))
    status, (first, second, summary) = run(capsys)
    assert status == 4
    assert first == (
        "mine.yaml:19: error[physics] limits.stream.read: 2.9574, expected another unit or digit: "
        "2957 would be 0.88 of memory datasheet peak, this is 0.00088"
    )
    assert second.startswith("mine.yaml:15: warning[healthy] limits.matmul.fp8: 880, expected at least 1096, ")
    assert summary == "2 files, 16 limits: 1 error, 1 warning, 0 explained"


def test_what_is_explained_is_shown_on_demand(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    with (shipped / "mine.yaml").open("a") as file:
        file.write("explained: [{rule: healthy, key: limits.matmul.*, reason: the only one in use}]\n")
    assert run(capsys) == (0, ["2 files, 16 limits: 0 errors, 0 warnings, 1 explained"])
    status, lines = run(capsys, "--all")
    assert status == 0
    assert lines[0].startswith("mine.yaml:15: warning[healthy] limits.matmul.fp8: 880, ")
    assert lines[0].endswith("(explained: the only one in use)")


def test_the_report_as_json(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    status, lines = run(capsys, "--format", "json")
    report = json.loads("\n".join(lines))
    (finding,) = report.pop("findings")
    assert status == 4
    assert report == {"files": 2, "limits": 16, "errors": 0, "warnings": 1}
    assert (finding["file"], finding["line"], finding["rule"]) == ("mine.yaml", 15, "healthy")


def test_a_file_that_is_not_there_ends_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["sku", "lint", "gone/own.yaml"]) == 4
    assert "gone/own.yaml: there is no such threshold file" in capsys.readouterr().err


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(
    shipped: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert any("\033[33m" in line for line in run(capsys)[1]) is coloured


def test_every_rule_is_listed_and_has_a_slip_above(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = run(capsys, "--list")
    names = [line.split()[0] for line in lines]
    assert status == 0
    assert set(names) == {rule for _, expected in SLIPS for rule, _, _ in expected} | {"explained"}
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in lines)
