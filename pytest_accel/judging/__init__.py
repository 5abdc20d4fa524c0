"""Judging: measurements to verdicts to the closing line. Pure: no clock, no file, no device."""
