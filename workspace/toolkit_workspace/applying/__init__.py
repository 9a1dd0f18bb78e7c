"""Take changes back to the host."""
