"""A memory that outlives the session: notes with tags, found again by their words.

They are kept in one SQLite file (see `_notes_database`), which several agents may use at
the same time.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from toolkit.tools import Toolbox, ToolContext, tool
from toolkit_servers.ready._notes_database import Note, NotesDatabase
from toolkit_servers.ready.answers import one_line, with_remarks
from toolkit_servers.ready.given import refuse_misfit

_MOST_CHARS = 120_000
"""Characters of a result: a whole note always fits."""

Id = Annotated[int, Field(ge=1, le=2**62)]
Text = Annotated[str, Field(pattern=r"\S", max_length=100_000)]
Title = Annotated[str, Field(max_length=200)]
Tag = Annotated[str, Field(pattern=r"^\s*[^\s,]+\s*$", max_length=50), AfterValidator(lambda tag: tag.strip().lower())]
Tags = Annotated[list[Tag], Field(max_length=20)]
Limit = Annotated[int, Field(ge=1, le=200)]


class NoteTools:
    """The tools on one database."""

    def __init__(self, database: NotesDatabase) -> None:
        self._database = database

    @tool(destructive=False, idempotent=False, open_world=False)
    def add_note(self, context: ToolContext, text: Text, title: Title = "", tags: Tags | None = None) -> str:
        """Keep something for later sessions: a decision, a preference, where something is found.

        Args:
            text: What to remember; it should make sense on its own.
            title: A few words it will be recognised by.
            tags: Words to list it under, such as the project's name.
        """
        note = self._to_change(context).add(one_line(title), text, tags or [])
        return f"Kept as note {note.id}."

    @tool(read_only=True, max_chars=_MOST_CHARS, open_world=False)
    def find_notes(
        self, query: Annotated[str, Field(pattern=r"\S", max_length=1_000)], tag: Tag | None = None, limit: Limit = 10
    ) -> str:
        """Find notes by their words, the best match first. Look here before asking what may be known already.

        Args:
            query: Words, beginnings of words, or a "phrase in quotes".
            tag: Only notes with this tag.
            limit: Most notes to give back.
        """
        found = self._database.find(query, tag, limit)
        return _listed(found, "read_note gives a note whole" if found else self._nothing(tag))

    @tool(read_only=True, max_chars=_MOST_CHARS, open_world=False)
    def read_note(self, note: Id) -> str:
        """Read one note whole.

        Args:
            note: Its number.
        """
        found = self._database.read(note)
        return f"{_head(found)}\n\n{found.text}"

    @tool(destructive=True, idempotent=True, open_world=False)
    def update_note(
        self,
        context: ToolContext,
        note: Id,
        text: Text | None = None,
        title: Title | None = None,
        tags: Tags | None = None,
    ) -> str:
        """Correct a note. What is not given stays as it is.

        Args:
            note: Its number.
            text: The new text, in place of the old one.
            title: The new title.
            tags: The new tags, in place of the old ones.
        """
        words = None if title is None else one_line(title)
        changed = self._to_change(context).update(note, words, text, tags)
        return f"Updated. {_head(changed)}"

    @tool(destructive=True, idempotent=True, open_world=False)
    def remove_note(self, context: ToolContext, note: Id) -> str:
        """Forget a note that is wrong or no longer needed.

        Args:
            note: Its number.
        """
        return f"Removed. {_head(self._to_change(context).remove(note))}"

    @tool(read_only=True, max_chars=_MOST_CHARS, open_world=False)
    def list_notes(self, tag: Tag | None = None, limit: Limit = 30) -> str:
        """List the notes changed last, and the tags there are.

        Args:
            tag: Only notes with this tag.
            limit: Most notes to give back.
        """
        latest, total = self._database.latest(tag, limit)
        beginnings = [(note, note.text[:120] + ("…" if len(note.text) > 120 else "")) for note in latest]
        remark = f"{len(latest)} of {total:,} notes; {self._tags()}" if latest else self._nothing(tag)
        return _listed(beginnings, remark)

    def _to_change(self, context: ToolContext) -> NotesDatabase:
        """The database, unless the run protects its file."""
        context.check_change(self._database.path)
        return self._database

    def _nothing(self, tag: str | None) -> str:
        return f"nothing found{f' under the tag {tag}' if tag else ''}; {self._tags()}"

    def _tags(self) -> str:
        tags = self._database.tags()
        said = ", ".join(f"{name} ({count})" for name, count in list(tags.items())[:50])
        return f"tags: {said}" if said else "there are no tags yet"


def notes(database: Path | None = None) -> Toolbox:
    """A memory in the SQLite file `database`; `toolkit/notes.db` in the user's data folder if not given.

    Raises:
        TargetError: the file is damaged or is no notes database, and is left as it is; or `database` is no path.
    """
    refuse_misfit(notes, database=database)
    kept = NoteTools(NotesDatabase((Path(database) if database else _default()).expanduser().absolute()))
    return Toolbox(
        "notes",
        [kept.add_note, kept.find_notes, kept.read_note, kept.update_note, kept.remove_note, kept.list_notes],
        instructions="Notes outlive this session. Look for what is known before you begin; keep what will be useful.",
    )


def _default() -> Path:
    if home := os.environ.get("TOOLKIT_HOME"):
        return Path(home) / "notes.db"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "toolkit" / "notes.db"


def _listed(notes: list[tuple[Note, str]], remark: str) -> str:
    """Head line and some words of each note, then a remark."""
    return with_remarks([f"{_head(note)}\n    {one_line(words)}" for note, words in notes], [remark])


def _head(note: Note) -> str:
    tags = f"  ({', '.join(note.tags)})" if note.tags else ""
    title = f" {note.title}" if note.title else ""
    return f"note {note.id}, {datetime.fromtimestamp(note.updated, UTC):%Y-%m-%d}:{title}{tags}"
