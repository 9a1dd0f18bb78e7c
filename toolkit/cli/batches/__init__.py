"""The commands about batches: many tasks from a file, how they stand, and working them off."""
