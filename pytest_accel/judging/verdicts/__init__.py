"""The verdict on a value: distances, limits, neighbours, the past, and repeats. Pure."""
