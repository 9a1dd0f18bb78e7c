"""What the README prints is typed by a test, word for word, in a fresh folder, as root and as a plain user."""
