"""Whether a value is good enough: distances, limits, neighbours, the past, and the verdict. Pure."""
