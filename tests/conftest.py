"""Settings of our own tests: `scripts/test.sh` selects by these markers."""

from __future__ import annotations

import pytest

from pytest_accel.run.options import is_acceptance_run

pytest_plugins = ["pytester"]

MARKERS = (
    "slow: full products, builds, end-to-end cases (make test-slow)",
    "devices: measures this machine's own processors, so it runs serially",
    "nightly: more of what other tests show (make test-nightly)",
    "cuda_build: torch's CUDA build over a stand-in for CUDA's runtime (make test-cuda)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and turn warnings into errors.

    pytest reads this file in an acceptance run from the checkout too; a warning there is not an error.
    """
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if not is_acceptance_run(config.option):
        config.addinivalue_line("filterwarnings", "error")
