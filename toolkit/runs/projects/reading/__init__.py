"""What a project file says: its bytes, read once, become keys whose every value is as its rule wants it."""
