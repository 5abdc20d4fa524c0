"""The child processes of a run, the sensor and the workers: how they are started, heard, waited for and ended."""
