"""The names in a threshold file: metrics that something finds, and platforms of the file that is extended. Pure.

A limit under a misspelt name would be judged by nobody, and replace nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from pytest_accel.core.fact_metrics import ERROR_COUNTERS, FACT_METRICS
from pytest_accel.core.host_facts import COUNTED_HOST_FACTS, HOST_FACTS
from pytest_accel.core.metrics import parse
from pytest_accel.core.words import did_you_mean
from pytest_accel.core.yaml_nodes import Located, Mistakes, items_of, nearest
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.probes.declare import declaration_of, declarations, finder_of, known_metrics

_OF_A_RUN = ("driver", "count", "sku")
"""Facts of the inventory that no driver states under their name."""
_OF_XIDS = ("xid_hardware", "xid_application")


@cache
def known_facts() -> list[str]:
    """Return the metrics of facts: what drivers and host state, count or log."""
    return [
        *(f"inventory.{name}" for name in _OF_A_RUN),
        *FACT_METRICS,
        *(f"counters.{name}" for name in (*ERROR_COUNTERS, *_OF_XIDS, *LOGGED)),
        *(f"host.{name}" for name in HOST_FACTS),
        *(f"host_counters.{name}" for name in (*COUNTED_HOST_FACTS, *LOGGED)),
    ]


def why_unknown(metric: str) -> str | None:
    """Return why a limit on a metric would never be judged, with the nearest names; None if something finds it.

    What a probe of the user's own finds, loaded with its tests, is known.
    """
    declared = declaration_of(metric)
    if declared is None:
        return f"no probe measures {metric}; {_closest(metric, [*known_metrics(), *known_facts()])}"
    if not declared.packaged or (not declared.fact and finder_of(metric)):
        return None
    if not declared.fact:
        measured = (name for each in declarations() if not each.fact for name in (*each.forms, *each.also))
        alike = [name for name in measured if parse(name).probe == parse(metric).probe]
        return f"no probe measures {metric}; {nearest(metric, alike)}"
    known = known_facts()
    return None if metric in known else f"no driver states {metric}; {_closest(metric, known)}"


def _closest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest of many names; with the first words of all if none is near."""
    first = {name for each in declarations() if each.packaged for name in each.families}
    return did_you_mean(name, known)[2:] or f"names begin with {', '.join(sorted(first))}"


def check_platforms(root: Located, under: Located, mistakes: Mistakes) -> None:
    """Find platforms that the extended file does not have and that look like a misspelt one of it.

    A platform of one's own is new on purpose if it has a title; without one, it must state more than limits, under a
    name that is not near to another one.
    """
    known = [name for name, _ in items_of(under.data.get("platforms"))]
    for name, at in items_of(root.data.get("platforms")):
        if not known or name in known or not isinstance(at.data, dict) or "title" in at.data:
            continue
        near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.8)
        if near or not set(at.data) - {"limits", "source"}:
            hint = nearest(name, known)
            mistakes.add(
                at, f"platforms.{name}: the extended file has no such platform; {hint}; one of your own states a title"
            )
