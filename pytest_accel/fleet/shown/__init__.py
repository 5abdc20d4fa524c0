"""A night of a fleet as something to read: text, one HTML page, metrics for Prometheus."""
