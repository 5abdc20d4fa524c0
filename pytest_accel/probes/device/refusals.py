"""Why a probe gives no figure, as the worker says it."""

from __future__ import annotations


class Unmeasurable(Exception):
    """Something that the measurement needs is lacking; the text names it."""


class NotApplicable(Exception):
    """The metric cannot exist on this device; the text says why."""


class WrongResult(Exception):
    """The device computed or delivered something wrong; the text says what."""
