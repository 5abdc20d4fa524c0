"""The report of a record as the text of one HTML file, which loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.core.exits import WrongUse
from pytest_accel.core.measurement import finite
from pytest_accel.core.method import words as label
from pytest_accel.core.printable import printable, printable_data
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import details, headline, sentence_of
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import WORST_FIRST, Result, decisive_margin, margin_of, show
from pytest_accel.judging.causes import peer_matrix
from pytest_accel.judging.closing.parts import failure_text
from pytest_accel.run import telemetry_file
from pytest_accel.run.record import findings_of, locations_of, names_of
from pytest_accel.views.html import blocks, figures, report_words, traces
from pytest_accel.views.table import demanded, next_run, published_of

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "pytest_accel.views.html"
"""The package with the templates, styles and scripts."""
SHOWN = 4000
"""Length of the longest text that the report shows in full."""
STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("uPlot.iife.min.js", "tables.js", "report.js")
"""The files that are written into the report, in this order."""


class MissingExtra(WrongUse):
    """The library that the report needs is not installed; the text says how to install it."""


def demand_extra() -> None:
    """Raise MissingExtra if Jinja2 cannot be imported."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "HTML and the document of a delivery need Jinja2: pip install 'pytest-accel[report]'"
        ) from None


def report(record: Run, folder: Path) -> str:
    """Return the report of a record whose other files lie in `folder`. Raises MissingExtra.

    The traces are left out, and the report says why, if the file with the sensor's readings cannot be used.
    """
    window, names = traces.window(record), names_of(record)
    if window is None:
        return page(record, None, "nothing was measured")
    try:
        readings = telemetry_file.readings(telemetry_file.find(record, folder))
        return page(record, traces.traces(readings, window, names))
    except BadFile as error:
        return page(record, None, str(error))


def page(record: Run, drawn: traces.Traces | None, absent: str = "") -> str:
    """Return the report of a record with the traces of its soak; without them `absent` says why. Raises MissingExtra.

    Text from outside is escaped by the template, and control characters become visible escapes.
    """
    demand_extra()
    template = environment(PACKAGE).get_template("report.html.j2")
    return template.render(
        **_content(record, drawn), absent=absent, **code(asset(PACKAGE, STYLES), asset(PACKAGE, SCRIPTS))
    )


def code(style: str, script: str) -> dict[str, str]:
    """Return the style and the script of a page, and the policy that lets it load and run these two alone."""
    return {
        "style": trusted(style),
        "script": trusted(script),
        "policy": f"default-src 'none'; script-src '{hash_of(script)}'; style-src '{hash_of(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
    }


def _content(record: Run, drawn: traces.Traces | None) -> dict[str, Any]:
    """Return a record and what the template shows beside it, by name."""
    verdicts = figures.PageVerdicts(record)
    plots = blocks.blocks(record, verdicts.names)
    all_plots = [*(drawn.plots if drawn else ()), *plots]
    return {
        "record": record,
        "result": Result.words(record.result, "NO RESULT"),
        "kind": figures.kind(record),
        "figures": verdicts,
        "findings": verdicts.findings(findings_of(record)),
        "facts": verdicts.facts(),
        "locations": locations_of(record),
        "codes": findings_of(record),
        "traces": drawn,
        "soaks": traces.summarised(record),
        "plots": plots,
        "matrices": figures.matrices(record, verdicts.names),
        "conditions": report_words.conditions(record),
        "data": trusted(data({plot.anchor: plot.data() for plot in all_plots})),
    }


FILTERS: Mapping[str, Callable[..., Any]] = {
    "badge": report_words.badge,
    "bound": lambda limit: demanded(limit, limit.unit),
    "bounds": report_words.bounds_of,
    "by": report_words.by,
    "counts": report_words.counts,
    "files": lambda files: [(f"threshold file {name}", f"sha256 {sha256}") for name, sha256 in files.items()],
    "healthy": report_words.healthy,
    "failure_text": failure_text,
    "margin": margin_of,
    "decisive_margin": decisive_margin,
    "details": details,
    "headline": headline,
    "meaning": report_words.meaning,
    "method": lambda method: ", ".join(f"{label(key)} {value}" for key, value in method.items()),
    "next_run": next_run,
    "number": finite,
    "only": report_words.only,
    "percent": "{:.1%}".format,
    "plain": report_words.plain,
    "published": published_of,
    "sentence": sentence_of,
    "rank": lambda verdict: WORST_FIRST.index(verdict.status),
    "seconds": report_words.seconds,
    "show": lambda value, unit="": show(value, unit),
    "simulated": report_words.simulated,
    "tally": report_words.tally,
    "time": report_words.time_of,
    "tint": figures.tint,
    "variation": blocks.variation,
    "why": report_words.why,
}
"""The functions that a template calls for a text or a number."""
CONSTANTS = {
    "meanings": report_words.MEANINGS,
    "points": blocks.POINTS,
    "shortest": peer_matrix.SHORT,
    "counted": traces.COUNTED,
}


def data(plots: Mapping[str, object]) -> str:
    """Return data as JSON that cannot end the element of HTML that it stands in."""
    text = json.dumps(printable_data(json.loads(json.dumps(plots, allow_nan=False))), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def trusted(text: str) -> str:
    """Return text that the template writes as it is: our own scripts and styles, and JSON without markup."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  nothing from outside comes here but JSON, whose markup is escaped


def hash_of(text: str) -> str:
    """Return the hash of a script or a style as the policy of the page states it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def asset(package: str, names: tuple[str, ...]) -> str:
    """Return files of a package, which are in its folder `assets`, one after the other."""
    folder = resources.files(package) / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8").strip() for name in names)


@cache
def environment(*packages: str) -> Environment:
    """Return the templates of packages, the first of which comes first.

    Escaping is on for all of them; a name that is missing in the content is an error.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    jinja = Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters.update(FILTERS)
    jinja.globals.update(CONSTANTS)
    jinja.tests["fact"] = report_words.is_fact
    return jinja


def _visible(value: Any) -> Any:
    """Return text from outside with its control characters visible; markup of the templates as it is."""
    if hasattr(value, "__html__"):
        return value
    return printable(value, SHOWN) if isinstance(value, str) else value
