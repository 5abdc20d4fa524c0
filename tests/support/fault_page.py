"""tests/data/fault-matrix.md as text, from what came of the cases and from the published lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pytest_accel.simulate.faults import FAULTS
from pytest_accel.skus import requirements
from support import shipped
from support.data_files import content
from support.fault_case import Case, Seen
from support.fault_cases import BY_A_USER, CASES, ELSEWHERE

Key = tuple[str, str, str]
Caught = Mapping[Key, Sequence[str]]
"""(what was asked, of which node, how it was run) to the metrics that were seen to catch it."""


class Published(NamedTuple):
    """A list of what fails, and where it stands. An entry: code, meaning, and the faults here or why there are none."""

    title: str
    source: str
    entries: list[tuple[str, str, list[str] | str]]


_LISTS: Any = yaml.safe_load((Path(__file__).parents[1] / "real/fault_lists.yaml").read_text(encoding="utf-8"))
LISTS = [Published(**each) for each in _LISTS]
VENDORS = {"nvidia": "NVIDIA", "amd": "AMD"}
HOW = ("in process", "facts alone", "pytest")

HEAD = content("fault-matrix-head.md")


def key(case: Case) -> Key:
    how = "pytest" if case in BY_A_USER else "facts alone" if case.measured == () else "in process"
    return case.asked, case.node, how


def row(case: Case, caught: Sequence[str]) -> str:
    """The line of one case."""
    asked, node, how = key(case)
    nothing = "refused before anything is judged" if case.closing == "REFUSED" else "nothing, by design: recorded"
    listed = ", ".join(f"`{metric}`" for metric in caught) or nothing
    status = case.status if caught else "-"
    return f"| {asked} | {node} | {listed} | {status} | {case.closing} | {case.exit} | {how} |"


def caught(case: Case, seen: Seen) -> list[str]:
    """What is told of a case: all that was seen. Where everything fails, or is left out, what should have caught it."""
    narrow = case in BY_A_USER or case.name in DEAD or case.status == "UNMEASURED"
    return [metric for metric in seen.caught(case) if not narrow or _wanted(metric, case)]


def _wanted(metric: str, case: Case) -> bool:
    return any(re.fullmatch(wanted.replace(".", r"\.").replace("*", ".*"), metric) for wanted in case.caught_by)


@cache
def limited(vendor: str) -> list[str]:
    """Every metric that a shipped file of the vendor, or what is expected of every node, limits."""
    found: set[str] = set()
    for sku in shipped.every():
        if sku.vendor == vendor:
            for platform in sku.platforms.values():
                found |= set(requirements.limits(sku, platform, 1))
    return sorted({metric.partition("@")[0] for metric in found})


DEAD = ("device-lost", "ecc-uncorrectable", "hang", "crash")
"""With a dead device every check fails, which proves none of them."""


def unproven(found: Caught, vendor: str) -> list[str]:
    """The limited metrics that no fault tripped by its value, as the check that should catch it."""
    own = [case for case in CASES if case.vendor == vendor]
    proving = [case for case in own if case.name not in DEAD and case.status != "UNMEASURED"]
    seen = {metric for case in proving for metric in found[key(case)] if _wanted(metric, case)}
    return [metric for metric in limited(vendor) if metric not in {each.partition("@")[0] for each in seen}]


def covered(published: Published) -> tuple[int, int, int]:
    """How many entries have a fault here, are out of scope, are open."""
    faults = sum(isinstance(by, list) for _, _, by in published.entries)
    open_ = sum(
        isinstance(by, str) and by.startswith("not ") and by != "not used by DCGM" for _, _, by in published.entries
    )
    return faults, len(published.entries) - faults - open_, open_


def page(found: Caught) -> str:
    """All of it."""
    parts = [
        HEAD,
        *counts(found),
        *(_faults(found, vendor) for vendor in VENDORS),
        "\nParameters are the defaults of `pytest-accel simulate --list FAULT` where none are shown.\n",
        "## Faults that need no simulated node\n",
        "| fault | test |\n| --- | --- |",
        *(f"| {what} | `tests/{file}::{test}` |" for what, file, test in ELSEWHERE),
        "\n## Checks, and the faults that trip them\n",
        "| check | faults |\n| --- | --- |",
        *_by_check(found),
        "\n## Not proven able to fail",
        *(_open(found, vendor) for vendor in VENDORS),
        ONE_DRIVER,
        *(_list(each) for each in LISTS),
    ]
    return "\n".join(parts).rstrip() + "\n"


def counts(found: Caught) -> list[str]:
    """The sentences that the status page repeats."""
    total = f"{len(FAULTS)} faults in {len(CASES)} cases, {len(ELSEWHERE)} more shown by other tests."
    return [total, *(_counted(found, vendor) for vendor in VENDORS)]


def _counted(found: Caught, vendor: str) -> str:
    open_, metrics = unproven(found, vendor), limited(vendor)
    seen = len(metrics) - len(open_)
    return f"Of {len(metrics)} metrics that shipped {VENDORS[vendor]} files limit, {seen} were seen failing."


def _faults(found: Caught, vendor: str) -> str:
    rows = [row(case, found[key(case)]) for case in CASES if case.vendor == vendor]
    head = (
        "| fault | node | caught by | status | closing line | exit | run |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    return "\n".join([f"\n## Faults of {VENDORS[vendor]} nodes\n", head, *rows])


def _open(found: Caught, vendor: str) -> str:
    return "\n".join([f"\n{VENDORS[vendor]}:\n", *(_unproven(metric, vendor) for metric in unproven(found, vendor))])


def _by_check(found: Caught) -> list[str]:
    by: dict[str, list[str]] = {}
    for case in CASES:
        for metric in found[key(case)]:
            by.setdefault(metric, []).append(case.name)
    return [f"| `{metric}` | {', '.join(dict.fromkeys(by[metric]))} |" for metric in sorted(by)]


ONE_DRIVER = """
`inventory.driver_version` was seen failing where a file asks for a version. That it is the same on all devices, which
shipped files ask for, cannot fail on one node: NVML has one version for all, amdgpu is one kernel module."""

WHY = {
    **dict.fromkeys(
        ("counters.log_hardware", "counters.log_advice", "host_counters.log_hardware", "host_counters.log_advice"),
        "the kernel log is not simulated; real lines are tested (tests/drivers/test_kernel_log.py)",
    ),
    "matmul.fp4": "torch multiplies it on GPUs only, a simulated device works on the CPU",
    "matmul_best": "its search times products itself, which is not simulated",
}


@cache
def required(vendor: str) -> set[str]:
    """The metrics that some level of a shipped file requires a limit of."""
    skus = [sku for sku in shipped.every() if sku.vendor == vendor]
    limits = [limit for sku in skus for each in sku.platforms.values() for limit in sku.limits_on(each).values()]
    return {limit.metric.partition("@")[0] for limit in limits if limit.levels}


def _unproven(metric: str, vendor: str) -> str:
    why = WHY.get(metric) or WHY.get(metric.partition(".")[0], "")
    if metric not in required(vendor):
        why = f"no level of a shipped file requires it, it fails no node{f'; {why}' if why else ''}"
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
        f"| {code} | {meaning} | {', '.join(by) if isinstance(by, list) else by} |"
        for code, meaning, by in published.entries
    ]
    return "\n".join(lines)


def read(text: str) -> dict[Key, list[str]]:
    """What a page says was seen."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[6] in HOW:
            found[cells[0], cells[1], cells[6]] = re.findall(r"`([^`]+)`", cells[2])
    return found
