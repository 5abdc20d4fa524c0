"""One acceptance run: its options, its processes and their order, the locks on devices, and the record."""
