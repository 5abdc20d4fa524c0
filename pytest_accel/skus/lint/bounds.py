"""Rules that compare the limits of one file: those of other message sizes, and of related metrics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Limit, Platform
from pytest_accel.skus import peaks
from pytest_accel.skus.lint.limits import slack
from pytest_accel.skus.lint.linted_file import LintedFile, LintFinding, rule
from pytest_accel.skus.lint.physics import RATES, message_bytes

NEAR = 1.05
"""The tolerance for two figures that were measured in different runs."""
STREAMS = ("stream.copy_kernel", "stream.triad", "stream.copy")
AT_MOST = (
    ("host_copy_all.h2d", "host_copy.h2d", 1.0),
    ("host_copy_all.d2h", "host_copy.d2h", 1.0),
    ("host_copy.h2d", "host_copy.both", 1.0),
    ("host_copy.d2h", "host_copy.both", 1.0),
    ("host_copy.both", "host_copy.h2d", 2.0),
    ("host_copy.h2d", "host_copy.d2h", 1.6),
    ("host_copy.d2h", "host_copy.h2d", 1.6),
    ("peer_copy.one_way", "peer_copy.both", 1.0),
    ("peer_copy.both", "peer_copy.one_way", 2.0),
    ("matmul.tf32", "matmul.bf16", 1.0),
    ("matmul.fp32", "matmul.tf32", 1.0),
    ("matmul.bf16", "matmul.fp8", 1.0),
    ("matmul.bf16", "matmul.fp16", 1.25),
    ("matmul.fp16", "matmul.bf16", 1.25),
    *((one, other, 1.3) for one, other in permutations(STREAMS, 2)),
)
"""Metrics of one device that bound each other: the first is at most so many times the second. The factors of the first
kind follow from what is measured (a copy beside seven others, both directions of a link); 1.25, 1.3 and 1.6 are above
every ratio that was published for one healthy part."""


@rule
def related(subject: LintedFile) -> Iterator[LintFinding]:
    """Report a floor that the healthy figure of a related metric or message size contradicts."""
    seen = set()
    for platform in subject.sku.platforms.values():
        limits, known = subject.sku.written_on(platform), subject.sku.limits_on(platform)
        soak = ("soak.rate", f"matmul.{peaks.soak_dtype(subject.sku)}", 1.0)
        for metric, other, times in (*AT_MOST, soak):
            if metric in limits and other in known:
                bound = _most(known[other], times)
                finding = _above(subject, _key(platform, metric), limits[metric], bound, other)
                if finding and (finding.key, other) not in seen:
                    seen.add((finding.key, other))
                    yield finding
        sized = [(message_bytes(metric), limit) for metric, limit in limits.items() if message_bytes(metric)]
        for (small, one), (large, other_size) in permutations(sized, 2):
            if small < large and _alike(one, other_size):
                yield from _sizes(subject, platform, one, other_size)


def _most(limit: Limit, times: float = 1.0) -> float | None:
    """Return so many times the highest healthy figure of a limit; None if it has none, or if it is no rate."""
    return times * limit.highest if limit.highest and limit.unit in RATES else None


def _above(subject: LintedFile, key: str, limit: Limit, most: float | None, of: str) -> LintFinding | None:
    """Return a finding if the floor of a limit is above the most that the healthy figure of another one allows."""
    if limit.floor is None or most is None or limit.floor <= NEAR * most:
        return None
    return subject.warning(key, limit.floor, f"expected at most {most:g} by the healthy figure of {of}")


def _sizes(subject: LintedFile, platform: Platform, small: Limit, large: Limit) -> Iterator[LintFinding]:
    """Yield a finding if the floor of a small message is above a healthy large one, or that of the large one low."""
    finding = _above(subject, _key(platform, small.metric), small, _most(large), large.metric)
    if finding:
        yield finding
    least = slack(large) * (small.healthy[0] if small.healthy else small.reference or 0.0)
    if large.floor is not None and large.floor < least:
        expected = f"expected at least {least:.4g}, {slack(large)} of the healthy figure of {small.metric}"
        yield subject.warning(_key(platform, large.metric), large.floor, expected)


def _alike(one: Limit, other: Limit) -> bool:
    """Return True if two limits are on one collective whose ranks and algorithm do not differ."""
    shared = (one.conditions.keys() & other.conditions.keys()) - {"by_ring"}
    same = all(one.conditions[key] == other.conditions[key] for key in shared)
    return same and parse(one.metric).base == parse(other.metric).base


def _key(platform: Platform, metric: str) -> str:
    """Return the key of the limit that holds for a metric on a platform."""
    return f"platforms.{platform.name}.limits.{metric}" if metric in platform.limits else f"limits.{metric}"
