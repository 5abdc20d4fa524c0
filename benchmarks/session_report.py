"""A session as Markdown: what ran, what did not and why, then what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import verify

from pytest_accel.views.markdown import escaped

Row = dict[str, Any]


def report(found: dict[str, Any]) -> str:
    """Return the summary of a session; see session.Session for what it is made of."""
    steps: dict[str, Row] = found["steps"]
    predictions, ratios = list(_predictions(steps.values(), found.get("part", ""))), list(_ratios(steps.values()))
    results = [each["result"].partition(":")[0] for each in predictions]
    verdicts = [each["verdict"].partition(":")[0] for each in ratios]
    lines = ["# A session on one device", "", *(f"* {key}: {value}" for key, value in found["about"].items()), ""]
    lines += [
        f"Steps: {_steps(steps.values())}.",
        f"Predictions: {_count(results, ('HELD', 'HELD IN PART', 'NOT HELD', 'NOT RUN'))}.",
        f"Ratios: {_count(verdicts, ('met', 'SUSPICIOUS', 'missed', 'NOT RUN'))}.",
    ]
    lines += ["", "## Steps", "", "In the order of their worth.", ""]
    lines += _table(("step", "planned s", "took s", "result"), map(_step, steps, steps.values()))
    lines += ["", "## Suite", ""]
    suite = {name: each for name, each in steps.items() if each["table"] == "suite"}
    lines += [f"* {name}: `{each['closing'] or each['result']}`" for name, each in suite.items()]
    lines += ["", "Verdicts that are neither PASS nor NOT APPLICABLE, worst first, of the records of these runs:", ""]
    lines += [f"* {name}: {step['record'] or 'no record'}" for name, step in suite.items()] + [""]
    heads = ("run", "metric", "device", "status", "value", "limit", "margin", "reason")
    verdicts = [(name, verdict) for name, step in suite.items() for verdict in step["verdicts"]]
    lines += _table(heads, ((name, *map(escaped, verdict.values())) for name, verdict in verdicts))
    lines += ["", "## Predictions", "", "Of one H200 or H100; found under the conditions of each run.", ""]
    lines += _table(("run", "what", "predicted", "found", "result", "s"), map(_prediction, predictions))
    lines += ["", "## Ours over the tools of others", ""]
    lines += ["0.99 to 1.01: met. Above: SUSPICIOUS, a bug until explained. Below: missed.", ""]
    of_ratios = ("tool", "what of ours", "against", "ours", "theirs", "unit", "ratio", "verdict", "conditions")
    lines += _table(of_ratios, map(_ratio, ratios))
    sources = {each["tool"]: each["source"] for each in ratios if "source" in each}
    return "\n".join([*lines, "", *(f"* {tool}: {source}" for tool, source in sources.items())]) + "\n"


def _predictions(steps: Iterable[Row], part: str) -> Iterator[Row]:
    """Yield the rows of verify.py, in the order of their names, with one for every run that did not come."""
    rows: dict[str, Row] = {}
    for step in steps:
        if step["table"] == "verify":
            rows |= {name: verify.blank(name, _why(step), part) for name in step["runs"]}
            rows |= {each["run"]: each for each in step["rows"]}
    yield from (rows[name] for name in verify.RUNS if name in rows)


def _ratios(steps: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of compare.py, with one for every tool that has none."""
    for step in steps:
        if step["table"] == "compare":
            yield from step["rows"] or [{"tool": name, "verdict": f"NOT RUN: {_why(step)}"} for name in step["runs"]]


def _why(step: Row) -> str:
    return str(step["result"]).removeprefix("NOT RUN: ")


def _steps(steps: Iterable[Row]) -> str:
    results = [str(each["result"]).partition(" ")[0] for each in steps]
    named = {"ended": "ran to their end", "BROKE": "broke", "STOPPED": "stopped", "NOT": "not run", "the": "cut"}
    return ", ".join(f"{results.count(word)} {text}" for word, text in named.items())


def _count(found: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{found.count(name)} {name}" for name in names)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [f"| {' | '.join(str(each) for each in row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def _step(name: str, entry: Row) -> list[object]:
    return [name, f"{entry['planned']:g}", f"{entry['seconds']:g}", entry["result"]]


def _prediction(row: Row) -> list[object]:
    figures = [f"{name} {'none' if value is None else format(value, '.4g')}" for name, value in row["found"].items()]
    return [row["run"], row["what"], row["predicted"], ", ".join(figures), row["result"], format(row["seconds"], "g")]


def _ratio(row: Row) -> list[object]:
    if "ratio" not in row:
        return [row["tool"], row.get("what", ""), row.get("against", ""), "", "", "", "", row["verdict"], ""]
    figures = [format(row[key], ".4g") for key in ("ours", "theirs")]
    ratio = "none" if row["ratio"] is None else format(row["ratio"], ".3f")
    ends = [row["unit"], ratio, row["verdict"], row["conditions"]]
    return [row["tool"], row["what"], row["against"], *figures, *ends]
