"""The document of a delivery as JSON, for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from pytest_accel.core.printable import printable_data
from pytest_accel.fleet.delivery.document import words

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery


def text(of: Delivery) -> str:
    """Return a delivery as one JSON object."""
    word, sentence = words.verdict(of)
    plain = {"result": word, "exit": of.exit, "sentence": sentence, **dataclasses.asdict(of)}
    return json.dumps(printable_data(plain), indent=1) + "\n"
