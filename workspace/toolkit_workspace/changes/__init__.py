"""What an agent did to a workspace."""
