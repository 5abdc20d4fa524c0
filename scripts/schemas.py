"""Write the JSON Schemas of threshold files and records: scripts/schemas.py, in an environment that has the package.

The schema of a threshold file is the one that the loader's checks state, that of a record follows from the type hints
of the classes that are written.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union

import yaml

import pytest_accel
from pytest_accel.core import yaml_nodes
from pytest_accel.core.measurement import NOT_IN_FILE
from pytest_accel.core.reasons import NOTES, Note, Reason
from pytest_accel.core.run import Run
from pytest_accel.core.structured import NO_NUMBERS
from pytest_accel.core.yaml_nodes import Schema
from pytest_accel.skus import loader
from pytest_accel.skus.schema import SKU, WHOLE

ROOMS = Path(pytest_accel.__file__).parent
FILES = {
    "thresholds": ROOMS / "skus" / "threshold-file.schema.json",
    "record": ROOMS / "run" / "record.schema.json",
}
"""The shipped schemas by the file that they describe."""
KEYS = Path(__file__).with_name("threshold_keys.yaml")
"""The description of every key of a threshold file."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCALARS = {int: "integer", str: "string", bool: "boolean", type(None): "null"}
NUMBER = {"anyOf": [{"type": "number"}, {"enum": list(NO_NUMBERS)}], "description": "JSON has no NaN and no infinities"}


# -- the threshold file


def thresholds() -> Schema:
    """Return the schema of a threshold file.

    A file may leave out what a file below it states: the one that it extends, or else that of its vendor. The file of a
    vendor names no SKU.
    """
    definitions: dict[str, Schema] = {}
    of_a_sku = {"anyOf": [{"required": ["sku"]}, {"required": ["platforms"]}]}
    demanded = demands(SKU.schema)
    demanded["properties"]["limits"]["properties"] = {metric: {} for metric in metrics_of_vendors()}
    of_base = {"if": of_a_sku, "then": demanded, "else": {"required": ["vendor"]}}
    schema = {
        "$schema": DIALECT,
        "title": "pytest_accel threshold file",
        "description": "How an accelerator product is recognised, its datasheet, its limits and its platforms.",
        **shared(without_demands(SKU.schema), definitions),
        "if": {"required": ["extends"]},
        "else": of_base,
        "$defs": definitions,
    }
    for key, description in yaml.safe_load(KEYS.read_text(encoding="utf-8")).items():
        part(schema, key)["description"] = description
    return schema


def part(schema: Schema, key: str) -> Schema:
    """Return the schema of a key: "match names", "spread * runs" for any name, "explained [] rule", "$limit floor"."""
    for name in key.split():
        if name in ("*", "[]"):
            schema = schema["additionalProperties" if name == "*" else "items"]
        else:
            schema = schema["$defs"][name[1:]] if name.startswith("$") else schema["properties"][name]
    return schema


def metrics_of_vendors() -> list[str]:
    """Return the metrics that have a limit in the file of a vendor."""
    folder = loader.SHIPPED / loader.VENDOR_FILES
    roots = [yaml_nodes.read(path, path.name)[0] for path in sorted(folder.glob("*.yaml"))]
    return sorted({metric for root in roots for metric in root.plain().get("limits", {})})


def without_demands(schema: Schema) -> Schema:
    """Return the schema without the keys that it requires, where another file below may have them."""
    reduced = {keyword: value for keyword, value in schema.items() if keyword != "required"}
    if "properties" in schema:
        reduced["properties"] = {
            key: value if key in WHOLE else without_demands(value) for key, value in schema["properties"].items()
        }
    if isinstance(schema.get("additionalProperties"), dict):
        reduced["additionalProperties"] = without_demands(schema["additionalProperties"])
    return reduced


def demands(schema: Schema) -> Schema:
    """Return the required keys of a schema alone, which `without_demands` leaves out."""
    demanded: Schema = {"required": schema["required"]} if "required" in schema else {}
    inner = {key: demands(value) for key, value in schema.get("properties", {}).items() if key not in WHOLE}
    if any(inner.values()):
        demanded["properties"] = {key: value for key, value in inner.items() if value}
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and (of_rest := demands(others)):
        demanded["additionalProperties"] = of_rest
    return demanded


