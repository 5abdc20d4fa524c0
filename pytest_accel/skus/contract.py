"""Frozen threshold files: every limit of one SKU on one platform at one level, in one file with one hash. Pure.

The hash is the SHA-256 of the file's content as JSON with sorted keys and without spaces, without the hash itself.
Layout, comments and the order of keys do not change it; any change of a value does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import yaml

from pytest_accel.core.method import differences
from pytest_accel.core.sku import ClassFloor, Contract, Datasheet, DeclaredBy, Limit, Platform, Sku, Source, Spread
from pytest_accel.core.yaml_nodes import BadFile, Findings, Located
from pytest_accel.skus import requirements
from pytest_accel.skus.checks import items_of, limit_nodes
from pytest_accel.skus.methods import method_of

SHOWN = 12
"""Digits of a hash that messages show."""
IMPLIED = "pytest_accel"
"""Who states a limit that the suite itself requires, such as the number of devices: it has no source in the SKU."""

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
    stated, found = dict(items_of(at)).get("sha256"), seal(root.plain())
    if stated is None or not isinstance(stated.data, str):
        raise BadFile(f"{at.where}: contract: sha256 is missing; ask for the original, or freeze a new one")
    if stated.data != found:
        raise BadFile(
            f"{stated.where}: contract.sha256: the file was changed after it was frozen: it states sha256 "
            f"{stated.data[:SHOWN]}..., its content has {found[:SHOWN]}...; ask for the original, or freeze a new one"
        )


def check_frozen_keys(root: Located, findings: Findings) -> None:
    """Find `frozen` in a file that is not, and a contract on another platform than the one of the file."""
    places = [*limit_nodes(root), *((f"spread.{key}", at) for key, at in items_of(root.data.get("spread")))]
    at = root.data.get("contract")
    for key, each in places if at is None else ():
        if "frozen" in each.data:
            findings.add(each.data["frozen"], f"{key}.frozen: only a file with `contract` has this key; delete it")
    if at is not None and list(root.data["platforms"].data) != [at.data["platform"].data]:
        names = ", ".join(root.data["platforms"].data)
        findings.add(at, f"contract.platform: is {at.data['platform'].data}, but the file has {names or 'none'}")


def thawed(
    limit: Limit, frozen: Mapping[str, Any], terms: Contract | None, probes: Mapping[str, Mapping[str, Any]]
) -> Limit:
    """Return a limit of a frozen file as it was when it was frozen; one of another file (`terms` is None) as it is.

    Where the probe of the installed suite measures otherwise than the suite that froze it, the limit only advises.
    """
    if terms is None:
        return limit
    limit = replace(
        limit,
        of_reference=frozen.get("of_reference"),
        overridden=frozen.get("overridden", False),
        same_on_all=limit.same_on_all or frozen.get("same_on_all", False),
    )
    if "class_floor" in frozen:
        limit = replace(limit, beneath=ClassFloor(**frozen["class_floor"]))
    if "declared_by" in frozen:
        limit = replace(limit, declared_by=DeclaredBy(frozen["declared_by"]))
    if limit.declared_by is DeclaredBy.CLASS:
        limit = replace(limit, differs=())  # its figures are those of a class, whoever measured them
    if frozen.get("no_source"):
        limit = replace(limit, source=None)
    then = frozen.get("method")
    if not then or limit.only_warns:
        return limit
    moved = differences(method_of(limit.metric, probes), then)
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
    sku: Sku, platform: Platform, level: str, *, suite: str, thresholds: str, date: str, explained: Any = None
) -> tuple[str, str]:
    """Return the text of the frozen file, which is YAML, and its hash.

    `suite` and `thresholds` are versions, `date` is in ISO format, `explained` is the plain list of the SKU's file.
    """
    content = _content(sku, platform, level, date)
    if explained:
        content["explained"] = explained
    terms = {
        "platform": platform.name,
        "level": level,
        "suite": suite,
        "thresholds": thresholds,
        "date": date,
        "left_out": list(sku.left_out),
        "other_datasheet": list(sku.other_datasheet),
    }
    whole = {"contract": _filled(terms), **content}
    sha256 = seal(whole)
    whole["contract"] = {"sha256": sha256, **whole["contract"]}
    text = yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)
    return HEAD + text, sha256


class _Dumper(yaml.SafeDumper):
    """Writes every value where it belongs: a reader of one limit need not look up an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of the base class
        return True


