"""Many nodes: runs on their scheduler, the history of a fleet, and what it shows that one node cannot."""
