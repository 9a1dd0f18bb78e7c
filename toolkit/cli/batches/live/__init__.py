"""A batch on a terminal as it goes on: the screen, what is drawn on it, and what keys do."""