def _content(sku: Sku, platform: Platform, level: str, date: str) -> dict[str, Any]:
    """Return everything but the terms: what the loader resolved, without what other platforms and levels need."""
    effective = requirements.limits(sku, platform, platform.devices or 0)
    if platform.devices is None:
        del effective["inventory.count"]  # any number is right
    effective = requirements.required_at(level, effective)
    common = {metric for metric in sku.limits if metric in effective and metric not in platform.limits}
    made = {metric: _limit(limit, sku.probes, date) for metric, limit in effective.items()}
    budgets = {level: dict(sku.budgets[level])} if sku.budgets.get(level) else {}
    return _filled(
        {
            "sku": sku.name,
            "title": sku.title,
            "vendor": sku.vendor,
            "architecture": sku.architecture,
            "match": _plain(sku.match),
            "datasheet": _datasheet(sku.datasheet),
            "precision": sku.precision,
            "spread": {key: _spread(each) for key, each in sku.spread.items()},
            "probes": _plain(sku.probes),
            "budgets": budgets,
            "not_applicable": dict(sku.not_applicable),
        }
    ) | {
        "limits": {metric: each for metric, each in made.items() if metric in common},
        "platforms": {
            platform.name: {
                **_platform(platform),
                "limits": {metric: each for metric, each in made.items() if metric not in common},
            }
        },
    }


def _limit(limit: Limit, probes: Mapping[str, Mapping[str, Any]], date: str) -> dict[str, Any]:
    """Return a limit as a mapping of a threshold file."""
    keys = ("floor", "ceiling", "warn", "equals", "one_of", "version", "same_on_all", "reference", "healthy")
    figures = _filled({key: _plain(getattr(limit, key)) for key in keys})
    both = limit.same_on_all and limit.floor is not None  # what follows from the datasheet, and the same on all
    source = limit.source or Source("derived", IMPLIED, date, conditions=f"required by the suite: {limit.origin}")
    come_from = {
        "declared_by": limit.declared_by.value,
        "at": limit.origin,
        "of_reference": limit.of_reference,
        "overridden": limit.overridden,
        "same_on_all": both,
        "no_source": limit.source is None,
        "method": _plain(method_of(limit.metric, probes)),
        "class_floor": _filled(_plain(vars(limit.beneath))) if limit.beneath else {},
    }
    return {
        **{key: value for key, value in figures.items() if key != "same_on_all" or not both},
        "unit": limit.unit,
        "severity": limit.severity,
        **({"if_supported": True} if limit.if_supported else {}),
        **({"advises": limit.why_advises} if limit.why_advises else {}),
        "levels": list(limit.levels),
        **_plain(limit.conditions),
        **({"software": dict(limit.software)} if limit.software else {}),
        "source": _source(source),
        "frozen": _filled(come_from),
    }


def _platform(platform: Platform) -> dict[str, Any]:
    left = ("name", "limits", "overridden", "source")
    stated = {each.name: _plain(getattr(platform, each.name)) for each in fields(platform) if each.name not in left}
    return _filled({**stated, "source": _source(platform.source)})


def _datasheet(datasheet: Datasheet) -> dict[str, Any]:
    left = ("source", "sources", "overridden")
    stated = {each.name: _plain(getattr(datasheet, each.name)) for each in fields(datasheet) if each.name not in left}
    sources = {key: _source(each) for key, each in datasheet.sources.items()}
    return _filled({**stated, "source": _source(datasheet.source), "sources": sources})


def _spread(spread: Spread) -> dict[str, Any]:
    keys = ("between_devices", "between_nodes", "at_clock", "between_runs", "runs")
    stated = {key: getattr(spread, key) for key in keys}
    come_from = {"declared_by": spread.declared_by.value}
    return _filled({**stated, "source": _source(spread.source), "frozen": come_from})


def _source(source: Source | None) -> dict[str, Any]:
    return _filled({each.name: _plain(getattr(source, each.name)) for each in fields(source)}) if source else {}


def _filled(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a mapping that say something."""
    return {key: value for key, value in mapping.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def _plain(value: Any) -> Any:
    """Return a value without the types that YAML has no word for."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
