"""Things in groups."""

from __future__ import annotations

from pytest_accel.core.groups import grouped


def test_groups_and_their_things_are_in_the_order_of_the_things() -> None:
    assert list(grouped([3, 1, 4, 2, 5], lambda each: each % 2).items()) == [(1, [3, 1, 5]), (0, [4, 2])]
    assert grouped([], str) == {}
