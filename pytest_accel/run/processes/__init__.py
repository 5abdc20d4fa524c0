"""The processes of a run as pytest sees them: the sensor and the workers, started, heard, waited for, ended."""
