"""The library of collectives: its settings, and the account that it gives of what it did. No torch.

NCCL and RCCL say at NCCL_DEBUG=INFO how the ranks are connected and, since version 2.20, which algorithm each call uses
(NCCL, src/enqueue.cc: "Bytes -> Algo", printed by rank 0 for the subsystem TUNING; older versions have the line in a
comment). Every rank writes into a file of its own in memory, one line of about 100 bytes for each call.
"""

from __future__ import annotations

import os
import pwd
import re
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.details import CollectiveAccount
from pytest_accel.core.reasons import Note

SETTINGS = ("NCCL_", "RCCL_", "CCL_", "HCCL_")
"""Prefixes of the environment variables that configure collectives."""

WITH_ACCOUNT = "nccl"
"""The backend of torch.distributed whose library, NCCL or RCCL, gives an account."""

ASKED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING"}
FILE = "NCCL_DEBUG_FILE"

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
"""The algorithms by number, as versions 2.20 to 2.23 print them (NCCL and RCCL, src/include/nccl_common.h)."""
PROTOCOLS = ("ll", "ll128", "simple")

MOST_LINES = 40
"""Lines of the account that are kept in the record."""

_CALL = re.compile(
    r"(?:\b(?P<function>\w+): )?\b(?P<bytes>\d{1,20}) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)"
    r"(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\})?"
)
"""2.20: "8589934592 Bytes -> Algo 4 proto 2 time 18000.1"; 2.23 begins with "AllReduce: "; 2.24 has names and channels:
"AllReduce: 8589934592 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}"."""
_VERSION = re.compile(r"(?:NCCL version|RCCL version ?:) *(\S+)")
_CHANNELS = re.compile(r"\b(\d{1,20}) coll channels")
_VIA = re.compile(r" via (NET/[^/\n]+/\d+\S*|(?:P2P|SHM|COLLNET|NET)(?:/[A-Za-z]\w*)*)")
"""The connection of two ranks, such as "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"; between nodes with the number
of the NIC and, behind it in parentheses, the rank whose process drives it: "via NET/IB/3/GDRDMA", "via NET/Socket/0",
"via NET/IB/3(1)/GDRDMA(PCI)/Shared" (NCCL 2.30, src/transport/net.cc)."""
_WITHOUT_NVLS = re.compile(r"NVLS multicast support is not available|Proceeding without NVLS")
"""NCCL, src/transport/nvls.cc: the GPU or its fabric has no multicast, or its memory could not be bound to it."""
_PREFIX = re.compile(r"^.*?NCCL (?:INFO|WARN) ")
_TELLING = ("NCCL version", "RCCL version", "coll channels", "NVLS", "set by environment", "NCCL WARN", "P2P between")
"""Texts of the lines that are kept."""


def conf_files(
    environment: Mapping[str, str], root: Path = Path("/"), home: Path | None = None
) -> dict[str, dict[str, str]]:
    """Return the settings of the collectives in NCCL's configuration files, by file, the file that counts first.

    NCCL reads the file that NCCL_CONF_FILE names, or else ~/.nccl.conf, and then /etc/nccl.conf. The first value of a
    variable counts, and one in the environment counts more (NCCL, src/misc/param.cc).
    """
    name = environment.get("NCCL_CONF_FILE")
    user_file = Path(name) if name else (home or _home()) / ".nccl.conf"
    settings_by_file = {str(path): _settings_in(path) for path in (user_file, root / "etc/nccl.conf")}
    return {path: settings for path, settings in settings_by_file.items() if settings}


CHOOSING = ("NCCL_ALGO", "NCCL_NVLS_ENABLE", "NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE")
"""Settings by which a user chooses the algorithm of a collective, or a plugin that does (NCCL user guide, environment
variables). NCCL_NVLS_ENABLE does so only where it is 0."""
RESTRICTING = (
    "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_CUMEM_ENABLE", "NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS",
    "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO", "NCCL_SHM_DISABLE",
)  # fmt: skip
"""Settings by which a user makes collectives slower (NCCL user guide, environment variables)."""
HARMLESS = {("NCCL_P2P_DISABLE", "0"), ("NCCL_SHM_DISABLE", "0")}
"""Values of such settings that restrict nothing."""


def excusing(conditions: Mapping[str, Any]) -> list[Note]:
    """Return the user's settings among the conditions of collectives (`Rank.collectives`) that excuse a slow one.

    "chosen" is one that chose the algorithm, "restricted" one that makes collectives slower. Those of the environment
    do not reach the workers; those of NCCL's own files do.
    """
    sources = {"the environment": conditions.get("environment", {}), **conditions.get("conf_files", {})}
    notes = Note("chosen", _setting(sources, CHOOSING)), Note("restricted", _setting(sources, RESTRICTING))
    return [note for note in notes if note.text]


def _setting(sources: Mapping[str, Mapping[str, object]], names: Iterable[str]) -> str:
    """Return the first of these settings that is in force, with its source; empty without one.

    The first source that has a setting counts.
    """
    for name in names:
        matches = [(source, str(settings[name]).strip()) for source, settings in sources.items() if name in settings]
        source, text = matches[0] if matches else ("", "")
        # one that enables something is meant where it is 0, one that disables something where it is not
        if text and (not name.endswith("_ENABLE") or text == "0") and (name, text) not in HARMLESS:
            return f"{name}={text} in {source}"
    return ""


