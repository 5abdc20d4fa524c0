"""What a session plans to measure, from the SKU that it was opened with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import shipped

from pytest_accel.run.options import Options
from pytest_accel.run.setup import Setup
from pytest_accel.run.terms import Terms


@pytest.fixture
def setup() -> Callable[..., Setup]:
    """A setup for a shipped SKU on one of its platforms, without a look at this machine."""

    def made(sku: str, platform: str, level: str) -> Setup:
        here = Setup(Options(sku=sku, level=level))
        found = shipped.load(sku)
        here.terms = Terms(found, found.platforms[platform], level)
        return here

    return made


def test_an_all_reduce_is_measured_at_every_size_that_has_a_limit(setup: Callable[..., Setup]) -> None:
    """Whatever the file limits, beside the size of the packaged suite; at level quick there is time for that alone."""
    standard = setup("h200-sxm", "hgx8", "standard")
    limited = {metric.partition("@")[2] for metric in standard.terms.limits if metric.startswith("all_reduce.busbw@")}
    assert len(limited) > 1
    assert standard.all_reduce_sizes()[0] == "8GiB"
    assert set(standard.all_reduce_sizes()) == {"8GiB", *limited}
    assert len(standard.all_reduce_sizes()) == len(limited)
    assert setup("h200-sxm", "hgx8", "quick").all_reduce_sizes() == ["8GiB"]


def test_the_size_of_the_packaged_all_reduce_is_that_of_the_sku(setup: Callable[..., Setup]) -> None:
    assert setup("cpu", "host", "standard").all_reduce_sizes() == ["16MiB"]
