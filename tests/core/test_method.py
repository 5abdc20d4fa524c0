"""Methods: which properties differ between what a source measured and what a probe measures."""

from support.data_files import tables
from support.rows import each_row

from pytest_accel.core.method import AS_FOUND, differences, found_differences

ROWS = tables("core/methods")

OURS = {"shape": "8192x8192x8192", "data": "normal(0, 1)", "warm_up": 50, "tunable_op": AS_FOUND}


@each_row(("stated", "expected"), ROWS["stated"])
def test_every_property_that_differs_is_named(stated: dict[str, object], expected: list[str]) -> None:
    assert differences(OURS, stated) == tuple(expected)


def test_what_only_the_run_knows_is_compared_with_the_measurement() -> None:
    stated = {"shape": "8192x8192x8192", "tunable_op": True}
    assert found_differences({"shape": "8192x8192x8192", "tunable_op": False}, stated) == (
        "tunable op True (ours: False)",
    )
    assert found_differences({"other": 1}, stated) == (), "a figure of another tool that does not say how"
