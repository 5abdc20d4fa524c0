"""The device as torch drives it, the worker process, and the one loop that times anything."""
