"""Checks the values of a probe's conditions before anything is measured. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pytest_accel.core.sku_types import MATMUL_DTYPES
from pytest_accel.probes.declare import Declaration


def wrong_values(declaration: Declaration, conditions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each condition whose value a packaged probe cannot use, and why.

    Numbers of a packaged probe are sides, counts and sizes: whole numbers above zero. A name has to be one of the
    variants; that a variant exists and a probe or a device does not support it is found when it is measured. A user's
    probe checks its conditions itself.
    """
    if not declaration.packaged or declaration.fact:
        return
    types = _types(declaration.function)
    for name, value in conditions.items():
        if name in types and (reason := _wrong(value, types[name]) or _unknown(declaration, name, value)):
            yield name, reason


@cache
def _types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each parameter."""
    return get_type_hints(function)


def _wrong(value: Any, kind: Any) -> str | None:
    """Return why a value is not of a type that probes annotate conditions with, or None."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        return _wrong(value, next(member for member in inner if member is not NoneType))
    if kind is int:
        valid = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return None if valid else f"expected a whole number above zero, found {value!r}"
    if kind is str:
        return None if isinstance(value, str) else f"expected a name, found {value!r}"
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return f"expected a mapping, found {value!r}"
        return next((reason for item in value.values() if (reason := _wrong(item, inner[1]))), None)
    if origin is Sequence:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return f"expected a list, found {value!r}"
        if inner[0] is int and len(value) != 3:
            return f"expected a shape of three sides (m, n, k), found {value!r}"
        return next((reason for item in value if (reason := _wrong(item, inner[0]))), None)
    return None


def _unknown(declaration: Declaration, name: str, value: Any) -> str | None:
    """Return why a value is no name that is known for a condition, or None."""
    variants = declaration.variants.get(name, ())
    if isinstance(variants, re.Pattern):
        return None if variants.fullmatch(value) else f"{value!r} is not known: expected a size such as 8GiB"
    from pytest_accel.core.yaml_nodes import nearest  # imports yaml, which takes long

    names = [*variants, *(dtype for dtype in MATMUL_DTYPES if name == "dtype" and dtype not in variants)]
    return f"{value!r} is not known; {nearest(value, names)}" if names and value not in names else None
