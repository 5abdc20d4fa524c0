"""The device to which a slow or wrong copy between two is attributed, by the whole matrix of pairs. Pure."""

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


def culprits_of(matrix: Mapping[Pair, float]) -> dict[Pair, tuple[str, ...]]:
    """Return the devices that explain each pair that falls short.

    A device whose outgoing copies all fall short is slow to send; one whose incoming copies all fall short is slow to
    receive. A pair that neither explains is attributed to its sender. With two devices, and for a pair of two slow
    devices, both are returned, because they cannot be told apart.
    """
    bound = SHORT * fastest(matrix)
    names = {name for pair in matrix for name in pair}
    senders = {name for name in names if all(rate < bound for pair, rate in matrix.items() if pair[0] == name)}
    receivers = {name for name in names if all(rate < bound for pair, rate in matrix.items() if pair[1] == name)}
    explained = {}
    for (sender, receiver), rate in matrix.items():
        if rate < bound:
            culprits = [name for name, low in ((sender, senders), (receiver, receivers)) if name in low]
            explained[sender, receiver] = tuple(culprits or [sender])
    return explained


def pairs_below(rows: Sequence[Measurement], floor: float) -> tuple[Pair, ...]:
    """Return the pairs below the floor, the only ones that a repeat has to measure."""
    return tuple(pair for pair, rate in _rates(_cells(rows)).items() if rate < floor)


def seconds_again(pairs: Sequence[Pair], seconds: float) -> float:
    """Return the seconds for repeating `pairs`, where the whole matrix took `seconds`.

    All pairs together get at most AGAIN times that: if many fall short, it is not bad luck.
    """
    # each pair gets as long as the matrix did: a long measurement tells a slow pair from the unluckiest of many
    return seconds * min(len(pairs), AGAIN)


def attributed_after_repeat(
    before: Sequence[Measurement], fresh: Sequence[Measurement], names: Names
) -> list[Measurement]:
    """Return the measurements of all devices whose worst pair changes when `fresh` cells replace those in `before`.

    See `attribute`.
    """
    # the samples of the repeat replace the first ones, which were selected for being low
    new_cells = {row.subject: row.details["cells"] for row in fresh if "cells" in row.details}
    old_samples = {row.subject: row.samples for row in attribute(before, names)}
    old_rows = [row for row in before if fresh and "cells" in row.details]
    rows = [_renewed(row, new_cells.get(row.subject, {}), fresh[0]) for row in old_rows]
    changed = [row for row in attribute(rows, names) if row.samples != old_samples[row.subject]]
    return [*changed, *(row for row in fresh if "cells" not in row.details)]


def _renewed(row: Measurement, cells: Mapping[str, Cell], repeat: Measurement) -> Measurement:
    details: Details = {**row.details, "cells": {**row.details["cells"], **cells}}
    return replace(row, details=details, started=repeat.started, ended=repeat.ended)


def _cells(rows: Sequence[Measurement]) -> dict[Pair, Cell]:
    return {(row.subject, receiver): cell for row in rows for receiver, cell in row.details.get("cells", {}).items()}


def _rates(cells: Mapping[Pair, Cell]) -> dict[Pair, float]:
    return {pair: 0.0 if cell["wrong"] else median(cell["samples"]) for pair, cell in cells.items()}


def attribute(rows: Sequence[Measurement], names: Names) -> list[Measurement]:
    """Return the rows, each with the worst pair that is attributed to its device in place of the worst of the row.

    The measurement of a row holds `details["cells"]`: receiver -> samples (GB/s), seconds, and `wrong` if the payload
    arrived corrupted. Other measurements are returned as they are. `names` maps subjects to display names.
    """
    cells = _cells(rows)
    if not cells:
        return list(rows)
    matrix = _rates(cells)
    intact = {pair: 0.0 if cell["wrong"] else 1.0 for pair, cell in cells.items()}
    slow = {pair: median(cell["samples"]) for pair, cell in cells.items() if cell["samples"]}
    # a device that is slow to send is not to blame for wrong data
    culprits = {**(culprits_of(slow) if slow else {}), **culprits_of(intact)}
    return [_own(row, matrix, culprits, cells, names) if "cells" in row.details else row for row in rows]


def _own(
    row: Measurement,
    matrix: Mapping[Pair, float],
    culprits: Mapping[Pair, tuple[str, ...]],
    cells: Mapping[Pair, Cell],
    names: Names,
) -> Measurement:
    subject = row.subject
    blamed_pairs = [pair for pair, subjects in culprits.items() if subject in subjects]
    good_pairs = [pair for pair in matrix if pair[0] == subject and pair not in culprits]
    pair = min(blamed_pairs or good_pairs or [pair for pair in matrix if pair[0] == subject], key=matrix.__getitem__)
    cell = cells[pair]
    samples: tuple[float, ...] = tuple(cell["samples"])
    details: Details = {
        **row.details,
        "row": {names[receiver]: rate for (sender, receiver), rate in matrix.items() if sender == subject},
    }
    del details["cells"]
    details.pop("ends", None)  # those of the row's own slowest pair, which may be another one
    reason = _why(subject, blamed_pairs, culprits, matrix, names)
    causes = [f"{names[pair[0]]} to {names[pair[1]]}; {reason}"] if blamed_pairs else []
    causes += [STAGED] if cell.get("direct") is False else []
    return replace(
        row,
        notes=(*row.notes, Note("cause", "; ".join(causes))) if causes else row.notes,
        conditions={**row.conditions, **({"peer_access": cell["direct"]} if "direct" in cell else {})},
        value=median(samples) if samples else None,
        samples=samples,
        statistic="median",
        seconds=tuple(cell["seconds"]),
        trouble=Trouble("device", f"{cell['wrong']}; {reason}", wrong=True) if cell["wrong"] else row.trouble,
        details=details,
    )


def _why(
    subject: str, blamed: Sequence[Pair], culprits: Mapping[Pair, object], matrix: Mapping[Pair, float], names: Names
) -> str:
    """Return a sentence on what the pairs of one device that fall short have in common."""
    sends_badly = all(pair in culprits for pair in matrix if pair[0] == subject)
    receives_badly = all(pair in culprits for pair in matrix if pair[1] == subject)
    if len({name for pair in matrix for name in pair}) == 2:
        return "two devices are too few to tell which of them, or their link, is at fault"
    if sends_badly and receives_badly:
        return f"{names[subject]} falls short to and from every other device: the device or its own links"
    if sends_badly or receives_badly:
        way = "sending to" if sends_badly else "receiving from"
        return f"{names[subject]} falls short {way} every other device, while the others do well among themselves"
    pairs = f"{len(blamed)} of its pairs fall" if len(blamed) > 1 else "1 of its pairs falls"
    return f"only {pairs} short: the link between the two devices, or the switch"
