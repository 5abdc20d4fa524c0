"""The secret of a network run. Who does not know it can neither write a message of the run nor foresee its key."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pytest_accel.core.network_run import NetworkNode, Report
from pytest_accel.core.structured import plain, structure
from pytest_accel.run import record
from pytest_accel.run.options import Refused

T = TypeVar("T")

VARIABLE, FILE, PREFIX = "PYTEST_ACCEL_NETWORK_SECRET", "network.secret", "pytest-accel-network"
SEAL, SHORTEST, LONGEST = 64, 32, 1 << 20
"""Characters of the seal, with which a message begins, of the shortest secret, and of the longest message."""
MOST_DEVICES, LONGEST_TEXT = 1024, 1000
"""The most devices of a node, and the most characters of what it says of itself."""


@dataclass(frozen=True)
class Seal:
    """The seal of a run: its secret, and the id that tells it from other runs with the same secret.

    The name of a message, such as "task/3/7", is its kind, the rank that it is for or from, and its number.
    """

    secret: bytes
    run: str = ""

    def key(self, name: str) -> str:
        """Return the key in the store of what has a name in this run."""
        return f"{PREFIX}/{self._mac('key', name)}"

    def seal(self, name: str, message: Any) -> str:
        """Return a message as the store holds it: its seal, and JSON of a dataclass."""
        text = json.dumps(plain(message))
        return self._mac("message", name, text) + text

    def unseal(self, kind: type[T], name: str, raw: bytes) -> T | None:
        """Return a message; None for what was not sealed under this name in this run, or does not fit its class."""
        text = raw[SEAL:].decode(errors="replace")
        if len(raw) > LONGEST or not hmac.compare_digest(raw[:SEAL], self._mac("message", name, text).encode()):
            return None
        with contextlib.suppress(ValueError, RecursionError):
            return message if fits(message := structure(kind, json.loads(text))) else None
        return None

    def _mac(self, *parts: str) -> str:
        return hmac.digest(self.secret, json.dumps([self.run, *parts]).encode(), "sha256").hex()


def fits(message: Any) -> bool:
    """Return False for a node or a report that states what no node can have."""
    if isinstance(message, NetworkNode):
        texts = (message.name, message.leaf, message.domain, message.left_out)
        return 1 <= message.devices <= MOST_DEVICES and max(map(len, texts)) <= LONGEST_TEXT
    if isinstance(message, Report):
        rates = [message.value or 0.0, *message.rails]
        return len(rates) <= 1 + MOST_DEVICES and all(0 <= rate < float("inf") for rate in rates)
    return True


def secret_of(folder: Path | None, *, make: bool = False) -> bytes:
    """Return the secret of the run: that of the variable, or of the file in the `folder` that all nodes share.

    Where the file is not there it is made, or the secret is one that nobody has, by which nothing is found. Raises
    Refused where there can be none, and for one that others may know.
    """
    if len(text := os.environ.get(VARIABLE, "")) >= SHORTEST:
        return text.encode(errors="surrogateescape")
    if folder is None or text:
        fix = f"share the folder of --accel-output, or set {VARIABLE} to {SHORTEST} or more characters, the same on all"
        raise Refused(f"--accel-network: the nodes need a secret in common: {fix} (openssl rand -hex 32)")
    path, fault = folder / FILE, "it is no file with a secret, of mode 0600 and of this user"
    try:
        if make and not path.is_file():
            record.replace_file(path, secrets.token_hex(32), mode=0o600)
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if (status.st_mode, status.st_uid) == (stat.S_IFREG | 0o600, os.geteuid()) and status.st_size >= SHORTEST:
                return file.read(LONGEST)
    except FileNotFoundError:
        return secrets.token_bytes()  # one that nobody has, so that nothing is found until the file is there
    except OSError as error:
        fault = error.strerror or fault
    raise Refused(f"--accel-network: {path}: {fault}; remove it, or set {VARIABLE}")
