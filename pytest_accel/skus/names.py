"""The names in a threshold file: metrics that something finds, and platforms of the file that is extended. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from pytest_accel.core.fact_metrics import ERROR_COUNTERS, FACT_METRICS
from pytest_accel.core.host_facts import COUNTED_HOST_FACTS, HOST_FACTS
from pytest_accel.core.metric_name import parse
from pytest_accel.core.words import did_you_mean
from pytest_accel.core.yaml_nodes import Located, Mistakes, items_of, nearest
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.probes.declare import declaration_of, declarations, finder_of, known_metrics

_OF_A_RUN = ("driver", "count", "sku")
"""Facts of the inventory that no driver states under their name."""
_OF_XIDS = ("xid_hardware", "xid_application")


@cache
def known_facts() -> list[str]:
    """Return the metrics of facts that drivers and host state, count or log."""
    return [
        *(f"inventory.{name}" for name in _OF_A_RUN),
        *FACT_METRICS,
        *(f"counters.{name}" for name in (*ERROR_COUNTERS, *_OF_XIDS, *LOGGED)),
        *(f"host.{name}" for name in HOST_FACTS),
        *(f"host_counters.{name}" for name in (*COUNTED_HOST_FACTS, *LOGGED)),
    ]


def why_unknown(metric: str) -> str | None:
    """Return the reason why a limit on a metric would never be judged, with the nearest names; None if it is known.

    The metrics of a user's own probe, loaded with its tests, are known.
    """
    probe = declaration_of(metric)
    if probe is None:
        return f"no probe measures {metric}; {_closest(metric, [*known_metrics(), *known_facts()])}"
    if not probe.packaged or (not probe.fact and finder_of(metric)):
        return None
    if not probe.fact:
        names = (name for probe in declarations() if not probe.fact for name in (*probe.forms, *probe.also))
        candidates = [name for name in names if parse(name).probe == parse(metric).probe]
        return f"no probe measures {metric}; {nearest(metric, candidates)}"
    facts = known_facts()
    return None if metric in facts else f"no driver states {metric}; {_closest(metric, facts)}"


def _closest(name: str, names: Iterable[str]) -> str:
    """Return a hint with the nearest of many names; with the first words of all if none is near."""
    families = {name for probe in declarations() if probe.packaged for name in probe.families}
    return did_you_mean(name, names)[2:] or f"names begin with {', '.join(sorted(families))}"


def check_platforms(root: Located, base: Located, mistakes: Mistakes) -> None:
    """Find platforms that the extended file does not have and that look like a misspelt one of it.

    A platform of one's own is new on purpose if it has a title; without one, it must state more than limits, under a
    name that is not near to another one.
    """
    names = [name for name, _ in items_of(base.data.get("platforms"))]
    for name, entry in items_of(root.data.get("platforms")):
        if not names or name in names or not isinstance(entry.data, dict) or "title" in entry.data:
            continue
        matches = difflib.get_close_matches(name[:80], names, n=1, cutoff=0.8)
        if matches or not set(entry.data) - {"limits", "source"}:
            message = f"the extended file has no such platform; {nearest(name, names)}; one of your own states a title"
            mistakes.add(entry, f"platforms.{name}: {message}")
