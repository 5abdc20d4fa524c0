"""Time limits of other plugins that would end pytest without a closing line."""

from __future__ import annotations

import pytest

THREAD = "thread"
_WHY = (
    "{where} ends pytest with os._exit(1) when a test takes too long, without a closing line; "
    "use --timeout-method=signal, or --accel-time-limit for the whole run"
)


def ends_pytest(config: pytest.Config) -> str | None:
    """Return a sentence if pytest-timeout or pytest's faulthandler would end the process of pytest."""
    if _by_faulthandler(config):
        return _WHY.format(where="faulthandler_exit_on_timeout in the ini file")
    if not _loaded(config):
        return None
    if config.option.timeout_method == THREAD:
        return _WHY.format(where="--timeout-method=thread")
    chosen = config.option.timeout_method or config.getini("timeout_method")
    return _WHY.format(where="timeout_method = thread in the ini file") if chosen == THREAD else None


def marker_ends_pytest(item: pytest.Item) -> str | None:
    """Return a sentence if a marker of pytest-timeout would end the process of pytest, None if there is no such one."""
    if not _loaded(item.config):
        return None
    for mark in item.iter_markers("timeout"):
        method = mark.kwargs.get("method", mark.args[1] if len(mark.args) > 1 else None)
        if method == THREAD:
            return _WHY.format(where=f"the marker timeout(method='thread') of {item.nodeid}")
    return None


def _by_faulthandler(config: pytest.Config) -> bool:
    """Return True if pytest's own timeout ends the process. Versions before 9 do not know it."""
    try:
        return bool(config.getini("faulthandler_exit_on_timeout")) and float(config.getini("faulthandler_timeout")) > 0
    except (KeyError, ValueError):
        return False


def _loaded(config: pytest.Config) -> bool:
    """Return True if pytest-timeout takes part in this run."""
    return hasattr(config.option, "timeout_method")
