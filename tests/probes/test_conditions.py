"""Values of conditions that no probe could use are refused before anything is measured."""

from __future__ import annotations

from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel import probes
from pytest_accel.run.request_completion import request_of

CASES = data_files.tables("probes/conditions")


@each_row(("name", "given", "message"), CASES["refused"])
def test_a_value_that_a_packaged_probe_cannot_use(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        request_of(getattr(probes, name), given, None, None)


@each_row(("name", "given"), CASES["usable"])
def test_a_value_that_it_can_use(name: str, given: dict[str, Any]) -> None:
    assert request_of(getattr(probes, name), given, None, None).conditions.items() >= given.items()


def own(device: Any, *, m: int = 1) -> None:
    """A user's probe."""


def test_the_values_of_a_users_probe_are_the_users() -> None:
    assert request_of(own, {"m": -1}, None, None).conditions == {"m": -1}
