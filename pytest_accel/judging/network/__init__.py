"""A network run: who meets in the next round, and what the rounds say about nodes and the paths between them. Pure."""
