"""A probe declares itself; a declaration that lacks something is refused when its file is imported."""

from __future__ import annotations

import functools
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel import probes
from pytest_accel.core.sku_types import UNITS
from pytest_accel.probes.declare import (
    declaration_for,
    declaration_of,
    declarations,
    finder_of,
    probe,
    unit_of,
    unusable,
)

CASES = data_files.tables("probes/declare")
PACKAGED = [each for each in declarations() if each.packaged]


def example(device: Any, *, op: str = "relu", mib: int = 64) -> None: ...


COMPLETE: dict[str, Any] = {"unit": "GB/s", "stresses": ["memory"], "variants": {"op": ["relu"]}, "small": {"mib": 1}}


@each_row(("metric", "changes", "says"), CASES["lacking"])
def test_what_a_declaration_lacks_is_said_with_the_place(
    metric: str, changes: dict[str, Any], says: str | None
) -> None:
    declare = probe(metric, **{**COMPLETE, **changes})
    if says is None:
        assert declaration_for(declare(example)).metric == metric
        return
    with pytest.raises(TypeError) as raised:
        declare(example)
    assert says in str(raised.value)
    assert str(raised.value).startswith(f"{Path(__file__)}:")


@pytest.mark.parametrize("metric", ["matmul.{dtype}", "matmul.bf16"])
def test_two_probes_do_not_find_one_metric(tmp_path: Path, metric: str) -> None:
    """Not one variant of it either: its limits are for what the packaged probe measures."""
    path = tmp_path / "mine.py"
    variants = ", variants={'dtype': ['bf16']}" if "{" in metric else ""
    path.write_text(
        "from pytest_accel.probes.declare import probe\n"
        f"@probe('{metric}', unit='TFLOPS', stresses=['compute']{variants})\n"
        "def mine(device, *, dtype='bf16'): ...\n",
        encoding="utf-8",
    )
    said = rf"mine.py:2: probe mine: matmul \(.*matmul.py:\d+\) finds {metric} too"
    with pytest.raises(TypeError, match=said):
        runpy.run_path(str(path))


def nested() -> Any:
    def inner(device: Any) -> None: ...

    return inner


class Callable:
    def __call__(self, device: Any) -> None: ...


@each_row(
    ("function", "says"),
    [
        (functools.partial(example, op="relu"), "not an object of type partial"),
        (nested(), "cannot be a probe: define it at the top of a module"),
        (lambda device: None, "cannot be a probe: define it at the top of a module"),
        (Callable(), "not an object of type Callable"),
        (Callable().__call__, "not an object of type method"),
        (probes, "not an object of type module"),
        ("matmul", "not an object of type str; write probes.matmul"),
        ("matrix", "not an object of type str; write one that calls it"),
    ],
)
def test_what_no_worker_could_import_is_refused(function: Any, says: str) -> None:
    assert says in str(unusable(function))
    with pytest.raises(TypeError, match=says):
        probe("example.{op}", **COMPLETE)(function)


def test_every_module_that_declares_a_probe_is_imported() -> None:
    folder = Path(str(probes.__file__)).parent
    declaring = {path.stem for path in folder.glob("*.py") if "\n@probe(" in path.read_text(encoding="utf-8")}
    assert declaring == {each.function.__module__.rpartition(".")[2] for each in PACKAGED}
    text = Path(str(probes.__file__)).read_text(encoding="utf-8")
    assert {each.name for each in PACKAGED} == set(re.findall(r" as (\w+)$", text, re.MULTILINE))


def test_every_packaged_probe_is_a_public_name_and_its_metrics_lead_back_to_it() -> None:
    for declared in PACKAGED:
        assert getattr(probes, declared.name) is declared.function
        assert declared.name in probes.__all__
        for metric in declared.names():
            assert finder_of(metric) is declared, metric
            assert declared.fact or unit_of(metric) in UNITS, metric


@each_row(("metric", "name", "unit"), CASES["metrics"])
def test_a_metric_leads_to_the_probe_that_speaks_for_it(metric: str, name: str, unit: str | None) -> None:
    declared = declaration_of(metric)
    assert declared
    assert (declared.name, unit_of(metric)) == (name, unit)
    assert (declaration_of("our.own"), unit_of("our.own")) == (None, None), "nobody speaks for it"
