"""The method behind a limit, held against that of the probe that measures its metric. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.core.method import AS_FOUND, differences
from pytest_accel.core.sku_types import Source
from pytest_accel.probes.declare import declaration_of

NOT_STATED = ("its source states no method",)


def method_of(metric: str, probes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the method of a metric under the conditions that a threshold file sets (`probes`).

    Empty for a metric without a method: a fact, a count, or the metric of a user's own probe.
    """
    probe = declaration_of(metric)
    if probe is None or not probe.packaged:
        return {}
    return probe.method_of(metric, probes.get(probe.name, {}))


def differences_of(metric: str, source: Source, probes: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the differences of the method of a limit's source from that of the probe; empty if it is the same.

    A figure of a kind other than `measured` and `agreed` needs a stated method.
    """
    method = method_of(metric, probes)
    # A figure that was measured with this package was measured by the probe, unless its source states another method;
    # one that two sides agreed on is measured by the probe by definition.
    if not method or source.kind == "agreed" or (source.kind == "measured" and not source.method):
        return ()
    return differences(method, source.method) if source.method else NOT_STATED


def known_to_a_run(metric: str, source: Source, probes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the part of a source's method that only a run knows of its own measurements, such as TunableOp."""
    method = method_of(metric, probes)
    return {key: value for key, value in source.method.items() if method.get(key) == AS_FOUND}
