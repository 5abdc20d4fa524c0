"""Views that turn a record or a SKU into text: for the terminal, for Markdown, for pytest-benchmark."""
