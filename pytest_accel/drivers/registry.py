"""The vendors that are installed: the entry points of the group `pytest_accel_drivers`, ours among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pytest_accel.core.groups import grouped
from pytest_accel.drivers.interface import Driver, Hint, NoDriver
from pytest_accel.drivers.vendor import Vendor

GROUP = "pytest_accel_drivers"

NONE_AT_ALL = {
    "pytest-accel": "no driver is registered, not even one of its own: install pytest-accel again "
    "(in a checkout: pip install -e .)"
}


class BadVendor(Exception):
    """An entry point that declares no usable vendor; the text names the distribution and what is wrong."""


@dataclass(frozen=True)
class Registry:
    """All declared vendors. `problems` has a sentence for each name whose declaration cannot be used."""

    vendors: Mapping[str, Vendor]
    problems: Mapping[str, str]


@cache
def registered() -> Registry:
    """Return the vendors of this environment. The entry points are read once in a process, at the first call."""
    return read(entry_points(group=GROUP))


def vendor(name: str) -> Vendor:
    """Return the vendor of this name; for one that nobody declares, an accelerator that cannot be opened."""
    registry = registered()
    unusable = registry.problems.get(name, f"no installed package declares a vendor {name} in the entry points {GROUP}")
    return registry.vendors.get(name) or _unusable(name, unusable)


def read(entries: Iterable[EntryPoint]) -> Registry:
    """Load the vendors of entry points. One that is broken costs only itself."""
    groups = grouped(entries, lambda entry: entry.name)
    vendors, problems = {}, {}
    for name, group in groups.items():
        try:
            vendors[name] = _load(group)
        except BadVendor as bad:
            problems[name] = str(bad)
    return Registry(vendors, problems if groups else NONE_AT_ALL)


def _load(entries: Sequence[EntryPoint]) -> Vendor:
    """Return the vendor that the one entry point of a name declares. Raises BadVendor."""
    entry, *duplicates = entries
    if duplicates:
        declaring = " and ".join(sorted(map(_distribution, entries)))
        raise BadVendor(f"{declaring} both declare the vendor {entry.name}: uninstall all but one")
    label = f"{_distribution(entry)}: the entry point {entry.name} = {entry.value} of {GROUP}"
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  importing a package may raise anything
        raise BadVendor(f"{label} cannot be loaded: {type(error).__name__}: {error}") from None
    if not isinstance(loaded, Vendor):
        raise BadVendor(f"{label} is a {type(loaded).__name__}, not a pytest_accel.drivers.Vendor")
    if loaded.name != entry.name:
        raise BadVendor(f"{label} declares a vendor of another name: {loaded.name}")
    return loaded


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "an unknown distribution"


def _unusable(name: str, reason: str) -> Vendor:
    def refuse(_shown: Sequence[Hint]) -> Driver:
        raise NoDriver(reason)

    return Vendor(name, name, refuse, no_torch=reason)
