"""The newest result of this node's own runs, read from the small summary beside its record.

A folder may hold the results of ten thousand nodes and be read by each of them every few minutes, so no more is read
than what the names of its folders say to be this node's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.node_name import names_among, nodes_of
from pytest_accel.core.summary import Summary, choose
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import folder_summary
from pytest_accel.run.record_folder import file_name

MOST_NIGHTS = 100
"""Most folders of nights in which the folder of this node is looked for: those whose names sort last."""
MOST_OF_NODE = 100
"""Most results of this node that are read, those whose names sort last."""


def last_run(place: Path, node: str, *, rehearsal: bool = False, trusts: bool = False) -> Summary | None:
    """Return the newest result of a node that `place` holds, None if there is none. Raises BadFile.

    A run that is under way has no result yet, and a place that does not exist yet holds none. Of several results that
    one counts which `choose` chooses among those that say something of the node, or contradict themselves; one of
    an interrupted run or of a part of the checks does not, and is returned where there is no other.

    What counts is worked out from its record, unless `trusts` is set: its summary alone is read then.

    `place` is a record, its folder, a folder in which the folders of this node's results begin with its name, or one
    in which every night has such a folder.
    """
    if not untrusted.exists(place):
        return None
    own = [place.parent] if place.is_file() else [place, *_of_node(place, node)]
    read = [each for folder in own if (each := _read(folder, rehearsal))]
    hosts = {node, *(each.host for each in read)}
    names = nodes_of(hosts, names_among(hosts))
    found = [each for each in read if names[each.host] == names[node]]
    while (counts := _counting(found)) and not (trusts or counts.contradiction):
        made = folder_summary.worked_out(counts.folder)
        if made is None or not made.contradiction:
            return made
        found = [made if each is counts else each for each in found]
    return counts


def _counting(found: Sequence[Summary]) -> Summary | None:
    """Return the result of a node that counts."""
    now = datetime.now(timezone.utc)
    telling = [each for each in found if each.good or each.rejects or each.contradiction]
    return choose(telling, now).counts or choose(found, now).counts


def _of_node(place: Path, node: str) -> Iterator[Path]:
    """Yield the folders of a node's results, which are named by the host, with its domain or without."""
    try:
        names = sorted((each.name for each in os.scandir(place) if not each.name.startswith(".")), reverse=True)
    except OSError as error:
        raise BadFile(f"{place}: cannot be read: {error.strerror}") from None
    short = node.partition(".")[0]
    called = [file_name(node)] if short in ("", node) or short.isdigit() else [file_name(node), file_name(short)]
    begins = tuple(f"{name}{end}" for name in called for end in "-.")
    own = [each for each in names if each in called or each.startswith(begins)]
    yield from (place / each for each in own[:MOST_OF_NODE])
    others = [each for each in names if each not in own]
    for night in others[:MOST_NIGHTS]:
        for name in called:
            yield from _numbered(place / night / name)


def _numbered(first: Path) -> Iterator[Path]:
    """Yield a folder and those of later runs beside it, with the numbers that they were given."""
    for number in count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        if not folder.is_dir():
            return
        yield folder


def _read(folder: Path, rehearsal: bool) -> Summary | None:
    """Return the result in a folder, None if there is none or it is no measurement of this kind of node."""
    try:
        found = folder_summary.of_folder(folder, rehearsal)
    except BadFile:
        return None
    if found is None or found.judged_again:
        return None
    return found if found.began and (found.word or found.contradiction) else None  # without either, it has not ended
