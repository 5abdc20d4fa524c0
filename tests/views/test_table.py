"""The table tells a user's tests apart that share the name of a probe."""

from pytest_accel.core.measurement import Measurement, Names
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.views.table import table


def judged(metric: str, test: str, floor: float = 5.0) -> Verdict:
    where = f"{test}[gpu0]"
    origin = f"marker accel_limit of {where}"
    limit = Limit(metric, "GB/s", floor=floor, origin=origin, declared_by=DeclaredBy.MARKER, test=where)
    return judge([Measurement(metric, "GPU-0", "GB/s", 10.0)], limit)


def metrics(*verdicts: Verdict) -> list[str]:
    return sorted(line.split()[2] for line, _ in table(verdicts, Names({"GPU-0": "gpu0"}))[1:])


def test_tests_that_share_a_probe_have_their_own_names() -> None:
    """Three rows "relu" look alike."""
    assert metrics(judged("relu", "a.py::test_big"), judged("relu", "a.py::test_small")) == ["test_big", "test_small"]


def test_tests_of_one_name_have_their_file() -> None:
    assert metrics(judged("relu", "a.py::test_relu"), judged("relu", "b.py::test_relu")) == [
        "a.py::test_relu",
        "b.py::test_relu",
    ]


def test_a_probe_of_one_test_and_a_packaged_probe_keep_their_metric() -> None:
    assert metrics(judged("relu", "a.py::test_big"), judged("gelu", "a.py::test_gelu")) == ["gelu", "relu"]
    assert metrics(judged("matmul.bf16", "a.py::test_one"), judged("matmul.bf16", "a.py::test_two", 6.0)) == [
        "matmul.bf16",
        "matmul.bf16",
    ]
