"""Signatures over the sums of a record, by OpenSSH (`ssh-keygen -Y`): made by a key, verified by a list of signers.

OpenSSH is on every node and works without a network. A buyer verifies with it alone:

    ssh-keygen -Y verify -f SIGNERS -I NAME -n accel-record -s SHA256SUMS.sig < SHA256SUMS && sha256sum -c SHA256SUMS

Source: ssh-keygen(1), -Y sign and ALLOWED SIGNERS; the format is PROTOCOL.sshsig of OpenSSH.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Result
from pytest_accel.run import record, statement
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.run.statement import STATEMENT, SUMS

NAMESPACE = "accel-record"
"""The namespace of the signature: ssh-keygen refuses one that was made for another."""
SECONDS = 60.0
"""Seconds that ssh-keygen may take; a key on a token waits for a touch."""


class NotSigned(WrongUse):
    """An error for a record that could not be signed; the message has the words of ssh-keygen."""


@dataclass(frozen=True)
class Verification:
    """The result of verifying a signed record. It is proven if there is no objection."""

    signer: str
    """The name of the signer in the list of signers; empty if no key of the list signed the sums."""
    objections: Sequence[str]
    run: Run | None = None
    """The record; None if it is not signed, or cannot be read."""


def sign(path: Path, key: Path, *, ask: bool) -> Path:
    """Write statement, sums and signature beside a record, and return the signature. Raises BadFile and NotSigned.

    `path` is the record or its folder. `key` is a private key, or the public key of one that the agent holds. With
    `ask`, a person may be asked for its passphrase.
    """
    with RecordFiles(record.find(path)) as files:
        demand_name(files.path)
        run = record.read_from(files)
        if run.objections:
            raise BadFile(f"{run.path}: is not signed: {run.objections[0]}")
        sums = statement.sums_of_files(run, files)
    statement_text = statement.text_of(run, sums)
    text = statement.sums(sums, statement_text)
    signature = _signature(text.encode(), key, ask=ask)
    for name, content in {STATEMENT: statement_text, SUMS: text, f"{SUMS}.sig": signature}.items():
        record.replace_file(run.path.absolute().with_name(name), content)
    return run.path.absolute().with_name(f"{SUMS}.sig")


def demand_name(path: Path) -> None:
    """Raise BadFile for a record under another name: the sums name record.json, which is another file."""
    if path.name != record.FILE:
        raise BadFile(f"{path}: only {record.FILE} is signed and verified, under no other name")


def demand_key(key: Path) -> None:
    """Sign an empty text, so that a key that cannot sign is known before a run. Raises NotSigned."""
    _signature(b"", key, ask=False)


def _signature(data: bytes, key: Path, *, ask: bool) -> str:
    """Return the signature over some bytes. Raises NotSigned."""
    process = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, data=data, ask=ask)
    if process.returncode:
        output = " ".join(process.stderr.decode(errors="replace").split()) or "it says nothing"
        hint = "" if ask else "; a key with a passphrase signs through ssh-agent: name its public key"
        raise NotSigned(f"{key}: ssh-keygen cannot sign with it: {output}{hint}")
    return process.stdout.decode()


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


@dataclass(frozen=True)
class Trust:
    """The signers who are trusted, and the nonce of the run that is expected."""

    signers: Path
    """The list of signers (ssh-keygen(1), ALLOWED SIGNERS)."""
    signer: str | None = None
    """The name that has to have signed; None for any of the list."""
    nonce: str | None = None
    """The nonce that the run has to have; None for any."""
    revoked: Path | None = None
    """Keys that count no more (ssh-keygen(1), -r)."""


def verify(files: RecordFiles, trust: Trust, run: Run | None = None) -> Verification:
    """Return the verification of a signed record; `run` is the record where it was read from these files already.

    Raises BadFile if there is no list of signers, and for a record under another name.
    """
    demand_name(files.path)
    try:
        data, signed = files.read(SUMS), files.read(f"{SUMS}.sig")
        sums = statement.sums_of(untrusted.decode(data, SUMS))
    except BadFile as bad:
        return Verification("", [f"the record is not signed: {bad}"])
    signer, problem = _signer(data, signed, trust)
    objections = [f"{SUMS}.sig: {problem}"] if problem else []
    try:
        run = run or record.read_from(files)
    except BadFile as bad:
        return Verification(signer, [*objections, str(bad)])
    names = [STATEMENT, *statement.names_of(run, files)]
    objections += [f"{SUMS} has no line for {name}" for name in names if name not in sums]
    mismatches = (name for name, sha256 in sums.items() if files.sha256(name) != sha256)
    objections += [f"{name} is not the file that was signed" for name in mismatches]
    objections += run.objections
    # the statement follows from the record, so it is made anew and compared
    expected = statement.text_of(run, {name: sha256 for name, sha256 in sums.items() if name != STATEMENT})
    if not _is_statement(files, expected):
        objections.append(f"{STATEMENT} does not follow from the record")
    if run.judged_from or ("follows" in run.info and run.result is not Result.REJECTED):
        objections.append(f"it is {'judged again' if run.judged_from else 'one run of a series'}, and accepts nothing")
    nonce = run.info.get("nonce", "")
    if trust.nonce is not None and nonce != trust.nonce:
        objections.append(f"the run was given {f'the nonce {nonce!r}' if nonce else 'no nonce'}, not {trust.nonce!r}")
    return Verification(signer, objections, run)


def _signer(data: bytes, signature: bytes, trust: Trust) -> tuple[str, str]:
    """Return the signer of some bytes, by a line of the list; if that is empty, also the reason why none is trusted.

    A key may have several lines, each for a purpose of its own. ssh-keygen names the first one, so that this is taken
    away where it does not hold.
    """
    problem = f"no key of {trust.signers} made this signature, or it is not valid today"
    revocation = ["-r", str(trust.revoked)] if trust.revoked else []
    lines = untrusted.read_text(trust.signers).split("\n")  # as ssh-keygen does; str.splitlines knows other ends
    with tempfile.TemporaryDirectory(prefix="accel-verify-") as folder:
        of_signature, of_lines = Path(folder, "signature"), Path(folder, "signers")
        of_signature.write_bytes(signature)
        words = ["-f", str(of_lines), "-s", str(of_signature)]
        while lines:
            of_lines.write_text("\n".join(lines) + "\n", encoding="utf-8")
            names = _listed(words) if trust.signer is None else [trust.signer]
            for name in sorted(names, key=_is_pattern):  # names first: a pattern names nobody
                process = _ssh_keygen("verify", *words, "-I", name, "-n", NAMESPACE, *revocation, data=data)
                if not process.returncode:
                    return (f"a key that is listed for {','.join(names)}" if _is_pattern(name) else name), ""
                output = " ".join((process.stderr + process.stdout).decode(errors="replace").split())
                problem = f"ssh-keygen refuses it{' (is the key revoked?)' if revocation else ''}: {output}"
            remaining = [line for line in lines if _names_in(line) != ",".join(names)]
            lines = [] if trust.signer or len(remaining) == len(lines) else remaining
    return "", problem


def _listed(words: Sequence[str]) -> list[str]:
    """Return the names and patterns of the first line of a list whose key made a signature; empty if there is none."""
    process = _ssh_keygen("find-principals", *words)
    return [] if process.returncode else process.stdout.decode(errors="replace").splitlines()


def _is_pattern(name: str) -> bool:
    """Return True for a pattern of a list of signers (ssh_config(5), PATTERNS), which names nobody."""
    return any(character in "*?!" for character in name)


def _names_in(line: str) -> str:
    """Return the names of a line of a list of signers, which may be quoted."""
    line = line.strip()
    return line[1:].partition('"')[0] if line.startswith('"') else line.partition(" ")[0].partition("\t")[0]


def _is_statement(files: RecordFiles, expected: str) -> bool:
    """Return True if the statement beside a record says what is wanted."""
    try:
        return bool(untrusted.parse_json(files.read(STATEMENT), STATEMENT) == json.loads(expected))
    except BadFile:
        return False
