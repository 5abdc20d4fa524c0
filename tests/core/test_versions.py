"""Version ranges: what lies within, and what is refused."""

import pytest
from support.data_files import tables
from support.rows import each_row

from pytest_accel.core.versions import BadRange, parse, spanning

ROWS = tables("core/versions")


@each_row(("text", "version", "holds"), ROWS["held"])
def test_a_version_and_a_range(text: str, version: str, holds: bool | None) -> None:
    assert parse(text).holds(version) is holds


@each_row("text", ["", "2.18", ">=", ">=2.18,", "~=2.18", ">=2.x", "=>2.18", "!=2.18", ">=2.18 <3", ">=v2"])
def test_what_is_no_range_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(BadRange, match=r"such as >=2.18 \(known operators: >=, <=, ==, >, <\)"):
        parse(text)


@each_row(("versions", "spanned"), ROWS["spanned"])
def test_the_range_of_minor_versions_that_were_found(versions: list[str], spanned: str | None) -> None:
    assert spanning(versions) == spanned
    assert spanned is None or all(parse(spanned).holds(version) for version in versions)
