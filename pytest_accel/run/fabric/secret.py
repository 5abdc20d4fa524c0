"""The secret of a fabric run, and the seal by which its nodes know each other's messages.

Whoever reaches the port of the store can read and write it. Without the secret nobody can write a message that counts,
or name the key of one that is still to come.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_accel.core import structured, untrusted
from pytest_accel.core.paths import writing
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import record
from pytest_accel.run.options import Refused

VARIABLE, FILE = "PYTEST_ACCEL_FABRIC_SECRET", "fabric.secret"
SHORTEST = 32
"""Characters of the shortest secret: 16 random bytes in hexadecimal."""
PREFIX = "pytest-accel-fabric"


class Secret:
    """Where the nodes of a run have its secret from: the environment, or a file in the folder that they share."""

    def __init__(self, folder: Path | None) -> None:
        """Take the secret from the environment, if it is there. Raises Refused without it and without a folder."""
        self._given = os.environ.pop(VARIABLE, "")  # no worker needs it
        self._path = folder / FILE if folder and not self._given else None
        if len(self._given) < SHORTEST and not self._path:
            raise Refused(
                f"--accel-fabric: name a folder that all nodes share (--accel-output), or set {VARIABLE} to the same "
                f"{SHORTEST} or more characters on every node, others for each run (openssl rand -hex 32)"
            )

    def create(self) -> str:
        """Return the secret; that of a file is a new one, which only this user can read. Raises Refused."""
        if self._path:
            with writing("--accel-output", self._path, Refused):
                record.replace_file(self._path, secrets.token_hex(SHORTEST), mode=0o600)
        return self.read()

    def read(self) -> str:
        """Return the secret, empty as long as rank 0 has written none. Raises Refused for one that others can read."""
        if not self._path:
            return self._given
        try:
            known = self._path.lstat()
            if known.st_uid != os.geteuid() or stat.S_IMODE(known.st_mode) & 0o077:
                raise Refused(f"{self._path}: is of another user, or readable for others; set {VARIABLE} instead")
            return untrusted.read_text(self._path, follow=False)
        except (FileNotFoundError, BadFile):
            return ""

    def forget(self) -> None:
        """Remove the file, so that no later run takes it for its own."""
        if self._path:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Seal:
    """The seal of the messages of a run. `run` is its id, or what names its job as long as that is not known."""

    secret: str
    run: str

    def key(self, name: str) -> str:
        """Return the key of a message, whose name holds its kind, rank and sequence number: "task/3/0"."""
        return f"{PREFIX}/{self._code('key', name)}"

    def sealed(self, name: str, message: Any) -> str:
        """Return a message as the store holds it: the HMAC-SHA256 of run, name and content, and the content as JSON."""
        content = json.dumps(structured.plain(message))
        return f"{self._code('message', name, content)} {content}"

    def opened(self, name: str, raw: bytes) -> Any:
        """Return the content of a message; None for one that no member of this run has written under this name."""
        code, _, content = raw.decode(errors="replace").partition(" ")
        if not hmac.compare_digest(code.encode(), self._code("message", name, content).encode()):
            return None
        return untrusted.parse_json(content.encode(), name)

    def _code(self, *words: str) -> str:
        return hmac.digest(self.secret.encode(), json.dumps([self.run, *words]).encode(), "sha256").hex()
