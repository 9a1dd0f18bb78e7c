"""One process of the CLI: started in its jail, asked turn by turn, its messages made into events."""
