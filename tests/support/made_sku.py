"""An H100 of which little is stated, for tests of what is read from a product alone."""

from __future__ import annotations

from typing import Any

from pytest_accel.core.sku_types import Datasheet, Platform, Sku

HGX8 = Platform("hgx8", 8, pcie={"gb_per_s": 63}, link={"gb_per_s": 450})
SINGLE = Platform("single", 1)


def made(**changes: Any) -> Sku:
    """Return it with other fields."""
    fields: dict[str, Any] = {
        "name": "h100-sxm",
        "title": "H100",
        "vendor": "nvidia",
        "match": {"names": ["NVIDIA H100 80GB HBM3"], "pci_ids": ["10de:2330"]},
        "datasheet": Datasheet({"bf16": 989.4}, unsupported=("fp8",), memory={"gb_per_s": 3350}),
        "limits": {},
        "platforms": {"hgx8": HGX8, "single": SINGLE},
        "probes": {},
        "budgets": {},
        "not_applicable": {},
    }
    return Sku(**{**fields, **changes})
