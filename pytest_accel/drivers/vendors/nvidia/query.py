"""Queries of NVML: its fields, which are fetched together, and the meaning of its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_accel.drivers.interface import DriverProblem
from pytest_accel.drivers.library_query import Answerer, Asker, Refusal, Table, as_it_is, or_raise, sources_of

UPGRADE = "upgrade nvidia-ml-py"
"""The remedy for a wrapper that is too old."""


@dataclass(frozen=True)
class Field(Answerer):
    """One value of nvmlDeviceGetFieldValues: the name of its id (or the id), and its scope, such as an NVLink."""

    name: str | int
    read: Callable[[Any], Any] = as_it_is
    scope: int = 0


class NvmlAsker(Asker):
    """One round of queries to one GPU."""

    def __init__(self, nvml: Any, handle: Any, driver: str) -> None:
        super().__init__(nvml, handle)
        self._nvml, self._driver = nvml, driver

    def ask(self, table: Table) -> dict[str, Any]:
        """Query the facts of a table; all of its fields are fetched by one call."""
        self._ask_fields([source for source in sources_of(table) if isinstance(source, Field)])
        return super().ask(table)

    def _answer(self, source: Answerer) -> Any:
        return self._field(source) if isinstance(source, Field) else super()._answer(source)

    def _error(self, status: int) -> Exception:
        return self._nvml.NVMLError(status)  # type: ignore[no-any-return]

    def _ask_fields(self, fields: list[Field]) -> None:
        """Fetch all fields that are not known yet by one call."""
        ids = dict.fromkeys(key for field in fields if (key := self._id(field)) and key not in self._answers)
        if not ids:
            return
        answers = self._attempt(lambda: self._nvml.nvmlDeviceGetFieldValues(self._handle, list(ids)))
        for index, key in enumerate(ids):
            self._answers[key] = answers if isinstance(answers, Refusal) else self._value(answers[index])

    def _id(self, field: Field) -> tuple[int, int] | None:
        number = field.name if isinstance(field.name, int) else getattr(self._nvml, field.name, None)
        return None if number is None else (number, field.scope)

    def _field(self, field: Field) -> Any:
        key = self._id(field)
        if key is None:
            raise Refusal(f"this pynvml has no {field.name}: {UPGRADE}")
        return or_raise(self._answers[key])

    def _value(self, answer: Any) -> Any:
        """Return the value of one field, or its refusal."""
        nvml = self._nvml
        if answer.nvmlReturn == nvml.NVML_ERROR_INVALID_ARGUMENT:  # the answer to an unknown id
            return Refusal(f"driver {self._driver} does not have it", unsupported=True)
        if answer.nvmlReturn != nvml.NVML_SUCCESS:
            return self._refusal(nvml.NVMLError(answer.nvmlReturn))
        return field_value(nvml, answer)

    def _attempt(self, question: Callable[[], Any]) -> Any:
        nvml = self._nvml
        try:
            return question()
        except nvml.NVMLError as error:
            return self._refusal(error)
        except AttributeError as error:  # the package, which a user can exchange: nobody knows what the GPU would say
            return Refusal(f"this pynvml has no {error.name or 'function for it'}: {UPGRADE}")
        except (TypeError, getattr(nvml, "NVMLLibraryMismatchError", TypeError)):
            return Refusal(f"pynvml or driver {self._driver} is too old for it", unsupported=True)
        except ValueError as error:
            return Refusal(f"the library's answer cannot be interpreted: {error}")

    def _refusal(self, error: Any) -> Refusal:
        nvml, code = self._nvml, error.value
        if code in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            raise DriverProblem(str(error))
        if code == nvml.NVML_ERROR_NOT_SUPPORTED:
            # of a sandbox such as gVisor, too, which says so of every question that it does not pass on
            return Refusal("this GPU or its driver does not support it", unsupported=True)
        if code == getattr(nvml, "NVML_ERROR_DEPRECATED", 26):
            return Refusal(f"driver {self._driver} does not have it any more", unsupported=True)
        if code in (nvml.NVML_ERROR_FUNCTION_NOT_FOUND, getattr(nvml, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", 25)):
            return Refusal(f"driver {self._driver} does not have it", unsupported=True)
        if code == nvml.NVML_ERROR_NO_PERMISSION:
            return Refusal("this user may not read it: run as root")
        return Refusal(f"NVML: {error}")


def field_value(nvml: Any, answer: Any) -> float:
    """Return the value of a field according to the type that the library states."""
    kinds = {
        nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        getattr(nvml, "NVML_VALUE_TYPE_SIGNED_INT", 5): "siVal",
        getattr(nvml, "NVML_VALUE_TYPE_UNSIGNED_SHORT", 6): "usVal",
    }
    return getattr(answer.value, kinds.get(answer.valueType, "ullVal"))  # type: ignore[no-any-return]


def text(value: str | bytes) -> str:
    """Return a text of NVML, which some versions of pynvml return as bytes."""
    return value.decode() if isinstance(value, bytes) else value
