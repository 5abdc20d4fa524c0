"""What several records say together: differences, and limits from known-good devices. Pure."""
