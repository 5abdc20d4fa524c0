"""Reads mutated files in a process of its own: `python fuzz_readers.py KIND SEED CASES FOLDER`.

Every case has to end with success or with the reader's own error. A case that takes more than SECONDS of CPU time ends
the process by a signal, and the file is left in the folder. The result is printed as JSON.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from pytest_accel.cli.main import main
from pytest_accel.core.measurement import Device, Names
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import folder_summary, telemetry_file
from pytest_accel.simulate import node
from pytest_accel.skus import loader, packing_list, waivers
from pytest_accel.views.html import traces

SECONDS = 10.0

_SHORT = r"""
!!bool maybe|!!timestamp x|!!int x|!!float x|!!binary =|!!set {a, b}|!!omap [a: 1]|!x y|<<: *a|- |? |~|null
!!python/object/apply:os.system [id]|&a [*a]|&b {x: *b}|*c|? [a]|2026-13-45|2026-01-01T99:99:99+99:99|1:2:3:4
NaN|Infinity|-Infinity|.nan|.inf|-.inf|1e999999999|1.0e+999999999|-1e-999999999|'3,400'|-0|0|-1|1e308|5e-324
true|off|"inf"|"nan"|{"a": 1}|["inf"]|/dev/zero|../../x|\ud800|%s{0}|"|'|,|:|#|{}|[]|[|{|}|]|>|\u001b|"\u001b[2J"
"""
_CONTROL = ["\0", "\x1b[2J", "\n", "\r", "\t", "\u202e", "\u2028", "\ufeff", "\x85", "\u0663", "\u00b2", "\u00e9"]
_LONG = [
    *("9" * 5_000, "0x" + "f" * 5_000, "1" + "0" * 400, "0b" + "1" * 9_000, "1_" * 3_000, "- " * 5_000, "x" * 200_000),
    *("[" * 200_000, "{" * 50_000, '{"a":' * 20_000, "[[" * 30 + "]]" * 30, '"' + "\\" * 9_999),
    "\n".join(["a0: &a0 [1,1,1,1,1,1,1,1]", *(f"a{n}: &a{n} [{f'*a{n - 1},' * 8}]" for n in range(1, 9))]),
    "".join(f"key{n}: 1\n" for n in range(30_000)),
    "---\nx: 1\n---\n",
    "%YAML 9.9\n---\n",
]
NASTY = [*_SHORT.strip().replace("\n", "|").split("|"), *_CONTROL, *_LONG]
VALUES: list[Any] = [
    *(None, True, 0, -1, 2**62, 1e308, -1e308, 5e-324, 0.0, "inf", "nan", "-inf", "", "x", "\x1b[2J\n", [], {}, [[]]),
    *(["inf"], [0.0, 0.0], {"a": {"b": 1}}, "2026-11-01", 10**18, [None], [1, "x"]),
]


def mutated(text: bytes, chance: random.Random) -> bytes:
    """Return a text with one to four mutations: nasty tokens, and bytes and lines cut, repeated, swapped or flipped."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((1, 3, 10, 100)))
        token = chance.choice(NASTY).encode("utf-8", "surrogatepass")
        how = chance.randrange(8)
        if how < 3:
            text = _in_place_of_a_value(text, token, chance)
        elif how == 3:
            text = text[:start] + token + text[start:]
        elif how == 4:
            text = text[:start] + text[end:]
        elif how == 5:
            text = text[:start] + text[start:end] * chance.choice((2, 50)) + text[end:]
        elif how == 6:
            text = text[:start] + bytes(chance.randrange(256) for _ in text[start:end]) + text[end:]
        else:
            lines = text.split(b"\n")
            chance.shuffle(lines) if chance.random() < 0.2 else lines.insert(chance.randrange(len(lines)), lines[0])
            text = b"\n".join(lines)
    return text


def _in_place_of_a_value(text: bytes, token: bytes, chance: random.Random) -> bytes:
    """Replace what follows one colon, comma or space up to the next comma, brace or end of line."""
    begins = [place + 1 for place, each in enumerate(text) if each in b":, "]
    start = chance.choice(begins or [0])
    end = next((place for place in range(start, len(text)) if text[place] in b",}]\n"), len(text))
    return text[:start] + b" " + token + text[end:]


def mutated_record(text: bytes, chance: random.Random) -> bytes:
    """Return a record with one to three values replaced, most of them by one of the same type; or mutated as a text."""
    if chance.random() < 0.4:
        return mutated(text, chance)
    record = json.loads(text)
    for _ in range(chance.choice((1, 1, 2, 3))):
        holder, key = chance.choice(list(_places(record)))
        with contextlib.suppress(KeyError, IndexError):
            alike = [value for value in VALUES if isinstance(value, type(holder[key]))]
            holder[key] = copy.deepcopy(chance.choice(alike if alike and chance.random() < 0.8 else VALUES))
    return json.dumps(record).encode()


def _places(value: Any) -> Any:
    """Yield (container, key) of every value inside of a value."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(each)


def judge(path: Path) -> None:
    """Judge a file as the command does. Raises BadFile for exit status 4."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(errors):
        status = main(["judge", str(path)])
    assert status in (0, 1, 4, 6)
    assert "\x1b" not in shown.getvalue() + errors.getvalue(), "an escape sequence reached the output"
    if status == 4:
        raise BadFile(errors.getvalue())


def draw(path: Path) -> None:
    """Draw the readings of a file as the HTML report does."""
    uuids = re.findall(r"GPU-[0-9a-f-]{36}", path.read_text("utf-8", "replace"))
    names = Names.of([Device(uuid, place, "nvidia", "Part") for place, uuid in enumerate(dict.fromkeys(uuids))])
    traces.traces(telemetry_file.readings(path), traces.TraceWindow(0.0, 1e11, True), names)


READERS: dict[str, tuple[str, Callable[[bytes, random.Random], bytes], Callable[[Path], object]]] = {
    "thresholds": ("mine.yaml", mutated, lambda path: loader.load(str(path))),
    "waivers": ("waivers.yaml", mutated, lambda path: waivers.load(path, "node", date(2026, 11, 22))),
    "node": ("node.yaml", mutated, lambda path: node.load(str(path))),
    "record": ("record.json", mutated_record, judge),
    "delivery": ("delivery.csv", mutated, packing_list.load),
    "summary": ("summary.json", mutated_record, folder_summary.of_file),
    "telemetry": ("telemetry.jsonl", mutated, draw),
}
"""By kind the name of the files, how they are mutated, and what reads one."""


def fuzz(kind: str, seed: int, cases: int, folder: Path) -> dict[str, Any]:
    """Read `cases` mutations of every file in `folder`/KIND; return counts, tracebacks, and the time of the slowest."""
    name, mutate, read = READERS[kind]
    chance = random.Random(seed)  # noqa: S311  the same cases every time
    originals = [path.read_bytes() for path in sorted((folder / kind).iterdir())]
    path = folder / f"{kind}-case" / name
    path.parent.mkdir(exist_ok=True)
    found: dict[str, Any] = {"cases": 0, "read": 0, "refused": 0, "tracebacks": [], "slowest": 0.0}
    for original in originals:  # mutations of what nobody reads would prove nothing
        path.write_bytes(original)
        read(path)
    for case in range(cases):
        path.write_bytes(mutate(originals[case % len(originals)], chance))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its default action ends the process, even inside of C
        began = time.process_time()
        try:
            read(path)
            found["read"] += 1
        except BadFile as bad:
            found["refused"] += 1
            if not str(bad).isprintable() and not all(map(str.isprintable, str(bad).split("\n"))):
                found["tracebacks"].append(f"case {case}: not printable: {str(bad)[:500]!r}")
        except Exception:  # noqa: BLE001  the very thing that is looked for
            found["tracebacks"].append(f"case {case}: {traceback.format_exc()[-1500:]}")
            (folder / f"{kind}-{case}-{name}").write_bytes(path.read_bytes())
        found["slowest"] = max(found["slowest"], time.process_time() - began)
        found["cases"] += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    found["mib"] = _most_mib()
    return found


def _most_mib() -> float:
    """Return the peak of the resident memory. That of getrusage holds the parent's as well, from before exec."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) / 1024


if __name__ == "__main__":
    print(json.dumps(fuzz(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))))  # noqa: T201  the result
