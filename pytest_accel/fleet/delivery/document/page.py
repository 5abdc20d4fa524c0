"""The document of a delivery as one HTML file that prints well and loads nothing from elsewhere. It has no script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_accel.fleet.delivery.document import result, words
from pytest_accel.views.html.page import asset, demand_extra, environment, hash_of, trusted

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery

HERE = "pytest_accel.fleet.delivery.document"
KINDS = {"ACCEPTED": "pass", "REJECTED": "fail", "NOT JUDGED": "unsure", "accepted": "pass", "rejected": "fail"}


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
            figures=words.figures(of.metrics),
            say=words,
        )
    )
    head, body = made.split("</head>", 1)
    return f"{head}</head>{body.replace(' %', '&nbsp;%')}"  # a figure and its unit stay on one line
