"""Views of a record: terminal, JUnit, pytest-benchmark."""
