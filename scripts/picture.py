"""Writes docs/terminal.svg: a run on a simulated node, as a terminal of 100 columns shows it. Takes half a minute.

The run is a real one, without the plugins of others. Two things are changed: the name of its temporary folder, and long
lines, which are broken between words.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/terminal.svg"
COLUMNS, ROWS = 100, 40
NODE = """\
sku: h100-sxm
faults:
  - {fault: thermal-slowdown, device: 3}
"""
COMMAND = ("pytest", "--accel-simulate=node.yaml", "--accel-level=quick", "-k", "test_soak or test_stream")
SHOWN_FOLDER = "/home/user/handover"
FONT_OF_THE_NETWORK = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
PIECE = re.compile(r"(?P<escape>\x1b\[[0-9;]*[A-Za-z])|(?P<back>\x08)|(?P<character>.)")


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command in a pseudo-terminal and return everything that it wrote there."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=inside, stdout=inside, stderr=inside):
        os.close(inside)
        output = b"".join(iter(lambda: _block(terminal), b""))
    os.close(terminal)
    return output.decode()


def _block(terminal: int) -> bytes:
    """Return the output since the last call, empty at the end, which Linux reports as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def as_seen(output: str) -> str:
    """Return the visible rest of a terminal's output, colours included: carriage returns and backspaces are done."""
    return "\n".join(_line_as_seen(line) for line in output.replace("\r\n", "\n").split("\n"))


def _line_as_seen(line: str) -> str:
    """Write one line into cells, each a character with the escape sequences before it."""
    cells: list[str] = []
    column, pending = 0, ""
    for piece in PIECE.finditer(line.rpartition("\r")[2]):
        if piece["escape"]:
            pending += piece["escape"]
        elif piece["back"]:
            column = max(column - 1, 0)
        else:
            cells[column : column + 1] = [pending + piece["character"]]
            column, pending = column + 1, ""
    return "".join(cells) + pending


def rendered(screen: str, title: str) -> str:
    """Return text with ANSI colours as an SVG that refers to no other file."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen))
    return FONT_OF_THE_NETWORK.sub("", console.export_svg(title=title, unique_id="terminal"))


def main() -> None:
    """Show the node file and run the command on it, render what both printed, and write the picture."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV", "COLUMNS"))}
    environment = {
        **inherited,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_accel.plugin",
        "TERM": "xterm-256color",
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "node.yaml").write_text(NODE, encoding="utf-8")
        lines = [
            f"$ {shlex.join(command)}\n{as_seen(run(command, Path(folder), environment))}"
            for command in (("cat", "node.yaml"), COMMAND)
        ]
    screen = "".join(lines).replace(folder, SHOWN_FOLDER).rstrip()
    PICTURE.write_text(rendered(screen, "a simulated node"), encoding="utf-8")


if __name__ == "__main__":
    main()
