"""The document of a delivery as one HTML file that prints well and loads nothing from elsewhere. It has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_accel.fleet.delivery.document import result, words
from pytest_accel.views.html.page import asset, demand_extra, environment, hash_of, trusted

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery
    from pytest_accel.fleet.delivery.risk import Distribution

HERE = "pytest_accel.fleet.delivery.document"
WIDTH, HEIGHT = 240.0, 44.0
"""Size of a histogram in the units of its SVG."""
KINDS = {"ACCEPTED": "pass", "REJECTED": "fail", "NOT JUDGED": "unsure", "accepted": "pass", "rejected": "fail"}


@dataclass(frozen=True)
class Picture:
    """A histogram as an SVG shows it: bars, the healthy range, and the bound, each in its units."""

    bars: Sequence[tuple[float, float, float, float]]
    """x, y, width and height."""
    healthy: tuple[float, float] | None
    """x and width."""
    bound: float | None
    told: str


def text(of: Delivery) -> str:
    """Return the document of a delivery as HTML. Raises MissingExtra."""
    demand_extra()
    style = asset(HERE, ("delivery.css",))
    word, sentence = result.verdict(of)
    made = (
        environment(HERE)
        .get_template("delivery.html.j2")
        .render(
            policy=f"default-src 'none'; style-src '{hash_of(style)}'; base-uri 'none'; form-action 'none'",
            style=trusted(style),
            of=of,
            kind=KINDS[word],
            kinds=KINDS,
            word=word,
            sentence=sentence,
            reasons=result.reasons(of),
            head=result.head(of),
            warnings=result.warnings(of),
            counts=result.counts(of),
            across=words.across(of),
            metrics=[(each, picture(each)) for each in of.metrics],
            risk_summary=words.risk_summary(of.metrics),
            risks=words.risks(of.metrics),
            say=words,
        )
    )
    head, body = made.split("</head>", 1)
    return f"{head}</head>{body.replace(' %', '&nbsp;%')}"  # a figure and its unit stay on one line


def picture(of: Distribution) -> Picture:
    """Return the histogram of a metric, wide enough to show its bound."""
    bound = of.floor if of.floor is not None else of.ceiling
    ends = [of.least, of.most, *([bound] if bound is not None else []), *(of.healthy or ())]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.03 or abs(high) * 0.01 or 1.0
    low, high = low - room, high + room

    def x(value: float) -> float:
        """Return the place of a value."""
        return float(round((value - low) / (high - low) * WIDTH, 2))

    width, tallest = (of.most - of.least) / len(of.bars), max(of.bars)
    bars = []
    for place, count in enumerate(of.bars):
        if count:
            left, height = x(of.least + place * width), round(max(1.0, count / tallest * (HEIGHT - 4)), 2)
            bars.append((left, HEIGHT - height, max(1.2, round(x(of.least + (place + 1) * width) - left, 2)), height))
    healthy = (x(of.healthy[0]), max(1.0, round(x(of.healthy[1]) - x(of.healthy[0]), 2))) if of.healthy else None
    told = (
        f"{of.n} figures from {words.number(of.least)} to {words.number(of.most)} {of.unit}; limit: {words.bound(of)}"
    )
    return Picture(bars, healthy, None if bound is None else x(bound), told)
