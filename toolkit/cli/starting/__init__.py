"""The commands that start a run: `run`, where it works (`place`), and `init`, which writes down what runs are given."""
