"""All facts of a host at once; one that hangs costs only itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.drivers.host import (
    DECLARED,
    Absent,
    HostAnswer,
    HostReader,
    Unreadable,
    chassis,
    nics,
    nvme,
    pci,
    place,
    services,
    system,
)
from pytest_accel.drivers.host.place import Place

READERS = (place, system, pci, nics, nvme, chassis, services)
"""The modules that declare readers; importing them is what declares."""

HOST_READERS = {name: DECLARED[name] for name in HOST_FACTS}
"""The reader of every fact, in the order in which they are shown."""

SECONDS = 10.0
"""How long all facts together may take. They are small files, and one call of ipmitool; what takes longer hangs."""

Answer = Mapping[str, Any]
"""A fact as the sensor sends it: `value` with `worst` and `details`, or `unreadable`, or `absent`."""


def read(
    root: Path = Path("/"), facts: Mapping[str, HostReader] = HOST_READERS, seconds: float = SECONDS
) -> dict[str, Answer]:
    """Every fact by name. Each has a thread of its own, and none is waited for longer than `seconds` in all."""
    answers: dict[str, Answer] = {}
    where = place.place(root)
    until = time.monotonic() + seconds

    def ask(fact: HostReader) -> None:
        answers[fact.name] = answer(fact, root, where)

    threads = {name: threading.Thread(target=ask, args=(fact,), daemon=True) for name, fact in facts.items()}
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    silent = {"unreadable": f"the kernel did not answer within {seconds:g} s"}
    return {name: answers.get(name, silent) for name in facts}


def answer(fact: HostReader, root: Path, where: Place) -> Answer:
    """One fact, or why there is none and what it takes to see it."""
    try:
        found = fact.read(root)
    except Absent as absent:
        return {"absent": str(absent)}
    except Unreadable as hidden:
        takes = needed(fact, where)
        return {"unreadable": f"{hidden}{f' ({takes})' if takes else ''}"}
    except (OSError, ValueError) as error:
        return {"unreadable": f"{type(error).__name__}: {error}"}
    found = found if isinstance(found, HostAnswer) else HostAnswer(found)
    return {"value": found.value, "worst": found.worst, "details": dict(found.details)}


def needed(fact: HostReader, where: Place) -> str:
    """What it takes to see a fact that is hidden here, as far as it is declared."""
    takes = []
    if fact.machine and where.machine:
        takes.append("bare metal")
    if fact.container and where.container:
        takes.append("the host instead of a container")
    if fact.user and not where.root:
        takes.append("root")
    return f"takes {' and '.join(takes)}" if takes else ""
