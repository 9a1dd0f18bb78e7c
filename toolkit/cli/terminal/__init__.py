"""What the commands share: their form, what they print, and how a run is shown and followed at a terminal."""
