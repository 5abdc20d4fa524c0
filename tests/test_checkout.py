"""An acceptance run started in this checkout is not held to the rules of our own tests."""

from __future__ import annotations

from pathlib import Path

import as_user
import pytest

CHECKOUT = Path(__file__).parent.parent
NOISY = """
import warnings

def pytest_collection_finish(session):
    warnings.warn("a library of the node is old")
"""


@pytest.mark.slow
def test_a_warning_on_the_node_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    options = ("-p", "noisy", "--accel-simulate=h100-sxm", "--collect-only", "-q")
    env = {"PYTHONPATH": str(tmp_path)}
    ran = as_user.pytest(CHECKOUT, *options, sku=None, paths=(), output=tmp_path / "out", env=env)

    assert ran.exit == 0, ran.out
    assert "test_matmul" in ran.out
    assert "UserWarning: a library of the node is old" in ran.out
