"""Our own vendors: a module or package each, declared in pyproject.toml in the entry points of any vendor."""
