"""What a workspace was made of, and whose it is."""
