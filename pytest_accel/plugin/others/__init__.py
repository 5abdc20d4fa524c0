"""What the plugin adds to the outputs of others. Each module stands alone, and no verdict depends on one."""
