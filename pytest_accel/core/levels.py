"""The levels of a run. A module of its own, because pytest imports it at every start."""

LEVELS = ("quick", "standard", "long")
