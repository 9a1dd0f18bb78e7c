"""Whole projects as their owners have them, worked on in the jail."""
