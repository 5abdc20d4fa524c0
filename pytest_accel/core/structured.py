"""Turns data of JSON into our classes and back. It refuses what does not fit, and names its key in the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from itertools import repeat
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, is_typeddict

from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.gen.typeddicts import make_dict_structure_fn as make_typed_dict_structure_fn

from pytest_accel.core import details
from pytest_accel.core.measurement import NOT_IN_FILE, Measurement
from pytest_accel.core.reasons import BY_KIND, Note, Reason
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Closing, Verdict

T = TypeVar("T")

NO_NUMBERS: Final = ("nan", "inf", "-inf")
"""Values that JSON has no number for; our files hold them as text."""
SPARSE: Final = (Closing, Verdict, Measurement, Limit, *BY_KIND.values())
"""Classes of which a record holds hundreds. Fields with their default value are left out of its file."""
_SCALARS: Final = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}


class Misfit(ValueError):
    """Data that does not fit its class; the text names the key and the value."""


def structure(kind: type[T], raw: Any, location: str = "") -> T:
    """Return data of JSON as an object of a dataclass. Raises Misfit, which names the key below `location`.

    An unknown key is an error as well, since it may be one that changes what the others mean.
    """
    try:
        return _FAST.structure(raw, kind)
    except (AttributeError, KeyError, TypeError, ValueError, BaseValidationError, ForbiddenExtraKeysError):
        pass  # the slower converter names the key of what does not fit
    try:
        return _CONVERTER.structure(raw, kind)
    except BaseValidationError as error:
        raise Misfit(_first(error, location)) from None
    except Misfit as misfit:
        raise Misfit(f"{location or 'the whole file'} {misfit}") from None


def plain(value: Any) -> Any:
    """Return a value in types of JSON. NaN and infinities become text, since JSON has no number for them."""
    return _CONVERTER.unstructure(value)


def _first(error: BaseException, location: str) -> str:
    """Return the first misfit of a tree of errors, with the keys and indices that lead to it."""
    while isinstance(error, BaseValidationError):
        # an unknown key before a missing one: it may be that one, misspelt
        error = min(error.exceptions, key=lambda cause: not isinstance(cause, ForbiddenExtraKeysError))
        kinds = AttributeValidationNote | IterableValidationNote
        note = next((note for note in getattr(error, "__notes__", ()) if isinstance(note, kinds)), None)
        if isinstance(note, IterableValidationNote):
            location += f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
        elif isinstance(note, AttributeValidationNote):
            location += f".{note.name}"
    location = location.removeprefix(".")
    if isinstance(error, ForbiddenExtraKeysError):
        return f"{location}.{min(error.extra_fields)} is not known".removeprefix(".")
    return f"{location} is missing" if isinstance(error, KeyError) else f"{location or 'the whole file'} {error}"


def lines(data: Mapping[str, Any]) -> str:
    """Return data of JSON as the text of a file: a line for each key, and for each item of a list."""

    def text(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return json.dumps(value)
        return "[\n" + ",\n".join(f" {json.dumps(item, separators=(',', ': '))}" for item in value) + "\n]"

    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text(value)}" for key, value in data.items()) + "\n}\n"


def short(raw: Any) -> str:
    """Return a value as JSON, cut off after 40 characters."""
    text = json.dumps(raw)
    return text if len(text) <= 40 else f"{text[:40]}..."


# -- the hooks of the converter


def _scalar(raw: Any, hint: type) -> Any:
    """Return a number, a text or a truth value; a member of an enumeration that is a text as well."""
    if type(raw) is hint:
        return raw
    if issubclass(hint, Enum):
        return _member(raw, hint)
    if hint is float and raw in NO_NUMBERS:
        return float(raw)
    fits = isinstance(raw, (int, float) if hint is float else hint) and (hint is bool or not isinstance(raw, bool))
    if not fits:
        raise Misfit(f"is {short(raw)}, not {_SCALARS[hint]}")
    return raw


def _day(raw: Any, _: type[date]) -> date:
    try:
        return date.fromisoformat(raw)
    except (TypeError, ValueError):
        raise Misfit(f"is {short(raw)}, not a date such as 2026-12-31") from None


@cache
def _members(hint: type[Enum]) -> dict[Any, Enum]:
    return {member.value: member for member in hint}


def _member(raw: Any, hint: type[Enum]) -> Enum:
    members = _members(hint)
    return members[raw if isinstance(raw, str) and raw in members else _choice(raw, list(members))]


def _choice(raw: Any, choices: Sequence[Any]) -> Any:
    if raw not in choices or isinstance(raw, bool) != isinstance(choices[0], bool):
        raise Misfit(f"is {short(raw)}, not one of {', '.join(map(str, choices))}")
    return raw


def _demand(kind: type, raw: Any) -> None:
    if not isinstance(raw, kind):
        raise Misfit(f"is {short(raw)}, not a {'mapping' if kind is dict else 'list'}")


def _as_it_is(hint: Any) -> set[type]:
    """Return the types of JSON whose values need no conversion to a hint; none where a value has to be looked at.

    Lists of samples are long, and are looked through at once.
    """
    if get_origin(hint) in (Union, UnionType):
        kinds = set().union(*map(_as_it_is, get_args(hint)))
        return kinds - {str} if float in kinds else kinds  # a text may be a number that JSON has none for
    if hint in (None, NoneType):
        return {NoneType}
    return {float, int} if hint is float else {hint} if hint in _SCALARS else set()


def _of_class(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Return the hook that makes an object of a dataclass or of a TypedDict."""
    if isinstance(hint, type) and is_dataclass(hint):
        omitted: Any = {field.name: override(omit=True) for field in fields(hint) if field.metadata == NOT_IN_FILE}
        inner: Any = make_dict_structure_fn(hint, converter, _cattrs_forbid_extra_keys=True, **omitted)
    else:
        # the details of a measurement may have keys of a user's probe: nothing is judged by those
        forbids = hint.__module__ != details.__name__
        inner = make_typed_dict_structure_fn(hint, converter, _cattrs_forbid_extra_keys=forbids)

    def of_class(raw: Any, kind: Any) -> Any:
        if type(raw) is hint:  # a part that several parts share, made before
            return raw
        _demand(dict, raw)
        return inner(raw, kind)

    return of_class


