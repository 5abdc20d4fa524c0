"""Conclusions from several records: differences, and limits from known-good devices. Pure."""
