"""Copy what was selected into the workspace."""
