"""Checks the values of a probe's conditions before anything is measured. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pytest_accel.core.sku import MATMUL_DTYPES
from pytest_accel.probes.declare import Declaration


def wrong_values(declared: Declaration, conditions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each condition whose value a packaged probe cannot use, and why.

    Numbers of a packaged probe are sides, counts and sizes: whole numbers above zero. A name has to be one of the
    variants; that a variant exists and a probe or a device does not support it is found when it is measured. A user's
    probe checks its conditions itself.
    """
    if not declared.packaged or declared.fact:
        return
    types = _types(declared.function)
    for name, value in conditions.items():
        if name in types and (why := _wrong(value, types[name]) or _unknown(declared, name, value)):
            yield name, why


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
        return _wrong(value, next(each for each in inner if each is not NoneType))
    if kind is int:
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return None if whole else f"expected a whole number above zero, found {value!r}"
    if kind is str:
        return None if isinstance(value, str) else f"expected a name, found {value!r}"
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return f"expected a mapping, found {value!r}"
        return next((why for each in value.values() if (why := _wrong(each, inner[1]))), None)
    if origin is Sequence:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return f"expected a list, found {value!r}"
        if inner[0] is int and len(value) != 3:
            return f"expected a shape of three sides (m, n, k), found {value!r}"
        return next((why for each in value if (why := _wrong(each, inner[0]))), None)
    return None


def _unknown(declared: Declaration, name: str, value: Any) -> str | None:
    """Return why a value is no name that is known for a condition, or None."""
    variants = declared.variants.get(name, ())
    if isinstance(variants, re.Pattern):
        return None if variants.fullmatch(value) else f"{value!r} is not known: expected a size such as 8GiB"
    from pytest_accel.core.yaml_nodes import nearest  # imports yaml, which takes long

    known = [*variants, *(each for each in MATMUL_DTYPES if name == "dtype" and each not in variants)]
    return f"{value!r} is not known; {nearest(value, known)}" if known and value not in known else None
