"""The nights of a fleet: the store that keeps them, what is asked of it, and what the answers show."""
