"""Why a value falls short, and the fault code and next step that follow. Pure."""
