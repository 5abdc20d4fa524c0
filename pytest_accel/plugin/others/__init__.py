"""Additions to the outputs of other plugins. Each module stands alone, and no verdict depends on one."""
