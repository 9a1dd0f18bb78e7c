"""The model's side of a conversation, written down beforehand: turns, a script of them, and an API that says them."""
