"""Version ranges: what lies within, and what is refused."""

import pytest

from pytest_accel.core.versions import BadRange, parse, spanning


@pytest.mark.parametrize(
    ("text", "version", "holds"),
    [
        (">=2.18", "2.18.0", True),
        (">=2.18", "2.9", False),  # by number, not by letter
        (">2.18", "2.18.0", False),
        ("<3", "3.0", False),
        ("<=2.18.5", "2.18.5", True),
        ("==2.20", "2.20.0", True),
        ("==2.20", "2.20.5", False),
        (">= 2.18 , < 3", "3.1", False),
        (">=2.7", "2.13.0+cpu", True),
        (">=2.7", "2.6.0a0+git1234", False),
        (">=570.86.15,<575", "570.124.06", True),
        (">=550.54", "550.100", True),
        (">=96.00.A5.00.03", "96.00.B0.00.01", True),
        (">=96.00.A5.00.03", "96.00.99.00.11", False),  # the pairs are hexadecimal
        (">=96.00.0A", "96.00.10", True),
        (">=2.18", "unknown", None),
        (">=2.18", "", None),
    ],
)
def test_a_version_and_a_range(text: str, version: str, holds: bool | None) -> None:
    assert parse(text).holds(version) is holds


@pytest.mark.parametrize(
    "text", ["", "2.18", ">=", ">=2.18,", "~=2.18", ">=2.x", "=>2.18", "!=2.18", ">=2.18 <3", ">=v2"]
)
def test_what_is_no_range_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(BadRange, match=r"such as >=2.18 \(known operators: >=, <=, ==, >, <\)"):
        parse(text)


@pytest.mark.parametrize(
    ("versions", "spanned"),
    [
        (["2.7.0", "2.8.1+cu128"], ">=2.7,<2.9"),
        (["2.10.0", "2.9.1"], ">=2.9,<2.11"),
        (["2.27.3"], ">=2.27,<2.28"),
        (["2.7.0", "unknown"], None),
        ([], None),
    ],
)
def test_the_range_of_minor_versions_that_were_found(versions: list[str], spanned: str | None) -> None:
    assert spanning(versions) == spanned
    assert spanned is None or all(parse(spanned).holds(each) for each in versions)
