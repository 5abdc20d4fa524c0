"""Attributes slow or wrong copies between two devices to one of them, by the whole matrix of pairs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from pytest_accel.core.details import Cell, Details
from pytest_accel.core.measurement import Measurement, Names, Trouble
from pytest_accel.core.messages import Pair
from pytest_accel.core.reasons import Note

SHORT = 0.97
"""A pair below this fraction of the fastest pairs falls short: one of 18 links costs 5.6 %, healthy pairs lie within
1 %."""

STAGED = "no peer access, so torch copies through the host"

AGAIN = 3
"""The time for repeating some pairs is at most this multiple of the time for the whole matrix."""


def fastest(matrix: Mapping[Pair, float]) -> float:
    """Return the median rate of the fastest quarter of the pairs: one bad device can slow half of the matrix."""
    rates = sorted(matrix.values(), reverse=True)
    return median(rates[: max(2, len(rates) // 4)])


def blamed(matrix: Mapping[Pair, float]) -> dict[Pair, tuple[str, ...]]:
    """Return the devices that explain each pair that falls short.

    A device whose outgoing copies all fall short is slow to send; one whose incoming copies all fall short is slow to
    receive. A pair that neither explains is attributed to its sender. With two devices, and for a pair of two slow
    devices, both are returned, because they cannot be told apart.
    """
    least = SHORT * fastest(matrix)
    names = {name for pair in matrix for name in pair}
    out = {name for name in names if all(rate < least for (sender, _), rate in matrix.items() if sender == name)}
    into = {name for name in names if all(rate < least for (_, receiver), rate in matrix.items() if receiver == name)}
    explained = {}
    for (sender, receiver), rate in matrix.items():
        if rate < least:
            guilty = [name for name, low in ((sender, out), (receiver, into)) if name in low]
            explained[sender, receiver] = tuple(guilty or [sender])
    return explained


def accused(found: Sequence[Measurement], floor: float) -> tuple[Pair, ...]:
    """Return the pairs below the floor, the only ones that a repeat has to measure."""
    return tuple(pair for pair, rate in _rates(_cells(found)).items() if rate < floor)


def seconds_again(pairs: Sequence[Pair], seconds: float) -> float:
    """Return the seconds for repeating `pairs`, where the whole matrix took `seconds`.

    Each pair gets as long as the whole matrix, since a long measurement tells a slow pair from the unluckiest of
    many. All pairs together get at most AGAIN times that: if many fall short, it is not bad luck.
    """
    return seconds * min(len(pairs), AGAIN)


def attributed_after_repeat(
    before: Sequence[Measurement], fresh: Sequence[Measurement], names: Names
) -> list[Measurement]:
    """Return the measurements of all devices whose worst pair changes when `fresh` cells replace those in `before`.

    See `attributed`. The samples of the repeat are not mixed with the first ones, which were selected for being
    low.
    """
    new = {each.subject: each.details["cells"] for each in fresh if "cells" in each.details}
    old = {each.subject: each.samples for each in attributed(before, names)}
    whole = [_renewed(row, new.get(row.subject, {}), fresh[0]) for row in before if fresh and "cells" in row.details]
    judged = [each for each in attributed(whole, names) if each.samples != old[each.subject]]
    return [*judged, *(each for each in fresh if "cells" not in each.details)]


def _renewed(row: Measurement, cells: Mapping[str, Cell], when: Measurement) -> Measurement:
    details: Details = {**row.details, "cells": {**row.details["cells"], **cells}}
    return replace(row, details=details, started=when.started, ended=when.ended)


def _cells(found: Sequence[Measurement]) -> dict[Pair, Cell]:
    return {
        (each.subject, receiver): cell for each in found for receiver, cell in each.details.get("cells", {}).items()
    }


def _rates(cells: Mapping[Pair, Cell]) -> dict[Pair, float]:
    return {pair: 0.0 if cell["wrong"] else median(cell["samples"]) for pair, cell in cells.items()}


def attributed(found: Sequence[Measurement], names: Names) -> list[Measurement]:
    """Give each device the worst pair that is attributed to it, in place of the worst pair of its row.

    The measurement of a row holds `details["cells"]`: receiver -> samples (GB/s), seconds, and `wrong` if the payload
    arrived corrupted. Other measurements are returned as they are. `names` maps subjects to display names.
    """
    cells = _cells(found)
    if not cells:
        return list(found)
    matrix = _rates(cells)
    wrong = {pair: 0.0 if cell["wrong"] else 1.0 for pair, cell in cells.items()}
    slow = {pair: median(cell["samples"]) for pair, cell in cells.items() if cell["samples"]}
    guilty = {**(blamed(slow) if slow else {}), **blamed(wrong)}  # who is slow to send is not to blame for wrong data
    return [_own(each, matrix, guilty, cells, names) if "cells" in each.details else each for each in found]


def _own(
    row: Measurement,
    matrix: Mapping[Pair, float],
    guilty: Mapping[Pair, tuple[str, ...]],
    cells: Mapping[Pair, Cell],
    names: Names,
) -> Measurement:
    me = row.subject
    mine = [pair for pair, who in guilty.items() if me in who]
    clear = [pair for pair in matrix if pair[0] == me and pair not in guilty]
    pair = min(mine or clear or [pair for pair in matrix if pair[0] == me], key=matrix.__getitem__)
    cell = cells[pair]
    samples: tuple[float, ...] = tuple(cell["samples"])
    details: Details = {
        **row.details,
        "row": {names[receiver]: rate for (sender, receiver), rate in matrix.items() if sender == me},
    }
    del details["cells"]
    details.pop("ends", None)  # those of the row's own slowest pair, which may be another one
    why = _why(me, mine, guilty, matrix, names)
    causes = [f"{names[pair[0]]} to {names[pair[1]]}; {why}"] if mine else []
    causes += [STAGED] if cell.get("direct") is False else []
    return replace(
        row,
        notes=(*row.notes, Note("cause", "; ".join(causes))) if causes else row.notes,
        conditions={**row.conditions, **({"peer_access": cell["direct"]} if "direct" in cell else {})},
        value=median(samples) if samples else None,
        samples=samples,
        statistic="median",
        seconds=tuple(cell["seconds"]),
        trouble=Trouble("device", f"{cell['wrong']}; {why}", wrong=True) if cell["wrong"] else row.trouble,
        details=details,
    )


def _why(
    me: str, mine: Sequence[Pair], guilty: Mapping[Pair, object], matrix: Mapping[Pair, float], names: Names
) -> str:
    """Return a sentence on what the pairs of one device that fall short have in common.

    Those for which another device is to blame (`guilty`) say nothing about the others.
    """
    out = all(pair in guilty for pair in matrix if pair[0] == me)
    into = all(pair in guilty for pair in matrix if pair[1] == me)
    if len({name for pair in matrix for name in pair}) == 2:
        return "two devices are too few to tell which of them, or their link, is at fault"
    if out and into:
        return f"{names[me]} falls short to and from every other device: the device or its own links"
    if out or into:
        way = "sending to" if out else "receiving from"
        return f"{names[me]} falls short {way} every other device, while the others do well among themselves"
    pairs = f"{len(mine)} of its pairs fall" if len(mine) > 1 else "1 of its pairs falls"
    return f"only {pairs} short: the link between the two devices, or the switch"
