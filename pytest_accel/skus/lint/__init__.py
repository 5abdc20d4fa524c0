"""Checks threshold files for plausibility, for errors that a schema cannot find, such as a floor with a lost digit.

A rule is a pure function of a `LintedFile`, registered by `@rule`. `pytest-accel sku lint --list` prints its
name and the first line of its docstring.
"""

from pytest_accel.skus.lint import datasheet, limits, physics, platforms
from pytest_accel.skus.lint.engine import LintReport, explanations, lint
from pytest_accel.skus.lint.linted_file import LintMessage

RULE_MODULES = (physics, limits, datasheet, platforms)
"""The modules with rules, imported here so that their rules are registered."""

__all__ = ["RULE_MODULES", "LintMessage", "LintReport", "explanations", "lint"]
