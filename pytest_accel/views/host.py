"""What could be read of the host, and what this user cannot see here: for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.verdict import show


def lines(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The facts that are known, then those that are hidden with what it takes, then those that are not there."""
    width = max(map(len, answers), default=0)
    known = {name: each for name, each in answers.items() if "value" in each}
    hidden = {name: each["unreadable"] for name, each in answers.items() if "unreadable" in each}
    absent = {name: each["absent"] for name, each in answers.items() if "absent" in each}
    found = ["host:"]
    found += [f"  {name:{width}}  {_value(name, each)}" for name, each in known.items()]
    found += ["hidden from this user here:"] if hidden else []
    found += [f"  {', '.join(names)}: {why}" for why, names in _by_reason(hidden).items()]
    found += ["not there:"] if absent else []
    return found + [f"  {', '.join(names)}: {why}" for why, names in _by_reason(absent).items()]


def _value(name: str, answer: Mapping[str, Any]) -> str:
    worst = f" ({answer['worst']})" if answer.get("worst") else ""
    return f"{show(answer['value'], HOST_FACTS[name].unit)}{worst}"


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return found
