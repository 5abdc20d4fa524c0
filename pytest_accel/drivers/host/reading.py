"""Reads all facts of a host at once, so that one that hangs delays no other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.drivers import deadlines
from pytest_accel.drivers.host import (
    DECLARED,
    Absent,
    HiddenFact,
    HostAnswer,
    HostReader,
    dimms,
    host_environment,
    nics,
    pci_tree,
    services,
    system,
)
from pytest_accel.drivers.host.host_environment import HostEnvironment
from pytest_accel.drivers.interface import DriverProblem

READERS = (host_environment, system, pci_tree, nics, dimms, services)
"""The modules that declare readers when they are imported."""

HOST_READERS = {name: DECLARED[name] for name in HOST_FACTS}
"""The reader of every fact, in the order of display."""

SECONDS = 10.0
"""The time limit for all facts together: small files."""

Answer = Mapping[str, Any]
"""A fact as the sensor sends it: `value` with `worst` and `details`, or the reason `unreadable` or `absent`."""


def read(
    root: Path = Path("/"), facts: Mapping[str, HostReader] = HOST_READERS, seconds: float = SECONDS
) -> dict[str, Answer]:
    """Return every fact by name, each read in its own thread, after at most `seconds` in total."""
    environment = host_environment.host_environment(root)
    answers = deadlines.ask({name: partial(answer, fact, root, environment) for name, fact in facts.items()}, seconds)
    silent: Answer = {"unreadable": f"the kernel did not answer within {seconds:g} s"}
    return {name: silent if isinstance(result, DriverProblem) else result for name, result in answers.items()}


def answer(fact: HostReader, root: Path, environment: HostEnvironment) -> Answer:
    """Return one fact, or the reason why there is none and what is required to read it."""
    try:
        result = fact.read(root)
    except Absent as error:
        return {"absent": str(error)}
    except HiddenFact as hidden:
        requirement = needed(fact, environment)
        return {"unreadable": f"{hidden}{f' ({requirement})' if requirement else ''}"}
    except (OSError, ValueError) as error:
        return {"unreadable": f"{type(error).__name__}: {error}"}
    result = result if isinstance(result, HostAnswer) else HostAnswer(result)
    return {"value": result.value, "worst": result.worst, "details": dict(result.details)}


def needed(fact: HostReader, environment: HostEnvironment) -> str:
    """Return the declared requirements for reading a fact that is hidden here; empty if none is declared."""
    needs = []
    if fact.machine and environment.machine:
        needs.append("bare metal")
    if fact.container and environment.container:
        needs.append("the host instead of a container")
    if fact.user and not environment.root:
        needs.append("root")
    return f"requires {' and '.join(needs)}" if needs else ""
