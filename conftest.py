"""Nothing here: an acceptance run from an editable install reads this file too. Fixtures are in tests/."""
