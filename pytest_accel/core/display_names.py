"""The names by which a person knows the devices of a node."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.measurement import NODE, Device


class Names(dict[str, str]):
    """Display name by subject, which is the UUID of a device, or NODE. Any other subject is its own name."""

    def __missing__(self, subject: str) -> str:
        """Return the subject itself."""
        return subject

    @classmethod
    def of(cls, devices: Iterable[Device]) -> Names:
        """Return the names of the node and of its devices."""
        return cls({NODE: NODE, **{device.uuid: device.name for device in devices}})
