"""Slips that shipped in others' threshold files and tables, entered into files of ours: none gets through.

The datasheets are the vendors' figures; beside each slip stands who published it.
"""

from pathlib import Path

import pytest

from pytest_accel.skus import lint, loader

TODAY = "2026-11-24"
HOPPER_CLOCK = "tensor_clock_mhz: 1830, tensor_flops_per_clock: 4096, max_clock_mhz: 1980"
HOPPER = ["tflops: {fp32: 67, tf32: 494.7, bf16: 989.4, fp16: 989.4, fp8: 1978.9}", "memory: {gb_per_s: 3350}"]
GEN4, GEN5 = "pcie: {gen: 4, lanes: 16, gb_per_s: 31}", "pcie: {gen: 5, lanes: 16, gb_per_s: 63}"
NVLINK3 = "link: {type: nvlink3, topology: switch, count: 12, gb_per_s: 300}"
NVLINK4 = "link: {type: nvlink4, topology: switch, count: 18, gb_per_s: 450}"
NVLINK5 = "link: {type: nvlink5, topology: switch, count: 18, gb_per_s: 900}"
BRIDGE = "link: {type: nvlink4, topology: bridge, count: 12, gb_per_s: 300}"
MESH = "link: {type: xgmi, topology: mesh, count: 7, gb_per_s: 448}"
NVL = "memory: {type: HBM3, gb_per_s: 3900, clock_mhz: 2619, bus_bits: 6016}"
CDNA4_CLOCK = "compute: {units: 256, tensor_clock_mhz: 2400, tensor_flops_per_clock: 4096}"
MME_CLOCK = "compute: {units: 8, tensor_clock_mhz: 1600, tensor_flops_per_clock: 131072}"
CHIPS = {  # architecture, datasheet, platform
    "h100": ("Hopper", [*HOPPER, f"compute: {{units: 132, {HOPPER_CLOCK}}}"], ["devices: 8", GEN5, NVLINK4]),
    "h100-nvl": ("Hopper", [NVL], ["devices: 2", BRIDGE]),
    "h100-64gb": ("Hopper", ["memory: {type: HBM2e, gb_per_s: 2000}"], ["devices: 4"]),  # as the PCIe part of that type
    "h200": ("Hopper", ["memory: {type: HBM3e, gb_per_s: 4800}"], ["devices: 8"]),
    "h20": ("Hopper", ["memory: {type: HBM3, gb_per_s: 4000}"], ["devices: 8"]),
    "a100-40gb": (
        "Ampere",
        ["tflops: {bf16: 312, fp16: 312, int8: 624}", "memory: {type: HBM2, gb_per_s: 1555}", "power: {watts: 250}"],
        ["devices: 8", GEN4, NVLINK3],
    ),
    "a30": ("Ampere", ["power: {watts: 165}"], ["devices: 1"]),
    "l40": ("Ada Lovelace", ["memory: {type: GDDR6, gb_per_s: 864}"], ["devices: 1"]),
    "l4": (
        "Ada Lovelace",
        ["tflops: {bf16: 121, fp16: 121, fp8: 242.5}", "memory: {type: GDDR6, gb_per_s: 300}"],
        ["devices: 1"],
    ),
    "b200": (
        "Blackwell",
        ["tflops: {fp32: 75, bf16: 2250, fp16: 2250}", "memory: {type: HBM3e, gb_per_s: 8000}"],
        ["devices: 8", NVLINK5],
    ),
    "mi300x": (
        "CDNA3",
        ["tflops: {bf16: 1307.4, fp16: 1307.4, fp32: 163.4}", "memory: {type: HBM3, gb_per_s: 5300}"],
        ["devices: 8", MESH],
    ),
    "mi325x": ("CDNA3", ["memory: {type: HBM3e, gb_per_s: 6000}"], ["devices: 8"]),
    "mi355x": ("CDNA4", ["tflops: {bf16: 2516.6, fp16: 2516.6}", CDNA4_CLOCK], ["devices: 8"]),
    "gaudi3": ("Gaudi3", ["tflops: {bf16: 1677, fp8: 1677}", MME_CLOCK], ["devices: 8"]),
    "rtx-4090": (
        "Ada Lovelace",
        ["tflops: {bf16: 165.2, fp16: 165.2, fp8: 330.3, int8: 660.6}", "compute: {tensor_flops_per_clock: 512}"],
        ["devices: 1"],
    ),
    "bmg-24gb": ("Xe2", ["memory: {gb: 24}"], ["devices: 1", "pcie: {gen: 5, lanes: 8, gb_per_s: 31.5}"]),
}
VENDORS = {"mi3": "amd", "gau": "habana", "bmg": "intel"}
SOURCE = "source: {kind: published, by: others, date: 2026-08}"