def _of_union(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Return the hook that makes a value of the first type of a union that it fits."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    hooks = [(kind, converter.get_structure_hook(kind)) for kind in kinds]
    as_it_is, has_text = _as_it_is(hint), str in kinds

    def of_union(raw: Any, _: Any) -> Any:
        if type(raw) in as_it_is or (has_text and type(raw) is str and raw not in NO_NUMBERS):
            return raw
        for kind, hook in hooks[:-1]:
            try:
                return hook(raw, kind)
            except (BaseValidationError, ForbiddenExtraKeysError, KeyError, Misfit):
                continue
        kind, hook = hooks[-1]
        return hook(raw, kind)

    return of_union


def _reason(raw: Any, _: Any) -> Any:
    """Return a reason of a verdict, whose `kind` names its class."""
    _demand(dict, raw)
    kind = _placed("kind", lambda value, _: _choice(value, list(BY_KIND)), str, raw.get("kind"))
    figures = raw if BY_KIND[kind] is Note else {key: value for key, value in raw.items() if key != "kind"}
    return _CONVERTER.structure(figures, BY_KIND[kind])


def _of_list(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Return the hook that makes a list or a tuple; a tuple of so many types has so many items."""
    origin, inner = get_origin(hint), get_args(hint)
    kind: Any = tuple if origin is tuple else list
    length = len(inner) if origin is tuple and inner[-1] is not Ellipsis else None
    hooks = [converter.get_structure_hook(item_hint) for item_hint in inner if item_hint is not Ellipsis]
    as_it_is = _as_it_is(inner[0])

    def of_list(raw: Any, _: Any) -> Any:
        _demand(list, raw)
        if length is None and set(map(type, raw)) <= as_it_is:
            return kind(raw)
        if length not in (None, len(raw)):
            raise Misfit(f"has {len(raw)} items, not {length}")
        if length is None and not converter.detailed_validation:
            hook, item_hint = hooks[0], inner[0]
            return kind([hook(item, item_hint) for item in raw])
        specs = zip(hooks, inner, strict=True) if length else repeat((hooks[0], inner[0]))
        return kind([_placed(index, *spec, item) for index, (item, spec) in enumerate(zip(raw, specs, strict=False))])

    return of_list


def _of_mapping(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Return the hook that makes a mapping whose keys are texts."""
    value_hint = get_args(hint)[1]
    hook, as_it_is = converter.get_structure_hook(value_hint), _as_it_is(value_hint)

    def of_mapping(raw: Any, _: Any) -> Any:
        _demand(dict, raw)
        if value_hint is Any or set(map(type, raw.values())) <= as_it_is:
            return raw
        if not converter.detailed_validation:
            return {key: hook(value, value_hint) for key, value in raw.items()}
        return {key: _placed(key, hook, value_hint, value) for key, value in raw.items()}

    return of_mapping


def _placed(key: int | str, hook: Callable[[Any, Any], Any], hint: Any, raw: Any) -> Any:
    """Return an item of a list or a mapping; an error in it is raised with its key or index."""
    try:
        return hook(raw, hint)
    except (BaseValidationError, Misfit) as error:
        # a note as cattrs itself would leave it, which `_first` reads
        error.__notes__ = [*getattr(error, "__notes__", ()), IterableValidationNote("", key, hint)]  # type: ignore[union-attr]
        raise IterableValidationError("", [error], hint) from None


def _to_data(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    """Return the hook that makes data of an object."""
    special: Any = {field.name: override(omit=True) for field in fields(kind) if field.metadata == NOT_IN_FILE}
    inner = make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=kind in SPARSE, **special)
    return (
        (lambda value: {**inner(value), "kind": kind.kind}) if issubclass(kind, Reason) and kind is not Note else inner
    )


def _or_text(value: Any) -> Any:
    """Return a value of no class of ours as text, unless it is of a type of JSON."""
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _is(*origins: Any) -> Callable[[Any], bool]:
    return lambda hint: get_origin(hint) in origins


def _converter(*, detailed: bool) -> Converter:
    converter: Any = Converter(
        unstruct_collection_overrides={Sequence: list, tuple: list},
        unstructure_fallback_factory=lambda _: _or_text,
        detailed_validation=detailed,
    )
    for scalar in _SCALARS:
        converter.register_structure_hook(scalar, _scalar)
    converter.register_structure_hook(date, _day)
    converter.register_structure_hook_func(lambda hint: isinstance(hint, type) and issubclass(hint, Enum), _member)
    converter.register_structure_hook_func(_is(Literal), lambda raw, hint: _choice(raw, get_args(hint)))
    converter.register_structure_hook_factory(lambda hint: is_dataclass(hint) or is_typeddict(hint), _of_class)
    converter.register_structure_hook_factory(_is(Union, UnionType), _of_union)
    converter.register_structure_hook_func(lambda hint: hint == Reason, _reason)
    converter.register_structure_hook_factory(_is(list, tuple, Sequence), _of_list)
    converter.register_structure_hook_factory(_is(dict, Mapping), _of_mapping)
    converter.register_unstructure_hook(float, lambda value: value if math.isfinite(value) else str(value))
    converter.register_unstructure_hook(date, date.isoformat)
    converter.register_unstructure_hook_func(
        lambda hint: hint in (dict, MappingProxyType) or _is(dict, Mapping)(hint),
        lambda value: {str(key): converter.unstructure(item) for key, item in value.items()},
    )
    converter.register_unstructure_hook_func(
        lambda hint: hint is Reason, lambda reason: converter.unstructure(reason, type(reason))
    )
    converter.register_unstructure_hook_factory(is_dataclass, _to_data)
    return cast("Converter", converter)


_CONVERTER: Final = _converter(detailed=True)
_FAST: Final = _converter(detailed=False)
"""The converter without the keys of errors, which takes two thirds of the time."""
