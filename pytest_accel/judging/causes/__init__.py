"""The cause of a shortfall, and the fault code and next step that follow. Pure."""
