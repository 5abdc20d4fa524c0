"""What a session plans to measure, from the SKU that it was opened with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import in_process, shipped

from pytest_accel.core.measurement import NODE
from pytest_accel.core.sku_types import Limit
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.probes.collectives import OPERATIONS
from pytest_accel.run.setup import Target
from pytest_accel.run.terms import Terms


@pytest.fixture
def setup() -> Callable[..., Target]:
    """A setup for a shipped SKU on one of its platforms, without a look at this machine."""

    def made(sku: str, platform: str, level: str) -> Target:
        judged = shipped.load(sku)
        return Target(Discovery(), Terms(judged, judged.platforms[platform], level), ())

    return made


def test_an_all_reduce_is_measured_at_every_size_that_has_a_limit(setup: Callable[..., Target]) -> None:
    """Whatever the file limits, beside the size of the packaged suite; at level quick there is time for that alone."""
    standard = setup("h200-sxm", "hgx8", "standard")
    limited = {metric.partition("@")[2] for metric in standard.terms.limits if metric.startswith("all_reduce.busbw@")}
    assert len(limited) > 1
    assert sizes(standard)[0] == "8GiB"
    assert set(sizes(standard)) == {"8GiB", *limited}
    assert len(sizes(standard)) == len(limited)
    assert sizes(setup("h200-sxm", "hgx8", "quick")) == ["8GiB"]


def test_every_operation_is_measured_at_the_size_of_the_suite_and_where_it_has_a_limit(
    setup: Callable[..., Target],
) -> None:
    here = setup("h200-sxm", "hgx8", "standard")
    platform = here.terms.platform
    alike = replace(platform.limits["all_reduce.busbw@8GiB"], metric="all_to_all.busbw@8GiB")
    terms = replace(here.terms, platform=replace(platform, limits={**platform.limits, alike.metric: alike}))
    here = replace(here, terms=terms)
    found = [each for each in here.collectives() if each[0] != "all_reduce"]
    assert found == [*((each, "1GiB") for each in OPERATIONS[1:]), ("all_to_all", "8GiB")]


def sizes(setup: Target) -> list[str]:
    return [size for operation, size in setup.collectives() if operation == "all_reduce"]


def test_the_size_of_the_packaged_all_reduce_is_that_of_the_sku(setup: Callable[..., Target]) -> None:
    assert dict(setup("cpu", "host", "standard").collectives()) == dict.fromkeys(OPERATIONS, "16MiB")


def test_a_fact_of_the_host_has_a_test_where_a_file_limits_it(setup: Callable[..., Target]) -> None:
    here = setup("h100-sxm", "hgx8", "standard")
    assert "numa_balancing" in here.limited_facts("host")
    assert "smt" not in here.limited_facts("host")
    sku = here.terms.sku
    assert sku
    own = replace(sku, limits={**sku.limits, "host.smt": Limit("host.smt", "text", equals="on")})
    assert "smt" in replace(here, terms=replace(here.terms, sku=own)).limited_facts("host")


def test_a_fact_of_the_host_without_a_limit_is_in_the_record_before_any_test(tmp_path: Path) -> None:
    node = tmp_path / "node.yaml"
    node.write_text("sku: mi300x\nplatform: single\nfaults:\n  - fault: huge-pages-off\n")
    here = in_process.opened(node, tmp_path / "out")
    found = here.ledger.newest("host.huge_pages", NODE)
    assert found
    assert found.value == "never"
    assert here.ledger.newest("host.numa_balancing", NODE) is None, "its test reads it"
    assert not here.ledger.verdicts
    here.finish()
