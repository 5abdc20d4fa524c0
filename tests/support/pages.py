"""Read a page of the documentation, and do what it says.

A fenced block may name a file in its info string, and a reader is told to save it under that name:

    ```yaml title="x1.yaml"       writes the file
    ```yaml append="x1.yaml"      adds to the file

A block in the language `console` is a session of a shell. Lines that begin with `$ ` are commands; the lines below a
command are an excerpt of what it prints. A line `...` stands for any number of lines, `...` within a line for any text.
A command has to end with exit status 0, unless the next command is `echo $?`, which shows the status.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
PROMPT = "$ "
ELLIPSIS = "..."
STATUS = "echo $?"
END = "-- end of the command, status "
SECONDS = 300.0


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `line` is where it begins; `file` is the file that it is saved as or added to."""

    language: str
    text: str
    line: int
    file: str | None = None
    appends: bool = False


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines that the page shows below it."""

    line: str
    shown: tuple[str, ...]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [_block(found, text) for found in FENCE.finditer(text)]


def _block(found: re.Match[str], text: str) -> Block:
    named = dict(ATTRIBUTE.findall(found["info"]))
    indent = len(found["indent"])
    lines = [line[indent:] for line in found["text"].splitlines(keepends=True)]
    return Block(
        language=found["language"],
        text="".join(lines),
        line=text.count("\n", 0, found.start()) + 1,
        file=named.get("title") or named.get("append"),
        appends="append" in named,
    )


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        else:
            found[-1][1].append(line)
    return [Command(line, tuple(shown)) for line, shown in found]


def chapter(page: Path, heading: str, folder: Path) -> Path:
    """Return a page of its own, in `folder`, for one chapter of a page."""
    found = folder / f"{page.stem}: {heading}.md"
    found.write_text(re.split(r"(?m)^## ", page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2])[0])
    return found


def follow(page: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Do what a page says in `folder`: save its files and run its commands.

    Raises AssertionError, with the line of the page, where a command ends or prints otherwise than the page shows.
    """
    for block in blocks(page):
        if block.file:
            _save(block, folder)
        elif block.language == "console":
            _run(block, folder, environment, page.name)


def _save(block: Block, folder: Path) -> None:
    path = folder / str(block.file)
    assert path.resolve().is_relative_to(folder.resolve()), f"line {block.line}: {block.file} is outside of the folder"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a" if block.appends else "w", encoding="utf-8") as file:
        file.write(block.text)


def _run(block: Block, folder: Path, environment: Mapping[str, str], page: str) -> None:
    """Run the commands of a block in one shell."""
    asked = commands(block)
    script = "".join(f"{each.line}\n__status=$?; echo '{END}'$__status; (exit $__status)\n" for each in asked)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    pieces = re.split(rf"^{END}(\d+)\n", done.stdout, flags=re.MULTILINE)
    for place, command in enumerate(asked):
        where = f"{page}, block in line {block.line}: {command.line}"
        printed, status = pieces[2 * place], int(pieces[2 * place + 1])
        shows_status = asked[place + 1 : place + 2] and asked[place + 1].line == STATUS
        assert status == 0 or shows_status, f"{where}\nended with {status}:\n{printed}"
        assert matches(command.shown, printed), (
            f"{where}\nprinted:\n{printed}\nand not, as the page shows:\n" + "\n".join(command.shown)
        )


def matches(shown: tuple[str, ...], printed: str) -> bool:
    """Return True if a command printed, among other lines, what a page shows below it."""
    lines = [
        r"(?:.*\n)*?"
        if line.strip() == ELLIPSIS
        else re.escape(line.rstrip()).replace(re.escape(ELLIPSIS), ".*") + r" *\n"
        for line in shown
    ]
    return re.search("^" + "".join(lines), printed, re.MULTILINE) is not None