def write(folder: Path, chip: str, limits: str, change: tuple[str, str] = ("none", "none")) -> None:
    """One chip with limits: those of the SKU begin in line 6, the platform and its limits are the last line."""
    architecture, *lists = CHIPS[chip]
    datasheet, platform = (", ".join(parts).replace(*change) for parts in lists)
    vendor = VENDORS.get(chip[:3], "nvidia")
    of_platform = limits.startswith(("host_copy", "peer_copy", "all_reduce"))
    (folder / f"{chip}.yaml").write_text(
        f"sku: {chip}\nvendor: {vendor}\narchitecture: {architecture}\ndatasheet: {{{datasheet}, {SOURCE}}}\n"
        f"limits: {{{'' if of_platform else limits}}}\n"
        f"platforms: {{node: {{{platform}, {SOURCE}, limits: {{{limits if of_platform else ''}}}}}}}\n"
    )


def limit(metric: str, figures: str, more: str = "") -> str:
    unit = "TFLOPS" if metric.startswith("matmul") else "W" if metric == "soak.power" else "GB/s"
    return f"{metric}: {{{figures}, unit: {unit}, {more}{SOURCE}}}"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(loader, "SHIPPED", tmp_path)
    return tmp_path


def opened() -> list[lint.LintFinding]:
    """The findings, except that these limits advise: what is published seldom says how it was measured."""
    return [each for each in lint.lint([], TODAY).open if each.rule != "effect"]


def rules() -> list[str]:
    return sorted(each.rule for each in opened())


@pytest.mark.parametrize("chip", CHIPS)
def test_the_chips_are_good(shipped: Path, chip: str) -> None:
    write(shipped, chip, "")
    assert rules() == []


SIZE = "all_reduce.busbw@8GiB"
LIMITS = [
    # NVIDIA/DCGM nvvs/diag-skus.yaml.in, memory bandwidth in MB/s; fact 25 of our notes on method
    ("h200", "stream.copy", "floor: 2.333", "physics"),  # 10de:2335
    ("a100-40gb", "stream.copy", "floor: 137.5", "physics"),  # 20b0, its comment computes 1372.5
    ("l40", "stream.copy", "floor: 49.05", "physics"),  # 26b5, its sibling has 551.8
    ("h100-64gb", "stream.copy", "floor: 122.25", "physics"),  # 2337
    ("b200", "stream.copy", "floor: 1344.375", "physics"),  # 29bc
    ("b200", "stream.copy", "floor: 2558.124", "physics"),  # 2901 199b
    ("b200", "stream.copy", "floor: 2602.5", "physics"),  # 2941
    ("h20", "stream.copy", "floor: 1507", "physics"),  # 2329, an export part: right, and to be explained
    ("b200", "matmul.fp32", "floor: 3416.25", "physics"),  # 29bc, targeted stress
    ("a30", "soak.power", "floor: 194", "physics"),  # target above the power limit of 165
    ("a100-40gb", "soak.power", "floor: 299", "physics"),
    # healthy gates of the same file hold
    ("h100", "stream.copy", "floor: 1905", ""),
    ("a100-40gb", "stream.copy", "floor: 969.75", ""),
    ("b200", "stream.copy", "floor: 4072.5", ""),
    # AMD's acceptance documents: MB/s taken for GB/s; the bf16 bar that is a tenth of the peak
    ("mi300x", "stream.triad", "floor: 3885301", "physics"),
    ("mi300x", "matmul.bf16", "floor: 130.6", "physics"),
    ("mi300x", "matmul.bf16", "reference: 2600, floor: derived", "physics"),  # sparse
    # ROCm/ROCmValidationSuite: targets of zero
    ("mi300x", "matmul.fp32", "floor: 0", "schema"),
    # Azure's health checks: NVL judged by the floor of SXM; its guide: 6.27 GB/s D2H on Gen4 without a remark
    ("h100-nvl", "peer_copy.one_way", "floor: 335", "physics"),
    ("a100-40gb", "host_copy.d2h", "floor: derived, reference: 6.27", "physics"),
    # Oracle: one host copy floor for every shape; AWS: all-reduce floors above what a node can do
    ("a100-40gb", "host_copy.h2d", "floor: 52", "physics"),
    ("h100", SIZE, "floor: 800, algorithm: nvls", "physics"),
    ("h100", SIZE, "floor: 500, algorithm: ring", "physics"),
    ("h100", SIZE, "floor: 150", "physics"),  # NVSentinel
    ("h100", SIZE, "floor: 460, algorithm: nvls, reference: 478.9", ""),
    # intel/xpumanager: floors above their own references, 8086:e211 and e216
    ("bmg-24gb", "soak.power", "floor: 102, reference: 54", "healthy"),
    ("bmg-24gb", "host_copy.h2d", "floor: 22, reference: 17", "healthy"),
    # boards that boost above their published clock: 1980 over 1830 MHz
    ("h100", "matmul_best.bf16", "floor: 1000", ""),
    ("h100", "matmul_best.bf16", "floor: 1080", "physics"),
    ("h100", "matmul.bf16", "floor: 400", ""),
    # a report that compares with sparse peaks; the best shape of a search as a sustained floor
    ("h100", "matmul.bf16", "floor: 1979", "physics"),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "metric", "figures", "rule"), LIMITS)
