"""The document of a delivery as JSON, for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from pytest_accel.core.printable import printable_data
from pytest_accel.fleet.delivery.document import result

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery


def text(of: Delivery) -> str:
    """Return a delivery as one JSON object."""
    word, sentence = result.verdict(of)
    plain = {"result": word, "exit": of.exit, "sentence": sentence, "reasons": result.reasons(of)}
    plain |= {"unalike": of.unalike, **dataclasses.asdict(of)}
    return json.dumps(printable_data(plain), indent=1) + "\n"
