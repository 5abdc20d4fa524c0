"""The conclusion from the verdicts on a node: its closing line, and a check that a record adds up. Pure."""
