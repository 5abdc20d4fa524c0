"""What the verdicts say of the node: the closing line, and whether a record's acceptance adds up. Pure."""
