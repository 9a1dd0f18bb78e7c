"""The commands about runs that were started: look at them, answer, stop, rewind, take back, remove."""
