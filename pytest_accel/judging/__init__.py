"""Judging: from measurements to verdicts to the closing line. Pure: reads no clock, no file and no device."""
