"""Rules on the sources of figures."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_accel.core.yaml_nodes import Located
from pytest_accel.skus.lint.linted_file import LintedFile, LintFinding, rule


@rule
def source(subject: LintedFile) -> Iterator[LintFinding]:
    """Require a source for the figures of a datasheet and of a platform, whose date is not in the future."""
    sheet = subject.sku.datasheet
    groups = ("tflops", "memory", "compute", "power", "temperature")
    unsourced = [group for group in groups if getattr(sheet, group) and sheet.source_of(group) is None]
    if unsourced:
        yield subject.warning(
            "datasheet", f"no source of {', '.join(unsourced)}", "expected 'source: {kind, by, date}'"
        )
    for platform in subject.sku.platforms.values():
        figures = [name for name in ("pcie", "host_link", "link", "power_watts") if getattr(platform, name)]
        if figures and platform.source is None:
            why = "expected 'source: {kind, by, date}'"
            yield subject.warning(f"platforms.{platform.name}", f"no source of {', '.join(figures)}", why)
    for key, at in _dates(subject.root, ""):
        stated = str(at.plain())
        if stated > subject.today[: len(stated)]:
            yield subject.error(key, stated, f"expected no later than {subject.today}")


def _dates(at: Located, key: str) -> Iterator[tuple[str, Located]]:
    """Yield the key and date of every source below a value."""
    if not isinstance(at.data, dict):
        return
    if {"kind", "by", "date"} <= at.data.keys():
        yield f"{key}.date", at.data["date"]
    for name, each in at.data.items():
        yield from _dates(each, f"{key}.{name}".lstrip("."))
