"""docs/fault-matrix.md as text, from what came of the cases and from the published lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fault_cases import CASES, ELSEWHERE, END_TO_END, Case, Seen
from fault_lists import LISTS, Published

from pytest_accel import skufile
from pytest_accel.simulate.faults import FAULTS

Caught = Mapping[tuple[str, bool], Sequence[str]]
"""(what was asked, end to end?) to the metrics that were seen to catch it."""

HEAD = """# Fault matrix

Every fault that the simulated node can have, and the checks that were seen to catch it. Written by
`scripts/fault_matrix.py` from what `tests/test_fault_matrix.py` runs; a row that is no longer true fails its test.

A fault is caught if the check that should catch it ends in the status below on the device that has the fault, if the
closing line names that device, if no other device has a FAIL, and if the exit status is right. The simulation lies
below our drivers and probes (see simulation.md): what is proven is that the checks see what the
hardware would show, not that hardware shows it.
"""


def key(case: Case) -> tuple[str, bool]:
    return f"{case.asked} of {case.platform}" if case.platform == "hgx8" else case.asked, case in END_TO_END


def row(case: Case, caught: Sequence[str]) -> str:
    """The line of one case."""
    name, by_user = key(case)
    how = "pytest" if by_user else "in process"
    listed = ", ".join(f"`{metric}`" for metric in caught) or "nothing, by design: recorded"
    status = case.status if caught else "-"
    return f"| {name} | {listed} | {status} | {case.closing} | {case.exit} | {how} |"


def caught(case: Case, seen: Seen) -> list[str]:
    """What is told of a case: all that was seen. Where everything fails, or is left out, what should have caught it."""
    narrow = case in END_TO_END or case.name in DEAD or case.status == "UNMEASURED"
    return [metric for metric in seen.caught(case) if not narrow or _wanted(metric, case)]


def _wanted(metric: str, case: Case) -> bool:
    return any(re.fullmatch(wanted.replace(".", r"\.").replace("*", ".*"), metric) for wanted in case.caught_by)


def limited() -> list[str]:
    """Every metric that a shipped NVIDIA file, or what is expected of every node, limits."""
    found = {"inventory.driver", "inventory.count", "inventory.sku", "inventory.pcie_gen_max",
             "health.pcie_width", "health.nvlink_up", "health.fabric"}  # fmt: skip
    for sku in skufile.load_shipped():
        if sku.vendor == "nvidia":
            found |= set(sku.limits)
            for platform in sku.platforms.values():
                found |= set(platform.limits)
    return sorted({metric.partition("@")[0] for metric in found})


DEAD = ("device-lost", "ecc-uncorrectable", "hang", "crash")
"""With a dead device every check fails, which proves none of them."""


def unproven(found: Caught) -> list[str]:
    """The limited metrics that no fault tripped by its value, as the check that should catch it."""
    proving = [case for case in CASES if case.name not in DEAD and case.status != "UNMEASURED"]
    seen = {metric for case in proving for metric in found[key(case)] if _wanted(metric, case)}
    return [metric for metric in limited() if metric not in {each.partition("@")[0] for each in seen}]


def covered(published: Published) -> tuple[int, int, int]:
    """How many entries have a fault here, are out of scope, are open."""
    faults = sum(isinstance(by, tuple) for _, _, by in published.entries)
    open_ = sum(
        isinstance(by, str) and by.startswith("not ") and by != "not used by DCGM" for _, _, by in published.entries
    )
    return faults, len(published.entries) - faults - open_, open_


def page(found: Caught) -> str:
    """All of it."""
    open_ = unproven(found)
    metrics = limited()
    parts = [
        HEAD,
        f"{len(FAULTS)} faults in {len(CASES)} cases, {len(ELSEWHERE)} more shown by other tests.",
        f"Of {len(metrics)} metrics that shipped NVIDIA files limit, {len(metrics) - len(open_)} were seen failing.\n",
        "## Faults\n",
        "| fault | caught by | status | closing line | exit | run |\n| --- | --- | --- | --- | --- | --- |",
        *(row(case, found[key(case)]) for case in CASES),
        "\nParameters are the defaults of `pytest-accel simulate --list` where none are shown.\n",
        "## Faults that need no simulated node\n",
        "| fault | test |\n| --- | --- |",
        *(f"| {what} | `tests/{file}::{test}` |" for what, file, test in ELSEWHERE),
        "\n## Checks, and the faults that trip them\n",
        "| check | faults |\n| --- | --- |",
        *_by_check(found),
        "\n## Not proven able to fail\n",
        *(_unproven(metric) for metric in open_),
        *(_list(each) for each in LISTS),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _by_check(found: Caught) -> list[str]:
    by: dict[str, list[str]] = {}
    for (name, _), metrics in found.items():
        for metric in metrics:
            by.setdefault(metric, []).append(name.partition(",")[0])
    return [f"| `{metric}` | {', '.join(dict.fromkeys(by[metric]))} |" for metric in sorted(by)]


WHY = {
    "host.iommu": "advice on some platforms; the reading is tested (tests/test_host.py)",
    "host.nvme_warnings": "drives are asked by ioctl, which is not simulated; tested (tests/test_host_asked.py)",
    "inventory.driver_version": "NVML has one driver version for all devices, so they cannot differ",
    **dict.fromkeys(
        ("counters.log_hardware", "counters.log_advice", "host_counters.log_hardware", "host_counters.log_advice"),
        "the kernel log is not simulated; real lines are tested (tests/test_kernel_log.py)",
    ),
    "matmul_best": "information at level standard; its search is not simulated",
    "matmul_burst": "information at level standard; bursts from rest are not simulated",
    "matmul": "the same probe and rule as the dtypes above, at parts that limit it",
    "host_copy": "the same probe and rule as the directions above",
}


def _unproven(metric: str) -> str:
    why = WHY.get(metric) or WHY.get(metric.partition(".")[0], "")
    return f"- `{metric}`{f': {why}' if why else ''}"


def _list(published: Published) -> str:
    faults, beside, open_ = covered(published)
    lines = [
        f"\n## {published.title}\n",
        f"Source: {published.source}.",
        f"{len(published.entries)} entries: {faults} caught here, {beside} out of scope, {open_} not covered.\n",
        "| entry | meaning | here |\n| --- | --- | --- |",
    ]
    lines += [
        f"| {code} | {meaning} | {', '.join(by) if isinstance(by, tuple) else by} |"
        for code, meaning, by in published.entries
    ]
    return "\n".join(lines)


def read(text: str) -> dict[tuple[str, bool], list[str]]:
    """What a page says was seen."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[5] in ("pytest", "in process"):
            found[cells[0], cells[5] == "pytest"] = re.findall(r"`([^`]+)`", cells[1])
    return found
