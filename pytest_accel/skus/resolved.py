"""One file of all that a SKU requires: extended files are merged, and every derived floor is a number. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from pytest_accel.core.sku_types import Sku
from pytest_accel.core.yaml_nodes import Located

FIRST = ("sku", "title", "vendor")


def text_of(sku: Sku, root: Located) -> str:
    """Return the text of a threshold file with all limits of a SKU; `root` is the merged content of its files."""
    content = root.plain()
    content.pop("extends", None)
    platforms = [(content["platforms"][name], platform.limits) for name, platform in sku.platforms.items()]
    for table, limits in ((content, sku.limits), *platforms):
        for metric, limit in table.get("limits", {}).items():
            if limit.get("floor") == "derived":
                limit["floor"] = limits[metric].floor
    document = {key: content[key] for key in (*FIRST, *content) if key in content}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)


class _Dumper(yaml.SafeDumper):
    """Writes every value where it belongs: a reader of one limit need not look up an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of the base class
        return True
