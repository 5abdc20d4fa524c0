"""Follows NVML's Xid events, which need no access to the kernel log and name the GPU."""

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
    """Yield Xids as they occur, without end, with `uuid` and `number`.

    A GPU that gives no events yields its `uuid` and the reason, `deaf`. Raises DriverProblem if no GPU gives events.
    """
    events, deaf = _listen(nvml, handles)
    return _events(nvml, events, handles, deaf)


def _listen(nvml: Any, handles: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return a new NVML event set, and why GPUs are not in it, by UUID. Raises DriverProblem if none is."""
    try:
        events = nvml.nvmlEventSetCreate()
    except (nvml.NVMLError, AttributeError) as error:
        raise DriverProblem(f"NVML gives no events: {error}") from None
    register = partial(partial, nvml.nvmlDeviceRegisterEvents)
    calls = {uuid: register(handle, nvml.nvmlEventTypeXidCriticalError, events) for uuid, handle in handles.items()}
    deaf = {uuid: str(each) for uuid, each in deadlines.each(calls).items() if isinstance(each, DriverProblem)}
    if len(deaf) == len(handles):
        raise DriverProblem(f"NVML gives no events: {next(iter(deaf.values()), 'no GPU answers')}")
    return events, {uuid: f"NVML gives no events for it: {why}" for uuid, why in deaf.items()}


def _events(nvml: Any, events: Any, handles: Mapping[str, Any], deaf: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    uuids = {_address(handle): uuid for uuid, handle in handles.items()}
    yield from _deaf_events(deaf)
    while True:
        try:
            event = nvml.nvmlEventSetWait_v2(events, WAIT_MS)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                continue
            if error.value != nvml.NVML_ERROR_GPU_IS_LOST:
                raise DriverProblem(f"NVML gives no more events: {error}") from None
            handles = {uuid: handle for uuid, handle in handles.items() if uuid not in deaf}
            events, deaf = _listen(nvml, handles)  # the other GPUs still give events
            if not deaf:
                raise DriverProblem(f"NVML gives no more events: {error}") from None
            yield from _deaf_events(deaf)
            continue
        if event.eventType == nvml.nvmlEventTypeXidCriticalError:
            uuid = uuids.get(_address(event.device)) or _uuid(nvml, event.device)
            yield {"uuid": uuid, "number": int(event.eventData)}


def _uuid(nvml: Any, handle: Any) -> str:
    """Return the UUID of a GPU whose event has another handle than discovery got, which NVML permits.

    Raises DriverProblem if NVML does not tell which GPU an Xid belongs to.
    """
    try:
        return text(nvml.nvmlDeviceGetUUID(handle))
    except (nvml.NVMLError, ValueError) as error:
        raise DriverProblem(f"NVML reported an Xid but not its GPU: {error}") from None


def _deaf_events(deaf: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    return ({"uuid": uuid, "deaf": why} for uuid, why in deaf.items())


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
