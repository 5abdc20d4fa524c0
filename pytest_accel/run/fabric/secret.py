"""The secret of a fabric run, and the seal by which its nodes know each other's messages.

Whoever reaches the port of the store can read and write it. Without the secret nobody can write a message that counts,
or name the key of one that is still to come.
"""

from __future__ import annotations

import hashlib
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
        self._path = folder / FILE if folder else None
        if self._given and len(self._given) < SHORTEST:
            raise Refused(f"{VARIABLE} is too short: give it {SHORTEST} characters or more (openssl rand -hex 32)")
        if not self._given and not self._path:
            raise Refused(
                f"--accel-fabric: name a folder that all nodes share (--accel-output), or set {VARIABLE} to the same "
                "secret on every node, a new one for each run (openssl rand -hex 32)"
            )

    @property
    def where(self) -> str:
        """What holds it, in words."""
        return VARIABLE if self._given else str(self._path)

    def create(self) -> str:
        """Return the secret; that of a file is a new one, which only this user can read. Raises Refused."""
        if self._given or not self._path:
            return self._given
        secret, new = secrets.token_hex(32), self._path.with_name(f".{FILE}.{secrets.token_hex(8)}")
        with writing("--accel-output", self._path, Refused):
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
                file.write(secret)
            new.replace(self._path)
        return secret

    def read(self) -> str:
        """Return the secret, empty as long as rank 0 has written none. Raises Refused for one that others can read."""
        if self._given or not self._path:
            return self._given
        try:
            known = self._path.lstat()
            if known.st_uid != os.geteuid() or stat.S_IMODE(known.st_mode) & 0o077:
                raise Refused(f"{self._path}: is of another user, or readable for others; set {VARIABLE} instead")
            return untrusted.read_text(self._path, most=4096, follow=False)
        except (FileNotFoundError, BadFile):
            return ""

    def forget(self) -> None:
        """Remove the file, so that no later run takes it for its own."""
        if self._path and not self._given:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Seal:
    """The seal of the messages of a run. `run` is its id, or what names its job as long as that is not known."""

    secret: str
    run: str

    def key(self, name: str) -> str:
        """Return the key of a message. The name holds kind, rank and sequence number: "task/3/0"."""
        return f"{PREFIX}/{self._code('key', name)[:32]}"

    def sealed(self, name: str, sender: str, message: Any) -> str:
        """Return a message as JSON, with the HMAC-SHA256 of the run, its name, its sender and its content."""
        content = json.dumps(structured.plain(message))
        return json.dumps({"sender": sender, "content": content, "code": self._code("message", name, sender, content)})

    def opened(self, name: str, raw: bytes) -> tuple[str, Any] | None:
        """Return the sender of a message and its content; None for one that no member of this run has written so."""
        try:
            found = untrusted.parse_json(raw, name)
            code = self._code("message", name, found["sender"], found["content"])
            same = hmac.compare_digest(code.encode(), found["code"].encode())
            return (found["sender"], untrusted.parse_json(found["content"].encode(), name)) if same else None
        except (BadFile, AttributeError, LookupError, TypeError, ValueError):
            return None

    def _code(self, *words: str) -> str:
        text = json.dumps([self.run, *words])
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
