"""`pytest-accel monitoring`: the shipped files for Prometheus and Grafana."""

from __future__ import annotations

import argparse

from pytest_accel.views.exports import prometheus

DESCRIPTION = """Print alert rules for Prometheus, or a dashboard for Grafana. Both go by the metrics that
'pytest-accel fleet report DIR --format prometheus' and 'pytest-accel store show STORE --format prometheus' write."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of `monitoring`."""
    parser.add_argument("of", choices=prometheus.FILES, help="the file to print")


def run(chosen: argparse.Namespace) -> int:
    """Print a shipped file; return 0."""
    print(prometheus.FILES[chosen.of].read_text(encoding="utf-8"), end="")
    return 0
