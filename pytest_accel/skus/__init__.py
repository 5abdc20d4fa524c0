"""Threshold files: reading and checking them, and the limits that they require."""
