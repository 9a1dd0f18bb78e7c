"""Notes that an agent edits, a client reads, and a person starts a conversation about."""

from dataclasses import dataclass

from toolkit import Toolbox, ToolContext, prompt, resource, tool
from toolkit.tools import Cancelled, Declined


@dataclass
class Note:
    id: int
    text: str


NOTES = {1: Note(1, "Buy milk")}


@resource("notes://{id}")
def note(id: int) -> Note | None:
    """One note."""
    return NOTES.get(id)


@prompt
def summarise(id: int) -> str:
    """Summarise a note."""
    return f"Summarise this note: {NOTES[id].text}"


@tool
async def edit(id: int, text: str, ctx: ToolContext) -> str:
    """Change a note, once somebody agrees."""
    agreed = await ctx.ask(f"Change note {id}?", bool, default=True)
    if isinstance(agreed, Declined | Cancelled) or not agreed:
        return "left as it is"
    NOTES[id] = Note(id, text)
    ctx.changed(f"notes://{id}")
    return "changed"


box = Toolbox("notes", [edit, note, summarise])
