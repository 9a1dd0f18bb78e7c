"""What the launcher does around the agent."""
