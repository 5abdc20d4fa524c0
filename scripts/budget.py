"""Count the lines of code of the package and hold them to its budget: scripts/budget.py.

Lines of code hold anything but blanks, comments and docstrings. A change that takes lines away lowers the budget by as
many; one that adds a feature says in its commit what the feature replaces.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

BUDGET = 33_130
"""The most lines of code that the package may have."""
PACKAGE = Path(__file__).parents[1] / "pytest_accel"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Return the number of lines of code of a module."""
    code, docstrings = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code - docstrings)


def main() -> int:
    """Print the lines and the budget; return 1 where there are more."""
    lines = sum(code_lines(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    print(f"pytest_accel: {lines:,} lines of code of {BUDGET:,}")
    if lines > BUDGET:
        print(f"scripts/budget.py: {lines - BUDGET:,} lines too many: say what the change replaces", file=sys.stderr)
    return int(lines > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
