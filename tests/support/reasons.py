"""Verdicts with a sentence of a test's own."""

from pytest_accel.core.reasons import Note, Reason


def worded(text: str) -> tuple[Reason, ...]:
    """Return the reasons of a verdict whose sentence is the text."""
    return (Note("trouble", text),) if text else ()