def shared(schema: Any, definitions: dict[str, Schema]) -> Any:
    """Return the schema with a reference in place of every part that has a title; the parts go into `definitions`."""
    if isinstance(schema, list):
        return [shared(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {keyword: shared(value, definitions) for keyword, value in schema.items()}
    title = inner.get("title")
    if not isinstance(title, str):  # a key of a file that is called so has a schema
        return inner
    description = {"description": inner.pop("description")} if "description" in inner else {}
    definitions[inner.pop("title")] = inner
    return {"$ref": f"#/$defs/{title}", **description}


# -- the record


def record() -> Schema:
    """Return the schema of a record. Keys that have a default are not required: some are left out."""
    definitions: dict[str, Schema] = {"number": NUMBER}
    of_hint(Run, definitions)
    _limits_by_position(definitions)
    return {
        "$schema": DIALECT,
        "title": "pytest_accel record",
        **definitions.pop("Run"),
        "$defs": dict(sorted(definitions.items())),
    }


def _limits_by_position(definitions: dict[str, Schema]) -> None:
    """Hold the limits in a list of the record, to which the verdicts refer, as `record.content` writes them."""
    text = "Every limit of the verdicts, once."
    definitions["Run"]["properties"]["limits"] = {
        "type": "array",
        "items": {"$ref": "#/$defs/Limit"},
        "description": text,
    }
    definitions["Verdict"]["properties"]["limit"] = {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
        "description": "The index of the limit in `limits` of the record, from 0; null for a value without one.",
    }
    definitions["Run"]["required"] = ["info", "limits"]


def of_hint(hint: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of the data that a type hint stands for; classes go into `definitions`."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint is float:
        return {"$ref": "#/$defs/number"}
    if hint is date:
        return {"type": "string", "format": "date"}
    if kind in (Union, types.UnionType):
        return {"anyOf": [of_hint(kind, definitions) for kind in inner]}
    if kind is Literal:
        return {"enum": list(inner)}
    if kind in (dict, Mapping):
        return {"type": "object", "additionalProperties": of_hint(inner[1], definitions)}
    if kind in (list, tuple, Sequence):
        return _of_items(inner, definitions)
    if hint is Reason:
        return {"anyOf": [of_hint(reason, definitions) for reason in Reason.__subclasses__()]}
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        return _of_class(hint, definitions)
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    return {"type": SCALARS[hint]}


def _of_items(inner: tuple[Any, ...], definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a list; a tuple of so many items has so many."""
    if len(inner) > 1 and inner[-1] is not Ellipsis:
        places = [of_hint(item, definitions) for item in inner]
        return {"type": "array", "prefixItems": places, "items": False, "minItems": len(places)}
    return {"type": "array", "items": of_hint(inner[0], definitions)}


def _of_class(hint: Any, definitions: dict[str, Schema]) -> Schema:
    """Return a reference to the schema of a dataclass or a TypedDict, with its docstrings as descriptions."""
    name = hint.__name__
    if name not in definitions:
        definitions[name] = {}  # where a class refers to itself
        elsewhere = [
            field.name for field in getattr(hint, "__dataclass_fields__", {}).values() if field.metadata == NOT_IN_FILE
        ]
        texts, hints = documented(hint), typing.get_type_hints(hint)
        if issubclass(hint, Reason):
            del hints["kind"]  # which every such class has, so that it comes last
            hints["kind"] = Literal[tuple(NOTES)] if hint is Note else Literal[hint.kind]
        definitions[name] = {
            "description": texts[""],
            "type": "object",
            "properties": {
                key: {**of_hint(value, definitions), **({"description": texts[key]} if key in texts else {})}
                for key, value in hints.items()
                if key not in elsewhere
            },
            "required": required(hint),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def required(hint: Any) -> list[str]:
    """Return the keys of a dataclass or a TypedDict that have no default."""
    if typing.is_typeddict(hint):
        return sorted(hint.__required_keys__)
    return [
        field.name
        for field in dataclasses.fields(hint)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]


def documented(cls: type) -> dict[str, str]:
    """Return the docstring of a class under "" and those of its attributes under their names, each on one line."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    texts = {"": ast.get_docstring(tree) or ""}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[ast.unparse(before.target)] = str(after.value.value)
    return {name: " ".join(text.split()) for name, text in texts.items()}


def written() -> dict[Path, str]:
    """Return the text of every shipped schema by its path."""
    schemas = {"thresholds": thresholds(), "record": record()}
    return {path: json.dumps(schemas[name], indent=1) + "\n" for name, path in FILES.items()}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(path)
