"""The figures of the one comparison that the store reads until it calls `distance` itself."""

from __future__ import annotations

from pytest_accel.judging import distance

OF_MEDIAN = distance.OF_MEDIAN
FOUND_AT, FAILS_AT = distance.RULES["neighbours"]["memory"].sigmas, distance.RULES["fleet"]["memory"].sigmas
LEAST = {"memory": 0.01, "host": 0.01, "link": 0.01, "compute": 0.02}
