"""Frozen threshold files: every limit of one SKU on one platform at one level, in one file with one hash. Pure.

Such a file holds the SKU as the loader resolved it, so that reading it merges, derives and implies nothing. The hash is
the SHA-256 of the file's content as JSON with sorted keys and without spaces, without the hash itself. Layout, comments
and the order of keys do not change it; any change of a value does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import yaml

from pytest_accel.core import structured
from pytest_accel.core.method import differences
from pytest_accel.core.sku import Contract, Limit, Platform, Sku
from pytest_accel.core.yaml_nodes import BadFile, Located, items_of
from pytest_accel.skus import requirements
from pytest_accel.skus.checks import limit_nodes
from pytest_accel.skus.methods import method_of

SHOWN = 12
"""Digits of a hash that messages show."""

HEAD = """\
# Frozen by `pytest-accel sku freeze`: everything that a node is judged by. Judge by it: pytest --accel-sku=THIS_FILE
# Comments and layout may change. A changed value does not fit `contract.sha256`, and the file is refused.
"""

# -- reading


def seal(content: Mapping[str, Any]) -> str:
    """Return the hash of the plain content of a frozen file, in hexadecimal; a hash that it states does not count."""
    terms = content.get("contract")
    bare = {**content, "contract": {key: each for key, each in terms.items() if key != "sha256"}} if terms else content
    text = json.dumps(_canonical(bare), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    """Return a value so that 8 and 8.0, and a date with and without quotes, are the same."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def check(root: Located, *, below_another: bool) -> None:
    """Raise BadFile for a frozen file that extends another, that another extends, or that was changed.

    A file without `contract` passes.
    """
    at = root.data.get("contract")
    if at is None:
        return
    if below_another:
        raise BadFile(f"{at.where}: contract: a frozen file cannot be extended; extend the file that it was made from")
    if "extends" in root.data:
        why = "extends: a frozen file holds every limit and extends nothing; delete the key, or `contract`"
        raise BadFile(f"{root.data['extends'].where}: {why}")
    stated = dict(items_of(at)).get("sha256")
    if stated is None or not isinstance(stated.data, str):
        raise BadFile(f"{at.where}: contract: sha256 is missing; ask for the original, or freeze a new one")
    if stated.data != (found := seal(root.plain())):
        raise BadFile(
            f"{stated.where}: contract.sha256: the file was changed after it was frozen: it states sha256 "
            f"{stated.data[:SHOWN]}..., its content has {found[:SHOWN]}...; ask for the original, or freeze a new one"
        )


def read(root: Located) -> Sku:
    """Return the SKU of a frozen file as it was frozen. Raises BadFile.

    Where the probe of the installed suite measures otherwise than the suite that froze the file, a limit only advises.
    """
    content = _canonical(root.plain())
    content.pop("explained", None)
    try:
        terms = structured.structure(Contract, content.pop("contract"), "contract")
        sku = structured.structure(Sku, content)
    except structured.Misfit as misfit:
        raise BadFile(f"{root.where}: {misfit}") from None
    if list(sku.platforms) != [terms.platform]:
        names = ", ".join(sku.platforms) or "none"
        raise BadFile(
            f"{root.data['contract'].where}: contract.platform: is {terms.platform}, but the file has {names}"
        )

    places = dict(limit_nodes(root))

    def today(limits: Mapping[str, Limit], below: str) -> dict[str, Limit]:
        return {
            metric: _today(replace(limit, origin=places[f"{below}limits.{metric}"].where), sku, terms)
            for metric, limit in limits.items()
        }

    platforms = {
        name: replace(each, limits=today(each.limits, f"platforms.{name}.")) for name, each in sku.platforms.items()
    }
    return replace(
        sku,
        limits=today(sku.limits, ""),
        platforms=platforms,
        contract=terms,
        left_out=tuple(terms.left_out),
        other_datasheet=tuple(terms.other_datasheet),
    )


def _today(limit: Limit, sku: Sku, terms: Contract) -> Limit:
    """Return a limit that only advises if its metric is measured otherwise than when it was frozen."""
    then = terms.methods.get(limit.metric)
    if not then or limit.only_warns:
        return limit
    moved = differences(method_of(limit.metric, sku.probes), then)
    return replace(limit, differs=tuple(dict.fromkeys([*limit.differs, *moved])))


def other_suite(sku: Sku | None, installed: str) -> str | None:
    """Return a sentence if a frozen file was made by another version of the suite than the `installed` one."""
    terms = sku.contract if sku else None
    if terms is None or terms.suite == installed:
        return None
    return f"the contract was frozen by pytest_accel {terms.suite}, and this is {installed}: its probes may differ"


def contradiction(sku: Sku | None, option: str, key: str, given: str | None) -> str | None:
    """Return an error if an option asks for another platform or level (`key`) than the contract of the SKU states."""
    terms = sku.contract if sku else None
    stated = getattr(terms, key) if terms else None
    if terms is None or given in (None, stated):
        return None
    return (
        f"{option}={given} contradicts {sku.own_file if sku else ''}, which is frozen for {key} {stated}; leave it out"
    )


# -- writing


def frozen(
    sku: Sku, platform: Platform, level: str, *, suite: str, date: str, explained: Any = None
) -> tuple[str, str]:
    """Return the text of the frozen file, which is YAML, and its hash.

    `suite` is a version, `date` is in ISO format, `explained` is the plain list of the SKU's file.
    """
    effective = requirements.limits(sku, platform, platform.devices or 0)
    if platform.devices is None:
        del effective["inventory.count"]  # any number is right
    effective = requirements.required_at(level, effective)
    common = {metric: each for metric, each in effective.items() if metric in {*sku.limits} - {*platform.limits}}
    own = {metric: each for metric, each in effective.items() if metric not in common}
    methods = {metric: method for metric in effective if (method := method_of(metric, sku.probes))}
    terms = Contract("", platform.name, level, suite, date, sku.left_out, sku.other_datasheet, methods)
    resolved = replace(
        sku,
        limits=common,
        platforms={platform.name: replace(platform, limits=own, overridden=False)},
        budgets={level: sku.budgets[level]} if sku.budgets.get(level) else {},
        datasheet=replace(sku.datasheet, overridden=frozenset()),
        rematched=False,
        own_file=None,
        files={},
        left_out=(),
        other_datasheet=(),
    )
    content = {**_stated(resolved), **({"explained": explained} if explained else {})}
    sha256 = seal({"contract": _stated(terms), **content})
    whole = {"contract": _stated(replace(terms, sha256=sha256)), **content}
    text = yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)
    return HEAD + text, sha256


class _Dumper(yaml.SafeDumper):
    """Writes every value where it belongs: a reader of one limit need not look up an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of the base class
        return True


def _stated(value: Any) -> Any:
    """Return a value in the types of YAML; of a dataclass the fields that differ from their default."""
    if is_dataclass(value):
        stated = [(each, getattr(value, each.name)) for each in fields(value)]
        return {
            each.name: _stated(found)
            for each, found in stated
            if found != (each.default if each.default_factory is MISSING else each.default_factory())
        }
    if isinstance(value, Mapping):
        return {str(key): _stated(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_stated(each) for each in value]
    return value.value if isinstance(value, Enum) else value
