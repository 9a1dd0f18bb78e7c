"""Three tools around one list of notes."""

from dataclasses import dataclass
from typing import Annotated

from toolkit import Toolbox, ToolError, tool


@dataclass
class Note:
    title: str
    tags: list[str]


class Notes:
    """Methods can be tools: they share the object they belong to."""

    def __init__(self) -> None:
        self._notes: list[Note] = []

    @tool
    def add(self, title: str, tags: Annotated[list[str], "words to find it by"] | None = None) -> str:
        """Keep a note."""
        self._notes.append(Note(title, tags or []))
        return f"kept note {len(self._notes)}: {title}"

    @tool(read_only=True)
    def find(self, tag: str) -> list[Note]:
        """List the notes that carry a tag."""
        found = [note for note in self._notes if tag in note.tags]
        if not found:
            known = sorted({tag for note in self._notes for tag in note.tags})
            raise ToolError(f"no note is tagged '{tag}'; there are: {', '.join(known) or 'none'}")
        return found


@Notes.find.renders
def _(found: list[Note]) -> str:
    return "\n".join(f"- {note.title}" for note in found)


notes = Notes()
box = Toolbox("notes", [notes.add, notes.find])
