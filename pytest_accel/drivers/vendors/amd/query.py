"""Queries of amdsmi: answers in dictionaries, "N/A" and all ones for no value, and the meaning of its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_accel.drivers.library_query import Answerer, Asker, LibraryCall, Refusal

UNSUPPORTED = (2, 3)
"""AMDSMI_STATUS_NOT_SUPPORTED and AMDSMI_STATUS_NOT_YET_IMPLEMENTED (amdsmi.h)."""
ALSO_UNSUPPORTED = {"amdsmi_gpu_xgmi_error_status": (1,)}
"""Further statuses by which a function says that the device does not have it.

AMDSMI_STATUS_INVAL: since MI300 the kernel knows no counter of xGMI errors, and reading it is EINVAL
(amdgpu_xgmi_show_error without df.funcs->get_fica; ROCm/rocm-systems issue 11468).
"""
NO_PERMISSION = 10
ALL_ONES = (2**32 - 1, 2**64 - 1)
"""The firmware's answers for a value that it does not have, which not every version of amdsmi turns into "N/A"."""


class SmiAsker(Asker):
    """One round of queries to one GPU. amdsmi has no status for a lost GPU: `silent` tells if nothing was answered."""

    def __init__(self, smi: Any, handle: Any) -> None:
        super().__init__(smi, handle)
        self._smi = smi
        self._answered, self._failed = False, ""

    @property
    def silent(self) -> str | None:
        """The reason why every query so far has failed; None if one was answered, or if none was sent to the GPU."""
        return None if self._answered else self._failed or None

    def _answer(self, source: Answerer) -> Any:
        answer = super()._answer(source)
        self._answered = self._answered or getattr(source, "target", "") == "device"
        return answer

    def _invoke(self, call: LibraryCall) -> Any:
        try:
            return super()._invoke(call)
        except self._smi.AmdSmiLibraryException as error:
            if error.get_error_code() not in ALSO_UNSUPPORTED.get(call.name, ()):
                raise
            return absent()

    def _attempt(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._smi.AmdSmiLibraryException as error:
            return self._refusal(error)
        except (AttributeError, self._smi.AmdSmiException):
            return Refusal("this version of amdsmi does not have it", unsupported=True)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            return Refusal(f"the library's answer cannot be interpreted: {error}")

    def _error(self, status: int) -> Exception:
        return self._smi.AmdSmiLibraryException(status)  # type: ignore[no-any-return]

    def _refusal(self, error: Any) -> Refusal:
        code = error.get_error_code()
        if code in UNSUPPORTED:
            return Refusal("this GPU or its driver does not have it", unsupported=True)
        if code == NO_PERMISSION:
            return Refusal("this user may not read it: run as root")
        self._failed = message_of(error)
        return Refusal(f"amdsmi: {self._failed}")


def message_of(error: Any) -> str:
    """Return the first line of an exception of amdsmi."""
    return str(getattr(error, "err_info", "") or error).strip().splitlines()[0]


def absent() -> Refusal:
    """Return the refusal for a value that the GPU does not report."""
    return Refusal("this GPU does not report it", unsupported=True)


def value(*path: str, scale: float = 1, bits: int = 0, positive: bool = False) -> Callable[[Any], Any]:
    """Return a reader of the value under the keys `path`, multiplied by `scale`.

    `bits` is the width of the field if it is less than 32: all ones mean that there is no value. Neither is there one
    if a `positive` field is 0, as the limits of temperature of a virtual function are.
    """

    def read(answer: Any) -> Any:
        for key in path:
            answer = answer[key]
        if is_absent(answer) or (bits and answer == 2**bits - 1) or (positive and not answer):
            raise absent()
        return answer * scale if scale != 1 else answer

    return read


def is_absent(answer: Any) -> bool:
    """Return True if the answer stands for no value."""
    return (isinstance(answer, str) and answer in ("", "N/A")) or (isinstance(answer, int) and answer in ALL_ONES)


def number(*path: str) -> Callable[[Any], int]:
    """Return a reader of a hexadecimal number under the keys `path`, such as "0x74a1"."""
    return lambda answer: int(value(*path)(answer), 16)
