"""Saved records in the formats of other tools: a function from a record to text for each."""
