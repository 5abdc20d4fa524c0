"""Who is to blame for a slow or wrong copy between two devices: read off the whole matrix. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from pytest_accel.core.details import Cell, Details
from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.messages import Pair
from pytest_accel.core.stats import estimate_rate

SHORT = 0.97
"""A pair below this share of the fastest ones is short: one of 18 links costs 5.6 %, healthy pairs lie within 1 %."""

STAGED = "torch has no access from one to the other and copies through the host"

AGAIN = 3
"""A second go at some pairs takes so many times what the first one at all of them took, at most."""


def fastest(matrix: Mapping[Pair, float]) -> float:
    """The median of the fastest quarter: half of a matrix may be slow for one device's sake."""
    rates = sorted(matrix.values(), reverse=True)
    return median(rates[: max(2, len(rates) // 4)])


def blamed(matrix: Mapping[Pair, float]) -> dict[Pair, tuple[str, ...]]:
    """For each short pair the devices that explain it; one that nothing explains is laid to its sender.

    A device all of whose copies out are short is slow to send; one all of whose copies in are, slow to receive. With
    two devices, and for a pair of two such, nobody can tell them apart.
    """
    least = SHORT * fastest(matrix)
    names = {name for pair in matrix for name in pair}
    out = {name for name in names if all(rate < least for (sender, _), rate in matrix.items() if sender == name)}
    into = {name for name in names if all(rate < least for (_, receiver), rate in matrix.items() if receiver == name)}
    found = {}
    for (sender, receiver), rate in matrix.items():
        if rate < least:
            guilty = [name for name, low in ((sender, out), (receiver, into)) if name in low]
            found[sender, receiver] = tuple(guilty or [sender])
    return found


def accused(found: Sequence[Measurement], floor: float) -> tuple[Pair, ...]:
    """The pairs below the floor: what a second go is about, so that it need not measure the others again."""
    return tuple(pair for pair, rate in _rates(_cells(found)).items() if rate < floor)


def seconds_again(pairs: Sequence[Pair], seconds: float) -> float:
    """How long the accused pairs may take together, where the whole matrix had `seconds`: each as long as that.

    The worst of many pairs is the one that luck was against, and it is to be told from one that is short. No more
    than AGAIN times as long in all: where many are short, it is not luck.
    """
    return seconds * min(len(pairs), AGAIN)


def judged_again(
    before: Sequence[Measurement], fresh: Sequence[Measurement], names: Mapping[str, str]
) -> list[Measurement]:
    """As judged_fairly, of a second go at some pairs: every device whose figure that changes, by the whole matrix.

    The new cells stand in place of those of the first go, `before`; its samples are not mixed with theirs, for they
    were chosen by being low.
    """
    new = {each.subject: each.details["cells"] for each in fresh if "cells" in each.details}
    old = {each.subject: each.samples for each in judged_fairly(before, names)}
    whole = [_renewed(row, new.get(row.subject, {}), fresh[0]) for row in before if fresh and "cells" in row.details]
    judged = [each for each in judged_fairly(whole, names) if each.samples != old[each.subject]]
    return [*judged, *(each for each in fresh if "cells" not in each.details)]


def _renewed(row: Measurement, cells: Mapping[str, Cell], when: Measurement) -> Measurement:
    details: Details = {**row.details, "cells": {**row.details["cells"], **cells}}
    return replace(row, details=details, started=when.started, ended=when.ended)


def _cells(found: Sequence[Measurement]) -> dict[Pair, Cell]:
    return {
        (each.subject, receiver): cell for each in found for receiver, cell in each.details.get("cells", {}).items()
    }


def _rates(cells: Mapping[Pair, Cell]) -> dict[Pair, float]:
    return {pair: 0.0 if cell["wrong"] else estimate_rate(cell["samples"]).mean for pair, cell in cells.items()}


def judged_fairly(found: Sequence[Measurement], names: Mapping[str, str]) -> list[Measurement]:
    """Each device with the worst pair that it is to blame for, in place of the worst of its row.

    A measurement of a row holds `details["cells"]`: receiver -> samples, seconds, and `wrong` where the payload was
    not what was sent. Other measurements pass. `names` are what a person reads, by subject.
    """
    cells = _cells(found)
    if not cells:
        return list(found)
    matrix = _rates(cells)
    guilty = blamed(matrix)
    return [_own(each, matrix, guilty, cells, names) if "cells" in each.details else each for each in found]


def _own(
    row: Measurement,
    matrix: Mapping[Pair, float],
    guilty: Mapping[Pair, tuple[str, ...]],
    cells: Mapping[Pair, Cell],
    names: Mapping[str, str],
) -> Measurement:
    me = row.subject
    mine = [pair for pair, who in guilty.items() if me in who]
    clear = [pair for pair in matrix if pair[0] == me and pair not in guilty]
    pair = min(mine or clear or [pair for pair in matrix if pair[0] == me], key=matrix.__getitem__)
    cell = cells[pair]
    samples: tuple[float, ...] = tuple(cell["samples"])
    details: Details = {
        **row.details,
        "row": {names.get(receiver, receiver): rate for (sender, receiver), rate in matrix.items() if sender == me},
        "worst_pair": f"{names.get(pair[0], pair[0])} to {names.get(pair[1], pair[1])}",
    }
    del details["cells"]
    told = [f"{details['worst_pair']}; {_why(me, mine, matrix, names)}"] if mine else []
    told += [STAGED] if cell.get("direct") is False else []
    if told:
        details["explains"] = "; ".join(told)
    return replace(
        row,
        conditions={**row.conditions, **({"peer_access": cell["direct"]} if "direct" in cell else {})},
        value=estimate_rate(samples).mean if samples else None,
        samples=samples,
        seconds=tuple(cell["seconds"]),
        trouble=Trouble("device", f"{cell['wrong']}; {_why(me, mine, matrix, names)}")
        if cell["wrong"]
        else row.trouble,
        details=details,
    )


def _why(me: str, mine: Sequence[Pair], matrix: Mapping[Pair, float], names: Mapping[str, str]) -> str:
    """What the short pairs of one device have in common."""
    out = all(pair in mine for pair in matrix if pair[0] == me)
    into = all(pair in mine for pair in matrix if pair[1] == me)
    if len({name for pair in matrix for name in pair}) == 2:
        return "which of the two it is, or the link, two devices cannot tell"
    if out and into:
        return f"{names.get(me, me)} is short to and from every other: the device or its own links"
    if out or into:
        way = "sends short to" if out else "receives short from"
        return f"{names.get(me, me)} {way} every other, and the others do well among themselves"
    return f"{len(mine)} of its pairs alone: the link between the two, or the switch"
