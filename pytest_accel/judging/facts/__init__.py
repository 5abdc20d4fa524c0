"""The facts, counters and error reports of a node, as measurements. Pure."""
