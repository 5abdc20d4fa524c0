"""The report on a table of another tool's results beside its verdicts: the limits it lacks, the figures not judged."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.metrics import parse
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing import Closing
from pytest_accel.probes.declare import declaration_of

OTHER_WORDS = {
    "d2h": "host_copy.d2h",
    "h2d": "host_copy.h2d",
    "pcie": "host_copy.h2d",
    "p2p": "peer_copy.one_way",
    "d2d": "peer_copy.one_way",
    "reduce": "all_reduce.busbw@8GiB",
    "nccl": "all_reduce.busbw@8GiB",
    "rccl": "all_reduce.busbw@8GiB",
    "hbm": "stream.copy_kernel",
    "memory": "stream.copy_kernel",
    "membw": "stream.copy_kernel",
    "gemm": "matmul.bf16",
    "flops": "matmul.bf16",
    "power": "soak.power",
}
"""Words in the names that other tools give their results, and our metric of the same part."""


def meant(metric: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown metric: the nearest names, and where all of them are listed."""
    names = sorted(known)
    alike = [name for name in names if parse(name).probe == parse(metric).probe]
    other = next((ours for word, ours in OTHER_WORDS.items() if word in metric.lower()), None)
    near = difflib.get_close_matches(
        metric[:80], alike or ([other] if other else names), n=3, cutoff=0.0 if other else 0.5
    )
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"{hint}({len(names)} are known; 'pytest-accel sku show NAME' lists those with a limit)"


def lacking(entries: Sequence[tuple[str, str]], devices: Sequence[str]) -> str:
    """Return the required limits that a table has no value for, given as metric and device.

    Metrics that a tool can measure are named, with their devices unless all lack them; of the facts, which only a run
    on the node reads, their number is.
    """
    by_metric = grouped(entries, lambda entry: entry[0])
    measured = {metric: [name for _, name in some] for metric, some in by_metric.items() if measurable(metric)}
    whole = {metric for metric, names in measured.items() if {*names} >= {*devices} or names == ["node"]}
    texts = [metric if metric in whole else f"{metric} ({', '.join(names)})" for metric, names in measured.items()]
    facts = len(by_metric) - len(measured)
    return "; and ".join(
        [", ".join(texts)] * bool(texts)
        + [f"{facts} facts and counters, which only a run on the node reads"] * bool(facts)
    )


def measurable(metric: str) -> bool:
    """Return True for the main figure of a probe, which another tool can measure; facts and counters are none."""
    declared = declaration_of(metric)
    return (
        declared is not None
        and metric not in declared.also
        and bool(declared.peak or declared.required)
        and not declared.fact
    )


def not_judged(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each reason that figures were not judged for, with the figures."""
    short = [verdict for verdict in verdicts if verdict.status in (Status.UNMEASURED, Status.INCONCLUSIVE)]
    reasons = grouped(short, lambda verdict: (verdict.metric, sentence_of(verdict)))
    return [
        f"not judged: {metric} of {', '.join(each.subject for each in own)}: {why}"
        for (metric, why), own in reasons.items()
    ]


def alternatives(sku: Sku, platform: Platform) -> list[Platform]:
    """Return the other platforms of a SKU for as many devices: a table does not tell them apart."""
    return [each for each in sku.platforms.values() if each.name != platform.name and each.devices == platform.devices]


def by_platform(closings: Mapping[str, Closing]) -> Closing:
    """Return the closing line of a table whose platform nobody named: the first, unless another one ends otherwise.

    A figure that one platform rejects and another one accepts says nothing of the hardware until the platform is known.
    """
    first, *others = closings.values()
    if all(each.exit == first.exit for each in others):
        return first
    ends = "; ".join(f"as {name}: {each.line}" for name, each in closings.items())
    return Closing(
        f"NOT JUDGED the platform decides: name it by --accel-platform; {ends}", exits.NOT_JUDGED, "NOT JUDGED"
    )