def test_a_published_limit(shipped: Path, chip: str, metric: str, figures: str, rule: str) -> None:
    write(shipped, chip, limit(metric, figures))
    assert [each.rule for each in opened()] == ([rule] if rule else [])
    line = 6 if metric.startswith(("host_copy", "peer_copy", "all_reduce")) else 5
    assert {each.line for each in opened()} <= {line}


DATASHEETS = [
    # sparse rates as dense ones: PyTorch's device table, reports on the H100
    ("h100", ("bf16: 989.4, fp16: 989.4, fp8: 1978.9", "bf16: 1979, fp16: 1979, fp8: 3958"),
     ["dtypes", "peak-arithmetic"]),
    ("h100", ("bf16: 989.4,", "bf16: 1979,"), ["dtypes", "dtypes", "dtypes", "peak-arithmetic"]),
    ("l4", ("fp8: 242.5", "fp8: 485"), ["dtypes"]),
    ("rtx-4090", ("fp8: 330.3", "fp8: 660.6"), ["dtypes"]),  # the rate with fp16 accumulation
    ("h100", ("tf32: 494.7", "tf32: 156"), ["dtypes"]),
    ("l4", ("gb_per_s: 300", "gb_per_s: 3350"), ["memory"]),
    # the A100 table with FP8 in it, twice published
    ("a100-40gb", ("int8: 624", "int8: 624, fp8: 624"), ["dtypes"]),
    # MI350X's peak on MI355X; a clock that shipping Gaudi3 do not run; the reported clock of H100 for its tensor clock
    ("mi355x", ("bf16: 2516.6, fp16: 2516.6", "bf16: 2300, fp16: 2300"), ["peak-arithmetic"]),
    ("gaudi3", ("bf16: 1677, fp8: 1677", "bf16: 1835, fp8: 1835"), ["peak-arithmetic"]),
    ("h100", ("bf16: 989.4, fp16: 989.4, fp8: 1978.9", "bf16: 1070, fp16: 1070, fp8: 2140"),
     ["dtypes", "peak-arithmetic"]),
    # the "dual" H100 NVL; both directions of a link; bits for bytes
    ("h100-nvl", ("gb_per_s: 3900", "gb_per_s: 7800"), ["memory"]),
    ("h100", ("gb_per_s: 450", "gb_per_s: 900"), ["link-rate"]),
    ("h100", ("gb_per_s: 63", "gb_per_s: 128"), ["pcie-rate"]),
    ("a100-40gb", ("gb_per_s: 31", "gb_per_s: 252"), ["pcie-rate"]),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "change", "expected"), DATASHEETS)
def test_a_published_datasheet(shipped: Path, chip: str, change: tuple[str, str], expected: list[str]) -> None:
    write(shipped, chip, "", change)
    assert rules() == expected


@pytest.mark.parametrize(
    ("one", "two", "metric", "figures"),
    [
        ("mi300x", "mi325x", "stream.copy", "floor: 4177.285"),  # AMD's acceptance documents
        ("h100", "b200", SIZE, "floor: 440"),  # Oracle: Blackwell judged by what a Hopper node does
    ],
)
def test_a_floor_copied_from_a_smaller_part(shipped: Path, one: str, two: str, metric: str, figures: str) -> None:
    for chip in (one, two):
        write(shipped, chip, limit(metric, figures, "algorithm: nvls, "))
    assert [(each.rule, each.file) for each in opened()] == [("copied", f"{two}.yaml")]
