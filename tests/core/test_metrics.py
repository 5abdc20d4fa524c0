"""The name of a metric has a probe, a variant and a size."""

from support.rows import each_row

from pytest_accel.core.metric_name import Metric, parse


@each_row(
    ("name", "parts"),
    [
        ("matmul.bf16", Metric("matmul", "bf16")),
        ("matmul.bf16@m=4096,n=14336", Metric("matmul", "bf16", "m=4096,n=14336")),
        ("all_reduce.busbw@8GiB", Metric("all_reduce", "busbw", "8GiB")),
        ("soak.throttle.hw_thermal", Metric("soak", "throttle.hw_thermal")),
        ("relu", Metric("relu")),
        ("relu@alpha=0.5", Metric("relu", "", "alpha=0.5")),
    ],
)
def test_the_parts_of_a_name_make_it_again(name: str, parts: Metric) -> None:
    assert parse(name) == parts
    assert str(parts) == name
