"""Which of several owners' files cannot be of the same product by the same method as the others. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from statistics import median

from pytest_accel.judging.records.calibration import GoodFigure, differing

FAR = 1.25
"""The factor between the centres of two owners' healthy devices from which on one of them is wrong. Over whole
clusters, devices of one product differ by 22 % at most (arXiv 2208.11035v3, abstract)."""
MOSTLY = 0.5
"""The share of equal values from which on two files hold the same devices."""


def strangers(
    readings: Sequence[GoodFigure], files: Collection[str], usual: Mapping[str, float]
) -> dict[str, tuple[str, str]]:
    """Return the files that do not belong with the others: the metric that shows it and the reason, by file.

    `files` are the sources that are held against the others; every other source is a record of one's own, and trusted.
    `usual` is a published healthy figure of each metric, in its unit, which decides between two files.
    """
    found: dict[str, tuple[str, str]] = {}
    for metric in dict.fromkeys(each.metric for each in readings):
        own = [each for each in readings if each.metric == metric and each.source not in files]
        theirs: dict[str, list[GoodFigure]] = defaultdict(list)
        for each in readings:
            if each.metric == metric and each.source in files and each.source not in found:
                theirs[each.source].append(each)
        for source, why in _strange(own, theirs, usual.get(metric)).items():
            found.setdefault(source, (metric, why))
    return found


def _strange(
    own: Sequence[GoodFigure], theirs: Mapping[str, Sequence[GoodFigure]], usual: float | None
) -> dict[str, str]:
    """Return why a file does not belong with the others, by file, for one metric."""
    found: dict[str, str] = {}
    first = _of_usual_method(own, theirs)
    for source, some in theirs.items():
        if first is not None and some[0].key != first.key:
            found[source] = f"another method or unit than the others: {differing([some[0], first])}"
    fitting = {source: some for source, some in theirs.items() if source not in found}
    centres = {source: median(each.value for each in some) for source, some in fitting.items()}
    votes = [median(each.value for each in own)] if own else [*centres.values()]
    if len(votes) == 2 and usual:
        votes.append(usual)
    for source, centre in centres.items():
        middle = median(votes)
        if abs(math.log(centre / middle)) > math.log(FAR):
            unit = fitting[source][0].unit
            times = f"{centre / middle:.3g} times as much"
            found[source] = f"its centre is {centre:.5g} {unit}, that of the others {middle:.5g} {unit}: {times}"
    seen = {each.value: each.source for each in own}
    for source, some in fitting.items():
        values = {each.value for each in some}
        same = values & seen.keys()
        if len(values) > 2 and len(same) > MOSTLY * len(values):
            found.setdefault(source, f"most of its values are those of {seen[min(same)]}: the same devices twice")
        seen.update({value: source for value in values if value not in seen})
    return found


def _of_usual_method(own: Sequence[GoodFigure], theirs: Mapping[str, Sequence[GoodFigure]]) -> GoodFigure | None:
    """Return a reading by the method of one's own records, or else of most files; None without a majority."""
    if own:
        return own[0]
    keys = Counter(some[0].key for some in theirs.values()).most_common(2)
    if len(keys) == 2 and keys[0][1] == keys[1][1]:
        return None
    return next((some[0] for some in theirs.values() if some[0].key == keys[0][0]), None) if keys else None
