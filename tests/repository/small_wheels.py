"""Wheels as small as can be, and a build backend: packages with the names of ours and of what it needs."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel(folder: str | Path, name: str, files: Mapping[str, str], needs: Sequence[str] = ()) -> str:
    """Write version 2 of a package, which has the extras `torch` and `dev`; return the name of the file."""
    about = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 2", "Provides-Extra: torch", "Provides-Extra: dev"]
    about += [f"Requires-Dist: {each}" for each in needs]
    told = {"METADATA": "\n".join(about), "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    with zipfile.ZipFile(Path(folder) / f"{name}-2-py3-none-any.whl", "w") as made:
        for path, text in {**files, **{f"{name}-2.dist-info/{file}": text for file, text in told.items()}}.items():
            made.writestr(path, text)
        made.writestr(f"{name}-2.dist-info/RECORD", "")
    return f"{name}-2-py3-none-any.whl"


def build_editable(folder: str, *_: object) -> str:
    """Build pytest_accel for `pip install -e`."""
    return wheel(folder, "pytest_accel", {}, ("pytest", "torch; extra == 'torch'", "tools; extra == 'dev'"))
