"""Prints one JSON line about this machine: the version of torch, whether torch sees a GPU, and the SKU of the GPU.

A process of its own, since it opens the device and the management library.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from pytest_accel.drivers import DriverProblem, registry
from pytest_accel.run.options import Refused
from pytest_accel.run.terms import sku_of


def main() -> None:
    """Print the line; `why` says what keeps torch from the GPU, and `unknown` why no SKU was recognised."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        import torch

        found: dict[str, Any] = {
            "gpu": torch.cuda.is_available(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        }
    found["why"] = "; ".join(str(each.message).partition("\n")[0] for each in said) or "torch.cuda sees none"
    try:
        devices = registry.vendor("nvidia").driver([]).discover()
        sku = sku_of(devices)
        found |= {"devices": len(devices), "sku": sku.name if sku else "", "unknown": "NVML states no device"}
    except (DriverProblem, Refused) as problem:
        found |= {"devices": 0, "sku": "", "unknown": str(problem)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