def _home() -> Path:
    """Return the home directory of the user as the password file has it, which is where NCCL looks."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/nonexistent")


def _settings_in(path: Path) -> dict[str, str]:
    """Return the settings of collectives in a file of lines such as NCCL_ALGO=Ring; empty if it cannot be read."""
    try:
        lines = untrusted.read_host(path).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    settings: dict[str, str] = {}
    for name, _, text in pairs:
        if name.startswith(SETTINGS):
            settings.setdefault(name, text)  # the first value of a variable counts
    return settings


def own_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that configure collectives, without those of `ask_for_account`."""
    by_plugin = all(environment.get(name) == text for name, text in ASKED.items())
    own_names = (*ASKED, FILE) if by_plugin else ()
    return {name: text for name, text in environment.items() if name.startswith(SETTINGS) and name not in own_names}


def ask_for_account(environment: MutableMapping[str, str], file: str, files: Mapping[str, Mapping[str, str]]) -> str:
    """Have the library write its account into `file`. Return why it does not, or an empty text.

    A user's own NCCL_DEBUG variables, in the environment or in a configuration file (`files`), are left as they are.
    The library reads the variables when the first communicator of a process is made.
    """
    target = file.replace("%", "%%")  # %h and %p stand for host and process
    if environment.get(FILE) == target:
        return ""
    for source, settings in (("the environment", environment), *files.items()):
        if conflicts := [name for name in settings if name in (*ASKED, FILE)]:
            return f"not read: {conflicts[0]} is set in {source}"
    environment.update(ASKED, **{FILE: target})
    return ""


@dataclass
class Account:
    """The account of one group's collectives, read from the lines that its ranks wrote."""

    version: str = ""
    channels: int | None = None
    """Channels of collectives that the communicator has."""
    connections: Counter[str] = field(default_factory=Counter)
    """The number of connections between ranks by kind: "P2P/CUMEM", "SHM/direct"."""
    calls: set[tuple[int, str, str, str, int | None]] = field(default_factory=set)
    """(bytes, function, algorithm, protocol, channels) of the calls; the function is empty before 2.23."""
    lines: dict[str, None] = field(default_factory=dict)
    """Lines that tell something, each once, without host and process."""

    def read(self, lines: Iterable[str]) -> None:
        """Add the lines that one rank wrote. Lines of an unknown form are left out."""
        for line in lines:
            if call := _CALL.search(line):
                self._keep(line, self._call(call))
            elif via := _VIA.search(line):
                self.connections[via[1]] += 1
            elif any(text in line for text in _TELLING):
                self._keep(line, True)
                if version := _VERSION.search(line):
                    self.version = version[1]
                if channels := _CHANNELS.search(line):
                    self.channels = int(channels[1])

    def _keep(self, line: str, telling: bool) -> None:
        if telling and len(self.lines) < MOST_LINES:
            self.lines[_PREFIX.sub("", line.strip())] = None

    def _call(self, match: re.Match[str]) -> bool:
        """Add a call, and return True if it is unlike those before."""
        channels = int(match["high"]) - int(match["low"]) + 1 if match["high"] else None
        algorithm, protocol = _named(match["algorithm"], ALGORITHMS), _named(match["protocol"], PROTOCOLS)
        call = int(match["bytes"]), (match["function"] or "").lower(), algorithm, protocol, channels
        is_new = call not in self.calls
        self.calls.add(call)
        return is_new

    def of_call(self, function: str, size: int) -> tuple[dict[str, Any], CollectiveAccount]:
        """Return conditions and details of the calls of one function ("allreduce") with `size` bytes.

        Conditions that the account does not state are absent: `algorithm` unless it states exactly one, and
        `transport` if the connections may not be those that the calls used.
        """
        calls = [call for call in self.calls if call[0] == size and call[1] in ("", function)]
        algorithms = {call[2] for call in calls}
        algorithm = algorithms.pop() if len(algorithms) == 1 else ""
        transport = self._transport(algorithm)
        conditions = {"algorithm": algorithm, "transport": transport}
        details: dict[str, Any] = {
            "version": self.version,
            "protocol": "+".join(sorted({call[3] for call in calls})),
            "channels": max((call[4] for call in calls if call[4]), default=self.channels),
            "connections": dict(self.connections),
            "without_nvls": next((line for line in self.lines if _WITHOUT_NVLS.search(line)), ""),
            "lines": list(self.lines),
        }
        return (
            {name: text for name, text in conditions.items() if text},
            CollectiveAccount(**{name: value for name, value in details.items() if value}),  # type: ignore[typeddict-item]
        )

    def _transport(self, algorithm: str) -> str:
        """Return the transports between the ranks ("P2P", "P2P+SHM"), "NVLS" for that algorithm, or an empty text."""
        if algorithm.startswith("nvls"):
            return "NVLS"
        # without an algorithm the connections of rings are no proof, since NVLS may have been used beside them
        return "+".join(sorted({kind.partition("/")[0] for kind in self.connections})) if algorithm else ""


def _named(text: str, names: tuple[str, ...]) -> str:
    """Return the name of an algorithm or protocol in lower case, also where its number was printed."""
    if not text.isdigit():
        return text.lower()
    return names[int(text)] if int(text) < len(names) else f"number {text}"


def size_of(file: str) -> int:
    """Return the bytes of a file, 0 where there is none."""
    return Path(file).stat().st_size if Path(file).is_file() else 0


def account_of(files: Iterable[Path], start: int = 0) -> Account:
    """Return the account in the ranks' files from byte `start` on. A file that cannot be read is left out."""
    account = Account()
    for path in sorted(files):
        try:
            with path.open(errors="replace") as lines:
                lines.seek(start)
                account.read(lines)
        except OSError:
            continue
    return account
