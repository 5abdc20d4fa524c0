"""A peer without the secret that reaches the store of a fabric run: it reads, forges, exchanges, removes and replays.

python fabric_peer.py HOST PORT FILE: with a FILE that is not there, it only keeps what the store holds; with one, it
attacks, and replays what the file holds.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

PREFIX = "pytest-accel-fabric"
FORGED = {
    "report/{n}/1": '{"outcome": "wrong", "text": "forged"}',
    "report/{n}/2": '{"outcome": "measured", "value": 0.0117}',
    "task/2/{n}": '{"kind": "end", "part": {"found": "good", "score": 99.0}}',
    "node/1": "[" * 4000,
    "node/2": '{"name": "node2", "devices": 1000000000000000000000000000000}',
    "agent/3": "{}",
}
"""Messages as they would be without a seal: those of the review that found the store open."""


def connected(host: str, port: int) -> Any:
    """The store, as soon as there is one."""
    store = importlib.import_module("torch.distributed").TCPStore
    while True:
        try:
            return store(host, port, is_master=False, timeout=timedelta(seconds=5))
        except RuntimeError as error:
            sys.stdout.write(f"{str(error)[:300]}\n")
            sys.stdout.flush()
            time.sleep(0.2)


def main(host: str, port: int, file: Path) -> None:
    """Go on until the store is gone."""
    earlier = json.loads(file.read_text()) if file.exists() else None
    store, seen = connected(host, port), dict[str, str]()
    for key, text in (earlier or {}).items():
        store.set(key, text)
    while True:
        try:
            if earlier is not None:
                for number in range(4):
                    for name, text in FORGED.items():
                        store.set(f"{PREFIX}/{name.format(n=number)}", text)
            messages = [key for key in store.list_keys() if key.startswith(PREFIX) and key.count("/") == 1]
            for key in (key for key in messages if key not in seen and key not in (earlier or {})):
                text = store.get(key).decode(errors="replace")
                if earlier is not None:
                    tampered = (text.replace("0.0", "0.9"), next(iter(seen.values()), "{}"), "[" * 100, None)
                    chosen = tampered[len(seen) % len(tampered)]
                    store.delete_key(key) if chosen is None else store.set(key, chosen)
                seen[key] = text
            if earlier is None:
                file.with_suffix(".new").write_text(json.dumps(seen))
                file.with_suffix(".new").replace(file)
            sys.stdout.write(f"{len(seen)} messages\n")
            sys.stdout.flush()
            time.sleep(0.05)
        except RuntimeError as error:
            sys.stdout.write(f"{error}\n")
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
