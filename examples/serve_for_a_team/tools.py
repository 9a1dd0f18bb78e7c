"""Tools for a team: one that only reads, and one that changes something."""

from toolkit import Toolbox, tool

NOTES: list[str] = []


@tool(read_only=True)
def list_notes() -> list[str]:
    """The notes, oldest first."""
    return NOTES


@tool
def add_note(text: str) -> str:
    """Keep a note."""
    NOTES.append(text)
    return f"note {len(NOTES)} is kept"


box = Toolbox("team", [list_notes, add_note])
