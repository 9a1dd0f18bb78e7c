"""Remember how a workspace looked, and go back."""
