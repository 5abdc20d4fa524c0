"""Contracts: threshold files of one SKU on one platform, with their hash and their level in the first line. Pure.

    # sha256: 2174...5ff8  contract of h100-sxm on hgx8 at standard

The hash is the SHA-256 of everything behind it: `tail -c +77 contract.yaml | sha256sum` prints it, too.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import yaml

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku import Contract, Platform, Sku
from pytest_accel.core.untrusted import BadFile, ErrorAt
from pytest_accel.core.yaml_nodes import Located, items_of

BEGINS = b"# sha256:"
FIRST_LINE = re.compile(
    rb"# sha256: (?P<sha256>[0-9a-f]{64})  contract of (?P<sku>.+) on (?P<platform>.+) at (?P<level>\w+)\n"
)
BEHIND = 76
"""Number of bytes up to the end of the hash and the two spaces behind it."""
SHOWN = 12
"""Digits of a hash that messages show."""


def hash_of(behind: bytes) -> str:
    """Return the hash of a contract, in hexadecimal. `behind` is what follows it and two spaces in the file."""
    return hashlib.sha256(behind).hexdigest()


def terms_of(raw: bytes, root: Located) -> Contract | None:
    """Return the terms of a contract, None for any other threshold file. Raises BadFile for one that was changed."""
    if not raw.startswith(BEGINS):
        return None

    def changed(why: str, key: str = "sha256", line: int = 1) -> BadFile:
        return BadFile(ErrorAt(root.file, line, f"{key}: {why}; ask for the original, or freeze a new one"))

    stated = FIRST_LINE.match(raw)
    if stated is None:
        raise changed("the first line of a contract is not complete")
    terms = Contract(**{key: value.decode() for key, value in stated.groupdict().items()})
    if terms.sha256 != (found := hash_of(raw[BEHIND:])):
        states = f"it states {terms.sha256[:SHOWN]}..., its content has {found[:SHOWN]}..."
        raise changed(f"the file was changed after it was frozen: {states}")
    if "extends" in root.data:
        raise changed("a contract holds every limit and extends nothing", "extends", root.data["extends"].line)
    platforms = [name for name, _ in items_of(root.data.get("platforms"))]
    if platforms != [terms.platform] or terms.level not in LEVELS:
        of = f"platform {', '.join(platforms)}; the levels are {', '.join(LEVELS)}"
        raise changed(f"it is for {terms.platform} at {terms.level}, but the file has {of}")
    return terms


def frozen(sku: Sku, root: Located, platform: Platform, level: str, by: str) -> tuple[str, Contract]:
    """Return the text of the contract on a SKU, and its terms.

    `root` has the merged contents of the SKU's files, `by` names who freezes it. Derived floors become numbers.
    """
    content = root.plain()
    there = content["platforms"]
    here = there[platform.name if platform.name in there else platform.name.rstrip("0123456789")]
    if platform.devices:
        here["devices"] = platform.devices
    for table, limits in ((content, sku.limits), (here, platform.limits)):
        for metric, limit in table.get("limits", {}).items():
            if limit.get("floor") == "derived":
                limit["floor"] = limits[metric].floor
    first = {key: content.pop(key) for key in ("sku", "title", "vendor") if key in content}
    content.pop("extends", None)
    whole = {**first, **content, "platforms": {platform.name: here}}
    text = yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)
    terms = f"contract of {sku.name} on {platform.name} at {level}\n"
    behind = f"{terms}# Frozen by {by}. Judge by it: pytest --accel-sku=THIS_FILE\n{text}"
    sha256 = hash_of(behind.encode())
    return f"# sha256: {sha256}  {behind}", Contract(sha256, sku.name, platform.name, level)


class _Dumper(yaml.SafeDumper):
    """Writes every value where it belongs: a reader of one limit need not look up an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of the base class
        return True
