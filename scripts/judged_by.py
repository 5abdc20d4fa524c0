"""Prints every metric and every fact with its judges. Made from the registries alone."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from pytest_accel.core.device_facts import GROUPS, DeviceFact
from pytest_accel.core.fact_metrics import FACT_METRICS
from pytest_accel.core.host_facts import HOST_FACTS, HostFact
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.judging.facts import changed_facts, error_counters
from pytest_accel.judging.verdicts import distance, like_devices
from pytest_accel.probes.declare import Declaration, conditions_of, declarations
from pytest_accel.skus import loader, requirements
from pytest_accel.views.markdown import table

HEAD = (
    "Printed by `scripts/judged_by.py` from the declarations of the probes, the tables of facts and the threshold",
    "files. docs/verdicts.md has the rules and the table of distances.",
    "",
    "A **limit** is of a SKU's file, of a vendor's file, of a class, or implied by what platform and datasheet",
    "state. Breaking it is FAIL, or MARGINAL where it only warns. **Published** figures decide nothing. The numbers",
    "count the shipped SKUs that have one. A file of your own may limit every metric.",
    "**Neighbours** are four or more like devices of the node: a",
    f"device below {1 - distance.FAR:g} of the median of the others fails; memory, links and products fail far above",
    "it. A device that lost more than two runs differ by since its own **past** is marginal.",
    "A fact that **changes** during the run fails if the new value",
    "breaks its limit, and is marginal otherwise.",
)
PLACES = {
    DeclaredBy.SKU_FILE: "SKU's file",
    DeclaredBy.VENDOR_FILE: "vendor's file",
    DeclaredBy.RUN: "implied",
    DeclaredBy.CLASS: "class",
}
WRONG = {"products": "wrong product", "copies": "wrong copy", "stores": "wrong word", "sums": "wrong sum"}
"""The failure that needs no limit, by the subject that a probe verifies."""
NOTHING = {
    "host_copy.pcie_gen": "the cause of a slow copy; health and inventory judge the link at rest",
    "host_copy.pcie_width": "the cause of a slow copy; health and inventory judge the link at rest",
    "network.all_reduce": "of all good nodes together; network.json judges it, and no node is to blame",
    "diag.vendor": "a file of the buyer's requires it, or an output is given; no shipped file does",
    "ddp.step_ms": "of the node, which has no neighbour; nobody publishes a time of our model",
}
"""The reason for each metric that nothing judges."""
READ_ONCE = frozenset(GROUPS["Identity and position"]) | {
    "memory_numa_node",
    "virtualization",
    "confidential",
    "power_limit_min_w",
    "shutdown_c",
    "slowdown_c",
    "gpu_max_c",
    "target_c",
    "memory_max_c",
    "memory_shutdown_c",
    "shutdown_margin_c",
    "slowdown_margin_c",
    "gpu_max_margin_c",
    "memory_max_margin_c",
    "pcie_path",
}
"""The facts that no driver reads after discovery, since they do not change while the node is up."""

UNJUDGED = {
    "Identity and position": "names the part or its position",
    "Versions": "a version that nobody publishes a limit for",
    "Settings and limits": "tells a setting that is judged otherwise, or a limit that the device keeps by itself",
    "Memory and repairs": "part of a total, or of a repair, that is judged",
    "Links": "part of a count or of a state that is judged; corrected errors are usual",
    "State at the moment": "another reading of the same quantity is used",
}
"""The reason why nothing judges the facts of a group that have neither a metric nor a use."""
NO_LIMIT = "no shipped file limits it"
ONCE = "not read again"
NO_LIMIT_OF_HOST = "states how the host is set up; nobody publishes what is right for every node"
"""The reason for each fact of the host without a limit."""


def page() -> str:
    """Return the whole page in Markdown."""
    lines = ["# What judges what", "", *HEAD, "", "## Metrics", "", *table(METRICS, _metrics()), ""]
    for title, facts in GROUPS.items():
        rows = [_device_row(name, fact, UNJUDGED[title]) for name, fact in facts.items()]
        lines += [f"## Facts of a device: {title.lower()}", "", *table(FACTS, rows), ""]
    lines += ["## Facts of the host", "", *table(HOST, [_host_row(*item) for item in HOST_FACTS.items()]), ""]
    return "\n".join(lines)


METRICS = ("metric", "unit", "limit", "neighbours", "by itself", "nothing, since")
FACTS = ("fact", "judged as, by", "if it changes during the run", "also used for", "nothing, since")
HOST = ("fact", "limit", "if it counts during the run", "nothing, since")


def _metrics() -> Iterator[Sequence[str]]:
    for probe in declarations():
        if probe.fact or not probe.packaged:
            continue
        for metric in _names(probe):
            has_neighbours = (
                like_devices.is_comparable(Measurement(metric, "", _unit(probe, metric))) and not probe.node
            )
            itself = WRONG.get(probe.verifies, "") if metric not in probe.also else ""
            cells = (
                limits_of(metric),
                _beside(_unit(probe, metric)) if has_neighbours else "",
                itself and f"{itself}: FAIL",
            )
            reason = "" if any(cells) else NOTHING[metric]
            yield f"`{metric}`", _unit(probe, metric), *cells, reason


def _names(probe: Declaration) -> list[str]:
    """Return the metrics of a probe; those of any size as the one of the packaged suite."""
    conditions, _ = conditions_of(probe.function, {}, {})
    return list(probe.names()) or [form.format(**conditions) for form in probe.forms]


def _unit(probe: Declaration, metric: str) -> str:
    return probe.also.get(metric, probe.unit)


def _beside(unit: str) -> str:
    return "FAIL" if unit == like_devices.LATENCY else "FAIL, MARGINAL"


def _device_row(name: str, fact: DeviceFact, reason: str) -> Sequence[str]:
    """Return the row of a fact of a device, with the reason if nothing judges it."""
    metrics = error_counters.metrics_of(name)
    judges = [f"`{metric}` ({limits_of(metric) or NO_LIMIT})" for metric in metrics]
    limited, change = any(map(limits_of, metrics)), _change(name, metrics)
    nothing = "" if limited or change or fact.used else NO_LIMIT if judges else reason
    return f"`{name}`", ", ".join(judges), change or (ONCE if name in READ_ONCE else ""), fact.used, nothing


def _change(name: str, metrics: Sequence[str]) -> str:
    """Return the judges of a fact that changes in mid-run; empty if nothing judges it."""
    counters = [metric for metric in metrics if parse(metric).probe == "counters"]
    counters += [changed_facts.COUNTED[metric] for metric in metrics if metric in changed_facts.COUNTED]
    if counters:
        return ", ".join(f"`{counter}`" for counter in dict.fromkeys(counters))
    watched = [metric for metric in changed_facts.WATCHED if name in FACT_METRICS[metric].facts]
    if watched and name in changed_facts.FACTS - READ_ONCE:
        return "FAIL or MARGINAL" if any(map(limits_of, watched)) else "MARGINAL"
    of_load = [changed_facts.BY_LOAD[metric] for metric in metrics if metric in changed_facts.BY_LOAD]
    return f"by our load: {', '.join(of_load)}" if of_load else ""


def _host_row(name: str, fact: HostFact) -> Sequence[str]:
    limit, counter_limit = limits_of(f"host.{name}"), limits_of(f"host_counters.{name}") if fact.counts else ""
    counter = f"`host_counters.{name}` ({counter_limit or NO_LIMIT})" if fact.counts else ""
    return f"`host.{name}`", limit, counter, "" if limit or counter_limit else NO_LIMIT_OF_HOST


def limits_of(metric: str) -> str:
    """Return the sources of limits on a metric with the number of SKUs: "SKU's file FAIL (3), published (21)"."""
    effects_by_source: dict[str, list[str]] = {}
    for (source, effect), skus in sorted(_limits().get(metric, {}).items()):
        effects_by_source.setdefault(source, []).append(f"{effect} ({skus})")
    return "; ".join(f"{source} {', '.join(effects)}" for source, effects in effects_by_source.items())


@cache
def _limits() -> Mapping[str, Mapping[tuple[str, str], int]]:
    """Return the number of shipped SKUs with a limit on each metric, by its source and effect."""
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for sku in loader.load_shipped():
        limits: Iterable[tuple[str, Limit]] = (
            pair
            for platform in sku.platforms.values()
            for pair in requirements.limits(sku, platform, requirements.device_count(platform, 1)).items()
        )
        for metric, kind in {(metric, _kind(limit)) for metric, limit in limits if limit.levels}:
            counts.setdefault(metric, Counter())[kind] += 1
    return counts


def _kind(limit: Limit) -> tuple[str, str]:
    effect = "published" if not limit.bounded else "MARGINAL" if limit.warns else "FAIL"
    return PLACES.get(limit.declared_by, limit.declared_by.value), effect


if __name__ == "__main__":
    sys.stdout.write(page())
