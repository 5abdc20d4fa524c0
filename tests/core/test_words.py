"""Words of messages: the names that a misspelt one may stand for."""

from __future__ import annotations

from support.rows import each_row

from pytest_accel.core.words import did_you_mean

SKUS = ("a10", "a100-sxm", "gb10", "h100-nvl", "h100-pcie", "h100-sxm", "h200-sxm")


@each_row(
    ("word", "known", "hint"),
    [
        ("H100", SKUS, "; did you mean 'h100-nvl' or 'h100-pcie' or 'h100-sxm'?"),
        ("h100-sxm5", SKUS, "; did you mean 'h100-sxm' or 'h200-sxm' or 'a100-sxm'?"),
        ("tflop", ("of_peak", "tflops"), "; did you mean 'tflops'?"),
        ("operation", ("op", "mib", "dtype"), "; did you mean 'op'?"),
        ("tflops", ("TFLOPS", "GB/s"), "; did you mean 'TFLOPS'?"),
        ("x", tuple(f"x{number}" for number in range(9)), "; did you mean 'x0' or 'x1' or 'x2' or 'x3'?"),
        ("nothing", SKUS, ""),
        ("", SKUS, ""),
    ],
)
def test_a_hint_begins_with_the_names_that_the_word_begins(word: str, known: tuple[str, ...], hint: str) -> None:
    assert did_you_mean(word, known) == hint
