"""docs/verdicts.md: its table is that of the code."""

from __future__ import annotations

import math
from pathlib import Path

from pytest_accel.core.groups import grouped
from pytest_accel.judging.verdicts.distance import FAR, OF_ONE_NODE, OF_RAW_WIDTH, OF_WIDTH, RULES, Rule

PAGE = Path(__file__).parents[2] / "docs/verdicts.md"
NEVER = "-"


def percent(share: float) -> str:
    return NEVER if math.isinf(share) else f"{100 * share:.3g}%"


def deviations(sigmas: float, least: float) -> str:
    """From where on, with a known spread: "4 s, at least 1%"."""
    if math.isinf(sigmas) or math.isinf(least):
        return NEVER
    return f"{sigmas:g} s, at least {least:.0%}" if sigmas else f"{least:.0%}"


def row(reference: str, family: str, rule: Rule) -> str:
    ours, other, unknown = rule.fail_losses
    fails = deviations(rule.fail_sigmas, ours), deviations(rule.fail_sigmas, other), percent(unknown)
    cells = deviations(rule.sigmas, rule.min_loss), percent(rule.no_spread), *fails
    return f"| {reference} | {family} | {' | '.join(cells)} |"


def test_the_table_is_that_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if line.startswith("| ") and line.split(" | ")[0][2:] in RULES]
    expected = []
    for reference, rules in RULES.items():
        for rule, alike in grouped(rules, rules.__getitem__).items():
            expected.append(row(reference, ", ".join(alike), rule))
    assert shown == expected


def test_the_figures_beside_the_table_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{FAR:.0%} behind like devices" in text
    assert f"{OF_WIDTH:g} times the widest range at one clock" in text
    assert f"{OF_RAW_WIDTH:g} times the widest range at any clock" in text
    assert f"MARGINAL begins at {OF_ONE_NODE:g} times the loss" in text
