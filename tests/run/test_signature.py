"""Signed records: whoever changes anything in the folder is refused, by OpenSSH alone and by `verify`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import as_user, data_files
from support.accepted_nodes import node, save_whole

from pytest_accel.cli.main import main
from pytest_accel.core import untrusted
from pytest_accel.run import record, signature
from pytest_accel.run.record_files import RecordFiles

TABLES = data_files.tables("run/signature")

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (OpenSSH)")
NONCE = "PO-4711"


@dataclass(frozen=True)
class Signed:
    """A signed record, with the keys of the supplier and of a stranger, and the list that has the supplier's alone."""

    folder: Path
    keys: Path

    @property
    def signers(self) -> Path:
        return self.keys / "signers"

    def by_openssh(self, name: str = "supplier") -> bool:
        """True if the command of the docs, which needs nothing of ours, finds nothing."""
        line = (
            f"ssh-keygen -Y verify -f {self.signers} -I {name} -n accel-record -s SHA256SUMS.sig < SHA256SUMS"
            " && sha256sum -c SHA256SUMS"
        )
        return not subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, check=False).returncode

    def sums(self) -> None:
        """Write the sums anew, as somebody would who changed a file."""
        names = [line.partition("  ")[2] for line in (self.folder / "SHA256SUMS").read_text().splitlines()]
        lines = [f"{untrusted.sha256(self.folder / name)}  {name}\n" for name in names]
        (self.folder / "SHA256SUMS").write_text("".join(lines))

    def sign(self, key: str, *, namespace: str = "accel-record") -> None:
        """Sign the sums as they are."""
        (self.folder / "SHA256SUMS.sig").unlink()
        line = ["ssh-keygen", "-Y", "sign", "-f", str(self.keys / key), "-n", namespace, "SHA256SUMS"]
        subprocess.run(line, cwd=self.folder, capture_output=True, check=True)

    def trust(self, key: str = "supplier", options: str = 'namespaces="accel-record"', name: str = "supplier") -> None:
        self.signers.write_text(f"{name} {options} {(self.keys / f'{key}.pub').read_text()}")

    def verified(self, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
        status = main(["verify", str(self.folder), f"--allowed-signers={self.signers}", *options])
        return status, capsys.readouterr().out


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("supplier", "buyer", "stranger"):
        line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(line, check=True, capture_output=True)
    return folder


@pytest.fixture
def signed(tmp_path: Path, keys: Path) -> Signed:
    """An accepted record of hardware, signed by the supplier."""
    return made(tmp_path, keys)


def made(tmp_path: Path, keys: Path, *, fails: bool = False) -> Signed:
    one = node(0, fails=fails)
    one.info["nonce"] = NONCE
    folder = save_whole(one, tmp_path / "rec")
    (folder / "report.html").write_text("<p>a page</p>")
    found = Signed(folder, shutil.copytree(keys, tmp_path / "keys"))
    found.trust()
    signature.sign(folder, found.keys / "supplier", ask=False)
    return found


def test_what_the_supplier_signed_is_proven(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = signed.verified(capsys, f"--nonce={NONCE}")
    assert (status, out.splitlines()[-1]) == (0, "PROVEN ACCEPTED")
    assert "signed by supplier" in out
    assert "nonce PO-4711" in out
    assert signed.by_openssh()


def test_a_proven_rejection_ends_with_1(tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = made(tmp_path, keys, fails=True).verified(capsys)
    assert (status, out.splitlines()[-1]) == (1, "PROVEN REJECTED")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["record.json", "telemetry.jsonl", "report.html", "statement.json", "SHA256SUMS"])
def test_one_byte_changed_in_any_file(signed: Signed, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = signed.folder / name
    text = path.read_text()
    place = len(text) // 2
    path.write_text(text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :])
    assert signed.verified(capsys)[0] == 6
    assert not signed.by_openssh()


def test_a_byte_of_the_signature(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    path = signed.folder / "SHA256SUMS.sig"
    lines = path.read_text().splitlines()
    lines[2] = lines[2][::-1]
    path.write_text("\n".join(lines) + "\n")
    status, out = signed.verified(capsys)
    assert status == 6
    assert "against it: SHA256SUMS.sig: " in out
    assert not signed.by_openssh()


def _as_rejected(signed: Signed) -> None:
    """Edit a verdict, and everything that depends on it as far as a forger knows it."""
    raw = json.loads((signed.folder / "record.json").read_text())
    raw["closing"]["line"] = raw["closing"]["line"].replace("8/8", "9/9")
    raw["sha256"] = record.seal(raw)
    (signed.folder / "record.json").write_text(json.dumps(raw))
    signed.sums()


def _anew_by_a_stranger(signed: Signed) -> None:
    _as_rejected(signed)
    signed.sign("stranger")


FORGERIES: dict[str, tuple[Callable[[Signed], object], str]] = {
    "record and sums together": (_as_rejected, "SHA256SUMS.sig: "),
    "anew by a stranger": (_anew_by_a_stranger, "no key of"),
    "another key": (lambda one: one.sign("stranger"), "no key of"),
    "another namespace": (lambda one: one.sign("supplier", namespace="file"), "namespace"),
    "another name": (lambda one: one.trust("stranger"), "no key of"),
    "not valid yet": (lambda one: one.trust(options='valid-after="20990101"'), "or it is not valid today"),
    "no signature": (lambda one: (one.folder / "SHA256SUMS.sig").unlink(), "the record is not signed"),
}


@pytest.mark.parametrize("how", FORGERIES)
def test_a_forgery_is_refused_both_ways(signed: Signed, capsys: pytest.CaptureFixture[str], how: str) -> None:
    forge, says = FORGERIES[how]
    forge(signed)
    status, out = signed.verified(capsys)
    assert (status, out.splitlines()[-1]) == (6, "NOT PROVEN")
    assert any(line.startswith("against it: ") and says in line for line in out.splitlines()), out
    assert not signed.by_openssh()


@pytest.mark.parametrize(("options", "says"), TABLES["refused"])
def test_another_signer_a_revoked_key_and_an_older_run(
    signed: Signed, capsys: pytest.CaptureFixture[str], options: str, says: str
) -> None:
    with signed.signers.open("a") as file:
        file.write(f"buyer {(signed.keys / 'buyer.pub').read_text()}")
    status, out = signed.verified(capsys, options.format(keys=signed.keys))
    assert status == 6
    assert says in out


def test_what_the_supplier_signed_against_the_facts(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    """The signature is good, and the record contradicts itself: only whoever works it out anew sees that."""
    _as_rejected(signed)
    signed.sign("supplier")
    status, out = signed.verified(capsys)
    assert status == 6
    assert "against it: statement.json does not follow from the record" in out
    assert out.count("against it: ") >= 2


def test_telemetry_of_another_run(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    (signed.folder / "telemetry.jsonl").write_text('{"uuid": "GPU-other"}\n')
    signed.sums()
    signed.sign("supplier")
    assert signed.verified(capsys)[0] == 6


def test_the_statement_names_the_result_and_the_threshold_files(signed: Signed) -> None:
    found = json.loads((signed.folder / "statement.json").read_text())["predicate"]
    saved = record.read(signed.folder / "record.json")
    assert (found["verdict"], found["closingLine"]) == ("ACCEPTED", saved.closing.line)
    assert found["thresholds"] == saved.sku["files"]


def test_a_record_that_is_not_believed_is_not_signed(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    _as_rejected(signed)
    assert main(["sign", str(signed.folder), f"--key={signed.keys / 'supplier'}"]) == 4
    assert "record.json: is not signed: " in capsys.readouterr().err


def test_a_key_that_cannot_sign_is_known_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    ran = as_user.pytest(tmp_path, "--accel-simulate=h100-sxm", "--accel-sign=key", sku=None, paths=(), refused=True)
    assert ran.exit == 4
    assert ran.out.startswith("ERROR: --accel-sign: key: ssh-keygen cannot sign with it: ")


def test_a_key_with_a_passphrase_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has no person to ask: neither at a terminal nor by a window."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)], check=True)
    (tmp_path / "askpass").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho secret\n")
    (tmp_path / "askpass").chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_ASKPASS", str(tmp_path / "askpass"))
    with pytest.raises(signature.NotSigned, match="a key with a passphrase signs through ssh-agent"):
        signature.demand_key(key)
    assert not (tmp_path / "asked").exists()


def test_a_run_signs_its_record(tmp_path: Path, keys: Path) -> None:
    as_user.write(tmp_path, test_mine="def test_it(accel_device):\n    assert accel_device.memory_bytes\n")
    options = ("--accel-simulate=h100-sxm", f"--accel-sign={keys / 'supplier'}", "--accel-nonce=PO-1")
    ran = as_user.pytest(tmp_path, *options, f"--accel-output={tmp_path / 'out'}", sku=None)
    assert f"signed: {tmp_path / 'out'}/SHA256SUMS.sig" in ran.out
    (tmp_path / "signers").write_text(f"supplier {(keys / 'supplier.pub').read_text()}")
    with RecordFiles(tmp_path / "out" / record.FILE) as files:
        found = signature.verify(files, signature.Trust(tmp_path / "signers", nonce="PO-1"))
    assert found.signer == "supplier"
    assert found.objections == []


def test_only_record_json_is_signed_and_verified(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    """The sums name record.json: a record beside it under another name would be proven by the signature of that."""
    other = signed.folder / "other.json"
    shutil.copy(signed.folder / "record.json", other)
    for command in (["verify", f"--allowed-signers={signed.signers}"], ["sign", f"--key={signed.keys / 'supplier'}"]):
        assert main([command[0], str(other), command[1]]) == 4
        assert "other.json: only record.json is signed and verified, under no other name" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["report.html", "summary.json", "telemetry.jsonl.gz"])
def test_a_file_beside_the_record_that_the_sums_do_not_name(
    signed: Signed, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    sums = (signed.folder / "SHA256SUMS").read_text().splitlines(keepends=True)
    (signed.folder / "SHA256SUMS").write_text("".join(line for line in sums if not line.endswith(f"  {name}\n")))
    (signed.folder / name).write_text("<h1>ACCEPTED</h1>")
    signed.sign("supplier")
    status, out = signed.verified(capsys)
    assert (status, f"against it: SHA256SUMS has no line for {name}" in out) == (6, True)


@pytest.mark.parametrize("option", ["--nonce=", "--nonce=  ", "--signer="])
def test_an_empty_nonce_or_signer_is_refused(signed: Signed, capsys: pytest.CaptureFixture[str], option: str) -> None:
    """An empty variable of the shell would prove a record that was made without one, or by another signer."""
    with pytest.raises(SystemExit) as ended:
        signed.verified(capsys, option)
    assert ended.value.code == 4


def test_a_list_of_revoked_keys_that_is_not_there(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(signed.folder), f"--allowed-signers={signed.signers}", "--revoked=nofile"]) == 4
    assert "nofile: cannot be read: No such file" in capsys.readouterr().err


LISTS = {
    "another purpose first": ('git@sup namespaces="git" {key}\nacc@sup namespaces="accel-record" {key}\n', "acc@sup"),
    "quoted names, out of date first": (
        '"old@sup,git@sup" valid-before="20200101" {key}\n"x@sup" namespaces="git" {key}\nacc@sup {key}\n',
        "acc@sup",
    ),
    "a pattern before a name": ("*@sup,acc@sup {key}\n", "acc@sup"),
    "another line in a comment": ("supplier {stranger} comment\x0cacc@sup {key}\nsupplier@sup {key}\n", "supplier@sup"),
    "patterns alone": ("!evil@sup,*@sup {key}\n", "a key that is listed for !evil@sup,*@sup"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("case", LISTS)
def test_every_line_of_a_key_is_tried_and_a_pattern_is_no_name(
    signed: Signed, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    text, name = LISTS[case]
    made = {name: " ".join((signed.keys / f"{name}.pub").read_text().split()[:2]) for name in ("supplier", "stranger")}
    signed.signers.write_text(text.format(key=made["supplier"], stranger=made["stranger"]))
    status, out = signed.verified(capsys)
    assert (status, out.splitlines()[0]) == (0, f"signed by {name}")


def test_what_else_lies_in_the_folder_takes_no_proof_away(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(signed.folder / "SHA256SUMS.x.sig")
    (signed.folder / "notes.txt").write_text("of the buyer")
    assert signed.verified(capsys)[0] == 0


def test_telemetry_in_another_folder(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    """The name that a record states leads to no file of the reader's machine."""
    raw = json.loads((signed.folder / "record.json").read_text())
    raw["telemetry"]["file"] = "../../etc/passwd"
    raw["sha256"] = record.seal(raw)
    (signed.folder / "record.json").write_text(json.dumps(raw))
    assert main(["sign", str(signed.folder), f"--key={signed.keys / 'supplier'}"]) == 4
    assert "'../../etc/passwd' is not the name of a file beside it" in capsys.readouterr().err


def test_the_command_that_signs_later_can_be_pasted(tmp_path: Path, keys: Path) -> None:
    key, output = tmp_path / "a key;touch x", tmp_path / "a b"
    shutil.copy2(keys / "supplier", key)
    as_user.write(tmp_path, test_mine=f"def test_it(accel_device):\n    os.remove({str(key)!r})\n")
    options = ("--accel-simulate=h100-sxm", f"--accel-sign={key}", f"--accel-output={output}")
    ran = as_user.pytest(tmp_path, *options, "-k", "gpu0", sku=None)

    (later,) = re.findall(r"^not signed: .*; later: (.*)$", ran.out, re.MULTILINE)
    assert shlex.split(later) == ["pytest-accel", "sign", str(output), "--key", str(key)]


def test_a_record_that_was_judged_again_accepts_nothing(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    raw = json.loads((signed.folder / "record.json").read_text())
    raw["judged_from"] = {"record": "../first/record.json", "judged": "2026-11-28T00:00:00+00:00"}
    raw["sha256"] = record.seal(raw)
    (signed.folder / "record.json").write_text(json.dumps(raw))
    (signed.folder / "summary.json").unlink()
    signature.sign(signed.folder, signed.keys / "supplier", ask=False)
    status, out = signed.verified(capsys)
    assert (status, "against it: it is judged again, and accepts nothing" in out) == (6, True)


def test_a_record_that_was_measured_on_a_simulated_node_in_part_is_not_believed(signed: Signed) -> None:
    raw = json.loads((signed.folder / "record.json").read_text())
    raw["measurements"][3]["simulated"] = True
    raw["sha256"] = record.seal(raw)
    (signed.folder / "record.json").write_text(json.dumps(raw))
    assert "a part of it was measured on a simulated node" in record.read(signed.folder / "record.json").objections
