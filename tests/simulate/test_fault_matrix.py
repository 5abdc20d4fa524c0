"""Every check is proven able to fail: each fault of the simulated node is caught by the check that should catch it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import fault_page, in_process, torch_features
from support.fault_case import Case, Seen
from support.fault_cases import BY_A_USER, CASES, ELSEWHERE
from support.fault_page import LISTS, Published
from support.rows import each_row

from pytest_accel.core.verdict import Status
from pytest_accel.simulate.faults import FAULTS

HERE = Path(__file__).parents[1]
PAGE = HERE / "data/fault-matrix.md"
STALE = "run scripts/fault_matrix.py"


@pytest.fixture(scope="module")
def fast() -> Iterator[None]:
    pytest.importorskip("torch")
    with in_process.fast():
        yield


def check(case: Case, seen: Seen) -> None:
    """Caught by what should catch it, named in the closing line, nobody else blamed, the right exit status."""
    assert seen.missed(case) == [], seen.line
    assert seen.exit == case.exit, seen.line
    assert seen.line.startswith(f"SIMULATED {case.closing}"), seen.line
    if case.closing != "HELD":
        assert names(case, seen.line), seen.line
    assert seen.blamed_beside(case) == [], seen.line
    assert fault_page.row(case, fault_page.caught(case, seen)) in PAGE.read_text(encoding="utf-8"), STALE


def names(case: Case, line: str) -> bool:
    """Whether the closing line names who is to blame; a failure of the node may name the device behind it instead."""
    said = line.partition("; worst: ")[0]
    for first, last in re.findall(r"gpu(\d+) to gpu(\d+)", said):
        said += "".join(f" gpu{place} " for place in range(int(first), int(last)))
    return bool(re.search(rf"\b{case.blames}\b" if case.blames != "node" else r"\b(node|gpu\d+)\b", said))


NEEDS_AMDSMI = pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")


def cheapest(cases: Sequence[Case]) -> set[Case]:
    """Of each kind of fault, the first case among those that measure least."""
    by_cost = sorted(cases, key=lambda case: (case in BY_A_USER, case.measured is None))
    first: dict[str, Case] = {}
    for case in by_cost:
        first.setdefault(case.name, case)
    return set(first.values())


ONE_OF_EACH = cheapest(CASES)
"""One case of each kind of fault: `make test-faults`."""


def listed(by_a_user: bool) -> list[Any]:
    """The cases of one kind, with readable names."""
    return [
        pytest.param(case, id=f"{case.asked} on {case.node}", marks=marks(case))
        for case in CASES
        if (case in BY_A_USER) == by_a_user
    ]


def marks(case: Case) -> list[pytest.MarkDecorator]:
    one = [pytest.mark.fault_kind] * (case in ONE_OF_EACH)
    return [NEEDS_AMDSMI] * (case.vendor == "amd") + one + [pytest.mark.nightly]


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("case", listed(by_a_user=False))
def test_a_fault_is_caught(case: Case, tmp_path: Path) -> None:
    if case.measured is None or "matmul" in case.measured:
        torch_features.skip_without_fp8()  # or the limit on its products is unmeasured, whatever the fault
    check(case, in_process.seen(case, tmp_path))


@pytest.mark.parametrize("case", listed(by_a_user=True))
def test_a_fault_is_caught_end_to_end(case: Case, tmp_path: Path) -> None:
    check(case, in_process.by_a_user(case, tmp_path))


@pytest.mark.nightly
@pytest.mark.usefixtures("fast")
def test_a_healthy_node_trips_nothing(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("sku: h100-sxm\n", encoding="utf-8")
    run, closing = in_process.run(tmp_path / "node.yaml", tmp_path / "out")
    assert closing.line.startswith("SIMULATED HELD")
    assert not [each for each in run.ledger.verdicts if each.fails]


@pytest.mark.nightly
@NEEDS_AMDSMI
@pytest.mark.usefixtures("fast")
def test_a_healthy_node_of_eight_mi300x_is_accepted(tmp_path: Path) -> None:
    torch_features.skip_without_fp8()  # which a limit requires
    (tmp_path / "node.yaml").write_text("sku: mi300x\nplatform: oam8\n", encoding="utf-8")
    run, closing = in_process.run(tmp_path / "node.yaml", tmp_path / "out", whole=True)
    assert closing.exit == 0
    worth = "(matmul by 1 publisher, host link by 5, peer links by 1; 2 notes)"
    assert closing.line == f"SIMULATED ACCEPTED 8/8 devices as mi300x at quick {worth}"
    (reduced,) = [each for each in run.ledger.verdicts if each.metric.startswith("all_reduce")]
    assert reduced.status is Status.PASS
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) < 1_000_000, "a thousand nodes a night"


def test_every_fault_of_the_table_has_a_case() -> None:
    assert {case.name for case in CASES} == set(FAULTS)
    assert len(FAULTS) >= 60


@each_row(("file", "test"), [each[1:] for each in ELSEWHERE])
def test_what_is_shown_elsewhere_is_there(file: str, test: str) -> None:
    assert f"def {test}(" in (HERE / file).read_text(encoding="utf-8")


def test_the_page_is_fresh() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert fault_page.page(fault_page.read(text)) == text, STALE


def test_the_status_page_has_its_counts() -> None:
    found = fault_page.read(PAGE.read_text(encoding="utf-8"))
    rows = [" | ".join(map(str, (each.title, len(each.entries), *fault_page.covered(each)))) for each in LISTS]
    status = (HERE.parent / "docs/status.md").read_text(encoding="utf-8")
    assert [line for line in [*fault_page.counts(found), *rows] if line not in status] == []


@pytest.mark.parametrize("published", LISTS, ids=lambda published: published.title)
def test_what_stands_for_a_published_fault_is_caught(published: Published) -> None:
    known = {case.name for case in CASES if case.caught_by} | {what for what, _, _ in ELSEWHERE}
    assert not [(code, by) for code, _, by in published.entries if isinstance(by, list) and not set(by) <= known]
