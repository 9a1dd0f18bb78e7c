"""What a live run is made of: its prompts, who answers its questions, and how its turns are ended and written down."""
