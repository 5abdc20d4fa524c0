"""Signatures over the sums of a record, by OpenSSH (`ssh-keygen -Y`): made by a key, verified by a list of signers.

OpenSSH is on every node and works without a network. A buyer verifies with it alone:

    ssh-keygen -Y verify -f SIGNERS -I NAME -n accel-record -s SHA256SUMS.sig < SHA256SUMS && sha256sum -c SHA256SUMS

Source: ssh-keygen(1), -Y sign and ALLOWED SIGNERS; the format is PROTOCOL.sshsig of OpenSSH.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import record, statement
from pytest_accel.run.statement import STATEMENT, SUMS

NAMESPACE = "accel-record"
"""What the signature is for: ssh-keygen refuses one that was made for anything else."""
SECONDS = 60.0
"""How long ssh-keygen may take; a key on a token waits for a touch."""


class NotSigned(WrongUse):
    """An error for a record that could not be signed; the message has the words of ssh-keygen."""


@dataclass(frozen=True)
class Verification:
    """What a signed record proves. It is proven if there is no objection."""

    signer: str
    """The name of the signer in the list of signers; empty if no key of the list signed the sums."""
    objections: Sequence[str]
    run: Run | None = None
    """The record; None if it is not signed, or cannot be read."""

    @property
    def word(self) -> str:
        """The result that the record states; empty if there is none."""
        return self.run.word if self.run else ""


def sign(folder: Path, key: Path, *, ask: bool) -> Path:
    """Write statement, sums and signature beside a record, and return the signature. Raises BadFile and NotSigned.

    `key` is a private key, or the public key of one that the agent holds. With `ask`, a person may be asked for its
    passphrase.
    """
    run = record.read(record.find(folder))
    folder = run.path.absolute().parent
    if run.objections:
        raise BadFile(f"{run.path}: is not signed: {run.objections[0]}")
    files = statement.files_of(run)
    stated = statement.text_of(run, files)
    sums = statement.sums(files, stated)
    made = _signature(sums.encode(), key, ask=ask)
    for name, each in {STATEMENT: stated, SUMS: sums, f"{SUMS}.sig": made}.items():
        record.replace_file(folder / name, each)
    return folder / f"{SUMS}.sig"


def demand_key(key: Path) -> None:
    """Sign an empty text, so that a key that cannot sign is known before a run. Raises NotSigned."""
    _signature(b"", key, ask=False)


def _signature(data: bytes, key: Path, *, ask: bool) -> str:
    """Return the signature over some bytes. Raises NotSigned."""
    done = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, data=data, ask=ask)
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split()) or "it says nothing"
        hint = "" if ask else "; a key with a passphrase signs through ssh-agent: name its public key"
        raise NotSigned(f"{key}: ssh-keygen cannot sign with it: {said}{hint}")
    return done.stdout.decode()


def _ssh_keygen(action: str, *words: str, data: bytes = b"", ask: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run `ssh-keygen -Y ACTION`. Unless it may `ask`, it has no terminal and no window. Raises NotSigned."""
    line = ["ssh-keygen", "-Y", action, *words]
    silent: dict[str, Any] = {"start_new_session": True, "env": {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}}
    try:
        return subprocess.run(
            line, input=data, capture_output=True, timeout=SECONDS, check=False, **({} if ask else silent)
        )
    except FileNotFoundError:
        raise NotSigned("ssh-keygen was not found: install OpenSSH (openssh-client), at least 8.2") from None
    except subprocess.TimeoutExpired:
        raise NotSigned(f"ssh-keygen did not end within {SECONDS:.0f} s") from None


# -- verifying


def verify(
    folder: Path, signers: Path, *, signer: str | None = None, nonce: str | None = None, revoked: Path | None = None
) -> Verification:
    """Return what a signed record proves to whoever trusts a list of signers (`man ssh-keygen`, ALLOWED SIGNERS).

    `signer` is the name that has to have signed, else any of the list may have. `nonce` is what the run was given.
    Raises BadFile if there is no record, or no list.
    """
    path = record.find(folder)
    place = path.absolute().parent
    if not untrusted.exists(path):
        raise BadFile(f"{path}: there is no record")
    untrusted.read_text(signers)
    try:
        data = untrusted.read_bytes(place / SUMS, follow=False)
        stated = statement.sums_of(untrusted.decode(data, SUMS))
        own = untrusted.read_bytes(place / f"{SUMS}.sig", follow=False)
    except BadFile as bad:
        return Verification("", [f"the record is not signed: {bad}"])
    who, why = _signer(data, own, signers, signer, revoked)
    objections = [f"{SUMS}.sig: {why}"] if why else []
    objections += _altered(stated, place)
    try:
        run = record.read(path, follow=False)
    except BadFile as bad:
        return Verification(who, [*objections, str(bad)])
    objections += run.objections
    objections += _other_statement(run, stated, place)
    given = run.run.get("nonce", "")
    if nonce is not None and given != nonce:
        objections.append(f"the run was given {f'the nonce {given!r}' if given else 'no nonce'}, not {nonce!r}")
    return Verification(who, objections, run)


def _signer(
    data: bytes, signature: bytes, signers: Path, demanded: str | None, revoked: Path | None
) -> tuple[str, str]:
    """Return the name of who signed some bytes; if it is empty, also why nobody who is trusted did."""
    why = f"no key of {signers} made this signature, or it is not valid today"
    with tempfile.TemporaryDirectory(prefix="accel-verify-") as folder:
        of_signature = Path(folder, "signature")
        of_signature.write_bytes(signature)
        known = ["-f", str(signers), "-s", str(of_signature)]
        names = [demanded]
        if demanded is None:
            listed = _ssh_keygen("find-principals", *known)
            names = [] if listed.returncode else [*listed.stdout.decode(errors="replace").splitlines()]
        for name in filter(None, names):
            more = ["-r", str(revoked)] if revoked else []
            done = _ssh_keygen("verify", *known, "-I", name, "-n", NAMESPACE, *more, data=data)
            if not done.returncode:
                return name, ""
            said = (done.stderr + done.stdout).decode(errors="replace")
            why = f"ssh-keygen refuses it{' (is the key revoked?)' if more else ''}: {' '.join(said.split())}"
    return "", why


def _altered(stated: Mapping[str, str], place: Path) -> list[str]:
    """Return an objection for every file that is not as the sums say, or that they leave out."""
    lacking = [name for name in (record.FILE, STATEMENT) if name not in stated]
    same = {name: record.hash_file(place / name) for name in stated if not (place / name).is_symlink()}
    differ = [name for name, each in stated.items() if same.get(name) != each]
    return [
        *(f"{SUMS} has no line for {name}" for name in lacking),
        *(f"{name} is not the file that was signed" for name in differ),
    ]


def _other_statement(run: Run, stated: Mapping[str, str], place: Path) -> list[str]:
    """Return an objection if the statement does not follow from the record, and one if its telemetry has no sum."""
    wanted = statement.text_of(run, {name: each for name, each in stated.items() if name != STATEMENT})
    telemetry = run.telemetry.get("file", "")
    found = [f"{SUMS} has no line for {telemetry}"] if telemetry and telemetry not in stated else []
    with contextlib.suppress(BadFile):
        if untrusted.read_json(place / STATEMENT, follow=False) == json.loads(wanted):
            return found
    return [*found, f"{STATEMENT} does not follow from the record"]
