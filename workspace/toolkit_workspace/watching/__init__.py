"""Follow a workspace and its host while an agent works."""
