"""Threshold files: read, checked, and what they require."""
