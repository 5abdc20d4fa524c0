"""Xids as NVML tells of them: needs no kernel log, and names the GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pytest_accel.drivers import deadlines
from pytest_accel.drivers.interface import DriverProblem
from pytest_accel.drivers.vendors.nvidia.query import text

WAIT_MS = 1000


def follow(nvml: Any, handles: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Xids as they come, for ever: UUID and number. Of a GPU that tells of none: UUID and `deaf`, the reason.

    Raises DriverProblem if none tells.
    """
    events, deaf = _listen(nvml, handles)
    return _events(nvml, events, handles, deaf)


def _listen(nvml: Any, handles: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """A new set of events, and why GPUs are not in it."""
    try:
        events = nvml.nvmlEventSetCreate()
    except (nvml.NVMLError, AttributeError) as error:
        raise DriverProblem(f"NVML gives no events: {error}") from None
    register = partial(partial, nvml.nvmlDeviceRegisterEvents)
    asked = {uuid: register(handle, nvml.nvmlEventTypeXidCriticalError, events) for uuid, handle in handles.items()}
    deaf = {uuid: str(each) for uuid, each in deadlines.each(asked).items() if isinstance(each, DriverProblem)}
    if len(deaf) == len(handles):
        raise DriverProblem(f"NVML gives no events: {next(iter(deaf.values()), 'no GPU answers')}")
    return events, {uuid: f"NVML gives no events of it: {why}" for uuid, why in deaf.items()}


def _events(nvml: Any, events: Any, handles: Mapping[str, Any], deaf: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    uuids = {_address(handle): uuid for uuid, handle in handles.items()}
    yield from _told(deaf)
    while True:
        try:
            found = nvml.nvmlEventSetWait_v2(events, WAIT_MS)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                continue
            if error.value != nvml.NVML_ERROR_GPU_IS_LOST:
                raise DriverProblem(f"NVML gives no more events: {error}") from None
            handles = {uuid: handle for uuid, handle in handles.items() if uuid not in deaf}
            events, deaf = _listen(nvml, handles)  # the others have more to say
            if not deaf:
                raise DriverProblem(f"NVML gives no more events: {error}") from None
            yield from _told(deaf)
            continue
        if found.eventType == nvml.nvmlEventTypeXidCriticalError:
            uuid = uuids.get(_address(found.device)) or _asked(nvml, found.device)
            yield {"uuid": uuid, "number": int(found.eventData)}


def _asked(nvml: Any, handle: Any) -> str:
    """The UUID of a GPU by another handle than the one that we got: none says that it is the same. Raises
    DriverProblem where NVML does not tell whose an Xid is."""
    try:
        return text(nvml.nvmlDeviceGetUUID(handle))
    except (nvml.NVMLError, ValueError) as error:
        raise DriverProblem(f"NVML told of an Xid and not of which GPU: {error}") from None


def _told(deaf: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    return ({"uuid": uuid, "deaf": why} for uuid, why in deaf.items())


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
