"""Chooses the result of a node that counts among several, and tells which names of hosts are one node. Pure.

A rejection stands until a later run accepts the node. Else the newest run counts that was not narrowed to a part of
the checks. A result that contradicts itself judges nothing, and one without a time, or with one in the future, is left
out. docs/fleet.md#which-result-of-a-node-counts tells it to users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar

from pytest_accel.core import exits
from pytest_accel.core.words import counted
from pytest_accel.run.summaries import Summary, moment

AHEAD: Final = timedelta(minutes=5)
"""How far ahead of this clock a result may have begun. One that began later was stamped by a clock that was not set,
and would count as the newest for as long."""
ACCEPTED, HELD, REJECTED = "ACCEPTED", "HELD", "REJECTED"
"""The words of results that say something of the node: it is accepted, nothing was broken, it is rejected."""
RUNNING: Final = "running"
"""The state of a run that has not ended, or was killed."""
EXITS: Final = {ACCEPTED: (exits.HOLDS,), HELD: (exits.HOLDS, exits.NOT_JUDGED), REJECTED: (exits.REJECTED,)}
"""The exit statuses that runs with these words end with."""


class HasSummary(Protocol):
    """A result of a node."""

    @property
    def summary(self) -> Summary:
        """Return what the run left."""
        ...


R = TypeVar("R", bound=HasSummary)


@dataclass(frozen=True)
class Choice(Generic[R]):
    """The result of a node that counts (None if none does), and those that do not though they may look newer."""

    counts: R | None
    mistimed: Sequence[tuple[R, str]] = ()
    """Those whose time cannot be right, and why."""
    passed_over: Sequence[tuple[R, str]] = ()
    """Those that are newer than the one that counts, newest first, and why they do not."""


def began(result: HasSummary) -> datetime | None:
    """Return when the run of a result began, by the clock of its node; None if it does not say so."""
    return moment(result.summary["started"])


def choose(results: Iterable[R], now: datetime, when: Callable[[R], datetime | None] = began) -> Choice[R]:
    """Return which of the results of one node counts. `when` returns the time at which a result began.

    Of results that began at the same time one that rejects counts.
    """
    dated: list[tuple[datetime, bool, R]] = []
    mistimed: list[tuple[R, str]] = []
    for each in results:
        time = when(each)
        if time is None:
            mistimed.append((each, "it does not say when it began"))
        elif time > now + AHEAD:
            mistimed.append((each, f"it began in the future, {each.summary['started']}"))
        else:
            dated.append((time, rejects(each.summary), each))
    dated.sort(key=lambda each: each[:2], reverse=True)
    ordered = [each for _, _, each in dated]
    counts = _counting(ordered)
    newer = ordered[: ordered.index(counts)] if counts else []
    return Choice(counts, mistimed, [(each, _why_not(each.summary)) for each in newer])


def _counting(ordered: Sequence[R]) -> R | None:
    """Return the result that counts, of results that are newest first."""
    decided = next((each for each in ordered if rejects(each.summary) or accepts(each.summary)), None)
    if decided is not None and rejects(decided.summary):
        return decided
    return next((each for each in ordered if not _is_part(each.summary)), next(iter(ordered), None))


def _is_part(found: Summary) -> bool:
    """Return True for the result of a run that was narrowed to a part of the checks."""
    return found.get("filtered", False)


def _why_not(found: Summary) -> str:
    """Return why a result does not count beside an older one."""
    if found["state"] == RUNNING:
        return "it has not ended"
    if wrong := contradiction(found):
        return wrong
    if _is_part(found):
        return "it was narrowed to a part of the checks"
    return f"{found['word'] or found['state']} takes no rejection back"


def rejects(found: Summary) -> bool:
    """Return True for a result that rejects the node. Results of older versions may state no word."""
    said = found["word"] == REJECTED or (not found["word"] and found["exit"] == exits.REJECTED)
    return said and not contradiction(found)


def accepts(found: Summary) -> bool:
    """Return True for a result that accepts the node."""
    return found["word"] == ACCEPTED and not contradiction(found)


def good(found: Summary) -> bool:
    """Return True for the result of a run that found nothing broken, and left nothing out that was asked for."""
    return found["word"] in (ACCEPTED, HELD) and not _is_part(found) and not contradiction(found)


def contradiction(found: Summary) -> str:
    """Return in which way a result contradicts itself; empty if it does not.

    No run of ours ends so: its files were changed, or are of several runs.
    """
    word, status, rejected = found["word"], found.get("exit"), found.get("rejected") or []
    if status is not None and word in EXITS and status not in EXITS[word]:
        return f"it says {word} and ended with exit status {status}"
    if status == exits.REJECTED and word not in ("", REJECTED):
        return f"it says {word} and ended with exit status {status}, that of a rejection"
    if word in (ACCEPTED, HELD) and rejected:
        return f"it says {word} and rejects {counted(len(rejected), 'device')}"
    if status == 0 and word not in EXITS:
        return f"it says {word or 'no result'} and ended with exit status 0"
    return f"it says {word} for a part of the checks" if word == ACCEPTED and _is_part(found) else ""


def names_among(hosts: Collection[str]) -> set[str]:
    """Return the names of the nodes that these hosts are, without a second name of the same node.

    A host's name with its domain is that of the node of its short name, unless several domains have such a host.
    """
    full = _with_domain(hosts)
    return {host for host in hosts if not ((short := host.partition(".")[0]) in hosts and full.get(short) == {host})}


def nodes_of(hosts: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Return which node each host is, by the names of the nodes. A name may lack the domain, or the host's may.

    A host that is none of them, or may be several, is left out; so is one that only lacks the domain, or alone has it,
    if several domains have such a host.
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.partition(".")[0], []).append(name)
    full = _with_domain({*hosts, *names})
    found = {}
    for host in hosts:
        short = host.partition(".")[0]
        same = [name for name in alike.get(short, ()) if _is_one(host, name)]
        if host in same:
            found[host] = host
        elif len(same) == 1 and len(full.get(short, ())) < 2:
            found[host] = same[0]
    return found


def several(name: str, hosts: Collection[str]) -> list[str]:
    """Return the hosts that may be this node, if they are several machines: those of its name in other domains."""
    full = _with_domain({*hosts, name}).get(name.partition(".")[0], set())
    return sorted(host for host in hosts if _is_one(host, name)) if len(full) > 1 and name not in hosts else []


def _with_domain(hosts: Iterable[str]) -> dict[str, set[str]]:
    """Return the hosts whose names have a domain, by their short names."""
    full: dict[str, set[str]] = {}
    for host in hosts:
        short, dot, _ = host.partition(".")
        if dot:
            full.setdefault(short, set()).add(host)
    return full


def _is_one(host: str, name: str) -> bool:
    """Return True if two names are equal, or differ in that one lacks the domain."""
    return host == name or host.partition(".")[0] == name or name.partition(".")[0] == host
