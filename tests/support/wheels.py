"""What is published, built from this checkout, and environments that have it instead of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "__pycache__", ".*_cache")


def build(folder: Path) -> Path:
    """Return the directory with what `python -m build` makes of this checkout, from a copy of it in `folder`."""
    copy = folder / "checkout"
    shutil.copytree(CHECKOUT, copy, ignore=NOT_SOURCE)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"], cwd=copy)
    return copy / "dist"


def environment(root: Path, *built: Path) -> Path:
    """Return the commands of an environment with these wheels, and with our dependencies but not the checkout."""
    venv.create(root, symlinks=True, with_pip=True)
    python = root / "bin" / "python"
    run([python, "-m", "pip", "install", "--no-deps", "--no-index", *built], cwd=root)
    # Directories that a .pth file names are searched, but the .pth files in them, an editable
    # install's among them, are not read.
    borrowed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    site = only(root, "lib/python*/site-packages")
    (site / "borrowed.pth").write_text("\n".join(borrowed))
    command = root / "bin" / "pytest"  # which an installation of pytest in this place would have made
    command.write_text(f"#!{python}\nimport pytest\nraise SystemExit(pytest.console_main())\n")
    command.chmod(0o755)
    return root / "bin"


def only(directory: Path, pattern: str) -> Path:
    """Return the one path that matches."""
    (path,) = directory.glob(pattern)
    return path


def run(command: Sequence[str | Path], cwd: Path) -> str:
    """Run a command that knows nothing of this run's surroundings; return what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "COV"))}
    done = subprocess.run(command, cwd=cwd, env=inherited, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
