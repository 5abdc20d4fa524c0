"""Signals and the time limit of a run: both end pytest as Ctrl-C does, with the record written."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any

import pytest

from pytest_accel.run.deadline import HURRY_SECONDS, Deadline

TIME_LIMIT = "the time limit of the run"
"""The reason why a run ended early by --accel-time-limit."""


class Interrupts:
    """A plugin object that interrupts the run at its time limit, and by SIGINT, SIGTERM and SIGHUP, until `restore`.

    The first signal raises KeyboardInterrupt in the main thread; further ones are ignored.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._handlers: dict[int, Any] = {}
        self._timer: threading.Timer | None = None
        self._time_is_up = False
        self.reason = ""
        """The cause of an early end: "Ctrl-C", the name of a signal, TIME_LIMIT or another text; empty for none."""

    def begin(self) -> None:
        """Install the handlers, and the timer that interrupts a test or a plugin that goes on up to the time limit."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and is respected
                self._handlers[number] = signal.signal(number, self._stop)
        if self._deadline.limit is not None and signal.SIGTERM in self._handlers:
            self._timer = threading.Timer(max(0.0, self._deadline.until(HURRY_SECONDS)), self._hurry)
            self._timer.daemon = True
            self._timer.start()

    def no_timer(self) -> None:
        """Let the time limit interrupt nothing any more: the run is being closed."""
        if self._timer:
            self._timer.cancel()

    def restore(self) -> None:
        """Give the signals back to the handlers that were there before."""
        self.no_timer()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note the reason of an interrupt, unless a signal handler has noted it.

        An error of the collection comes as an interrupt too, with a text. An internal error is no interrupt.
        """
        _give_lines(excinfo)
        if getattr(excinfo.value, "returncode", None) != pytest.ExitCode.INTERNAL_ERROR:
            self.reason = self.reason or str(excinfo.value) or "Ctrl-C"

    def _stop(self, number: int, _frame: object) -> None:
        if not self.reason:
            cause = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            self.reason = TIME_LIMIT if self._time_is_up else cause
            raise KeyboardInterrupt

    def _hurry(self) -> None:
        """End the main thread's work as SIGTERM does, and say that it was the time limit."""
        self._time_is_up = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _give_lines(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Give every frame of a traceback a line: that of its function, where the interrupted instruction has none."""
    # a signal may arrive at an instruction that Python added itself, and pytest cannot show a traceback of such a frame
    entries: list[TracebackType] = []
    entry: TracebackType | None = excinfo.tb
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    if all(entry.tb_lineno for entry in entries):  # it may be None, which the type of the property does not tell
        return
    mended: TracebackType | None = None
    for entry in reversed(entries):
        line = entry.tb_lineno or entry.tb_frame.f_code.co_firstlineno
        mended = TracebackType(mended, entry.tb_frame, entry.tb_lasti, line)
    if mended is not None:
        excinfo.traceback = type(excinfo.traceback)(mended)


# -- time limits of other plugins that would end pytest without a closing line


THREAD = "thread"
_WHY = (
    "{where} ends pytest with os._exit(1) when a test takes too long, without a closing line; "
    "use --timeout-method=signal, or --accel-time-limit for the whole run"
)


def ends_pytest(config: pytest.Config) -> str | None:
    """Return a sentence if pytest-timeout or pytest's faulthandler would end the process of pytest."""
    if _by_faulthandler(config):
        return _WHY.format(where="faulthandler_exit_on_timeout in the ini file")
    if not hasattr(config.option, "timeout_method"):  # pytest-timeout takes no part
        return None
    if config.option.timeout_method == THREAD:
        return _WHY.format(where="--timeout-method=thread")
    method = config.option.timeout_method or config.getini("timeout_method")
    return _WHY.format(where="timeout_method = thread in the ini file") if method == THREAD else None


def marker_ends_pytest(item: pytest.Item) -> str | None:
    """Return a sentence if a marker of pytest-timeout would end the process of pytest, None if there is no such one."""
    for mark in item.iter_markers("timeout") if hasattr(item.config.option, "timeout_method") else ():
        method = mark.kwargs.get("method", mark.args[1] if len(mark.args) > 1 else None)
        if method == THREAD:
            return _WHY.format(where=f"the marker timeout(method='thread') of {item.nodeid}")
    return None


def _by_faulthandler(config: pytest.Config) -> bool:
    """Return True if pytest's own timeout ends the process."""
    try:  # versions before 9 do not know it
        return bool(config.getini("faulthandler_exit_on_timeout")) and float(config.getini("faulthandler_timeout")) > 0
    except (KeyError, ValueError):
        return False
