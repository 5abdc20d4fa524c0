"""The facts of the host as `discover` shows them: those that were read, and those that are not available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.verdict import show


def lines(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the facts with their values, then those that cannot be read and those that do not exist, by reason."""
    width = max(map(len, answers), default=0)
    known = {name: answer for name, answer in answers.items() if "value" in answer}
    hidden = {name: answer["unreadable"] for name, answer in answers.items() if "unreadable" in answer}
    absent = {name: answer["absent"] for name, answer in answers.items() if "absent" in answer}
    shown = ["host:"]
    for name, answer in known.items():
        worst = f" ({answer['worst']})" if answer.get("worst") else ""
        shown.append(f"  {name:{width}}  {show(answer['value'], HOST_FACTS[name].unit)}{worst}")
    shown += ["not readable for this user on this machine:"] if hidden else []
    shown += [f"  {', '.join(names)}: {why}" for why, names in grouped(hidden, hidden.__getitem__).items()]
    shown += ["not present on this machine:"] if absent else []
    return shown + [f"  {', '.join(names)}: {why}" for why, names in grouped(absent, absent.__getitem__).items()]
