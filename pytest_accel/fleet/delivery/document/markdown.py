"""The document of a delivery in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_accel.fleet.delivery.document import result, words
from pytest_accel.views.markdown import code, escaped, table

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery

SENTENCE = 4000
"""Characters of the longest sentence outside of a table that is shown in full."""
MOST_NODES = 2000
"""Nodes that the table at the end lists; a delivery of more is better read as HTML or JSON."""


def text(of: Delivery) -> str:
    """Return the document of a delivery in Markdown. Every heading of a simulated one says so."""
    mark = "SIMULATED: " if of.simulated else ""
    lines = _head(of, mark)
    for title, section in SECTIONS.items():
        lines += [f"## {mark}{title}", "", *section(of)]
    return "\n".join(lines).rstrip() + "\n"


def _head(of: Delivery, mark: str) -> list[str]:
    """Return the result with everything that stands against it, the counts, the warnings and the terms."""
    word, sentence = result.verdict(of)
    counts = [(name, f"{nodes:,}", f"{devices:,}") for name, nodes, devices in result.counts(of)]
    return [
        f"# {mark}Acceptance of {escaped(of.name)}: {word}",
        "",
        f"**{escaped(sentence, SENTENCE)}**",
        "",
        *_bullets(result.reasons(of)),
        *_table(("result", "nodes", "devices"), counts),
        words.COUNTED,
        "",
        *[f"> {escaped(each, SENTENCE)}\n>" for each in result.warnings(of)],
        "",
        *[f"- {name}: {code(value)}" for name, value in result.head(of)],
        "",
    ]


def _faults(of: Delivery) -> list[str]:
    """Return the list of what is to be returned, repaired or corrected."""
    rows = [
        (
            each.node,
            each.place,
            each.serial or "-",
            each.title,
            f"{each.metric}: {each.words}",
            each.do,
        )
        for each in of.rejections
    ]
    return _table(("node", "place", "serial", "fault", "why", "next step"), rows) if rows else [words.NO_FAULT, ""]


def _boards(of: Delivery) -> list[str]:
    """Return what is missing, in a wrong place or twice."""
    return _bullets(words.across(of)) or [words.all_in_place(of), ""]


def _figures(of: Delivery) -> list[str]:
    """Return the distribution of every metric."""
    rows = words.figures(of.metrics)
    return _table(words.FIGURES_HEAD, rows) if rows else [words.NO_FIGURE, ""]


def _nodes(of: Delivery) -> list[str]:
    """Return every node with its serial numbers and closing line."""
    rows = [
        (
            each.name,
            each.result,
            each.started,
            " ".join(one.serial or one.uuid for one in each.boards),
            each.sha256[:12],
            each.line,
        )
        for each in of.nodes[:MOST_NODES]
    ]
    more = len(of.nodes) - len(rows)
    return [
        *_table(("node", "result", "started", "serials", "record", "closing line"), rows),
        *([f"and {more:,} more", ""] if more else []),
    ]


SECTIONS: Mapping[str, Callable[[Delivery], list[str]]] = {
    words.FAULTS: _faults,
    words.BOARDS: _boards,
    words.FIGURES: _figures,
    words.NODES: _nodes,
}
"""The sections after the head, by their headings."""


def _bullets(sentences: Sequence[str]) -> list[str]:
    """Return sentences as a list with an empty line behind it; nothing for none."""
    return [*(f"- {escaped(each, SENTENCE)}" for each in sentences), ""] if sentences else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; its cells show what they hold as it is."""
    return [*table(head, (list(map(escaped, row)) for row in rows)), ""]
