"""One run: processes, order, locks, record."""
