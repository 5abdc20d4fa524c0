"""What a node states, counts and reports, as measurements. Pure."""
