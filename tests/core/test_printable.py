"""Text from outside on one line: nothing in it moves the cursor, forges a line or turns the direction."""

from __future__ import annotations

from support.rows import each_row

from pytest_accel.core.printable import printable, printable_data


@each_row(
    ("text", "shown"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("Grüße, 加速器", "Grüße, 加速器"),
        ("X\x1b[2J\nSIMULATED ACCEPTED", r"X\x1b[2J\nSIMULATED ACCEPTED"),
        ("a\rb\tc\0\x7f\x9b", r"a\rb\tc\x00\x7f\x9b"),
        ("\u202edetpecca\u2066\ufeff", r"\u202edetpecca\u2066\ufeff"),
        ("line\u2028separator\u2029", r"line\u2028separator\u2029"),
        ("lone \udc80", r"lone \udc80"),
    ],
)
def test_every_character_is_visible(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_a_long_text_is_cut_and_says_its_length() -> None:
    assert printable("x" * 3_000, 5) == "xxxxx... (3,000 characters)"


def test_data_are_made_printable_piece_by_piece() -> None:
    assert printable_data({"a\n": ["b\n", 1, None, {"c": "\x1b"}]}) == {r"a\n": [r"b\n", 1, None, {"c": r"\x1b"}]}
