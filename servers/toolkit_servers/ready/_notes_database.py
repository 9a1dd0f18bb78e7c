"""Notes in one SQLite file, found again by full-text search.

Several processes may use the file at once. A file that is damaged, or is another
program's, is refused and left as it is; only a missing or empty one is filled, at
the first call: who only looks at the tools makes no file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from toolkit.errors import TargetError, ToolError

_APPLICATION = 0x746B6E31  # "tkn1", in the file's header
_VERSION = 1
_BUSY_SECONDS = 10.0
_MOST_TERMS = 50

_SCHEMA = """
CREATE TABLE note (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL
);
CREATE TABLE tag (
    name TEXT NOT NULL,
    note INTEGER NOT NULL REFERENCES note (id) ON DELETE CASCADE,
    PRIMARY KEY (name, note)
) WITHOUT ROWID;
CREATE INDEX tag_of_note ON tag (note);
CREATE VIRTUAL TABLE words USING fts5 (title, text, content = note, content_rowid = id);
CREATE TRIGGER note_added AFTER INSERT ON note BEGIN
    INSERT INTO words (rowid, title, text) VALUES (new.id, new.title, new.text);
END;
CREATE TRIGGER note_removed AFTER DELETE ON note BEGIN
    INSERT INTO words (words, rowid, title, text) VALUES ('delete', old.id, old.title, old.text);
END;
CREATE TRIGGER note_changed AFTER UPDATE ON note BEGIN
    INSERT INTO words (words, rowid, title, text) VALUES ('delete', old.id, old.title, old.text);
    INSERT INTO words (rowid, title, text) VALUES (new.id, new.title, new.text);
END;
"""


@dataclass(frozen=True, slots=True)
class Note:
    """One note."""

    id: int
    title: str
    text: str
    tags: tuple[str, ...]
    created: float
    updated: float


class NotesDatabase:
    """The notes in one file. Every call opens the file anew, so that threads and processes do not share anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_made = False
        """Whether the file was there, with tables in it; from then on it is never made anew."""
        try:
            if path.exists() and path.stat().st_size:
                self._make()
            else:
                _require_room(path)
        except (sqlite3.Error, OSError) as error:
            raise TargetError(
                f"the notes database cannot be used: {error}",
                target="notes",
                where=[str(path)],
                fix="The file was left as it is. Move it away or restore a copy, or name another one: notes:FILE",
            ) from error

    def add(self, title: str, text: str, tags: Sequence[str]) -> Note:
        """Keep a note."""
        now = time.time()
        with self._transaction(writes=True) as db:
            row = db.execute(
                "INSERT INTO note (title, text, created, updated) VALUES (?, ?, ?, ?)", (title, text, now, now)
            )
            assert row.lastrowid is not None
            _set_tags(db, row.lastrowid, tags)
            return _read(db, row.lastrowid)

    def read(self, note: int) -> Note:
        """One note, whole."""
        with self._transaction() as db:
            return _read(db, note)

    def update(self, note: int, title: str | None, text: str | None, tags: Sequence[str] | None) -> Note:
        """Change what is given of a note."""
        with self._transaction(writes=True) as db:
            old = _read(db, note)
            db.execute(
                "UPDATE note SET title = ?, text = ?, updated = ? WHERE id = ?",
                (old.title if title is None else title, old.text if text is None else text, time.time(), note),
            )
            if tags is not None:
                db.execute("DELETE FROM tag WHERE note = ?", (note,))
                _set_tags(db, note, tags)
            return _read(db, note)

    def remove(self, note: int) -> Note:
        """Forget a note; gives it back for the last time."""
        with self._transaction(writes=True) as db:
            old = _read(db, note)
            db.execute("DELETE FROM note WHERE id = ?", (note,))
            return old

    def latest(self, tag: str | None, limit: int) -> tuple[list[Note], int]:
        """The notes changed last, and how many there are in all."""
        with self._transaction() as db:
            where, values = ("WHERE id IN (SELECT note FROM tag WHERE name = ?)", [tag]) if tag else ("", [])
            total = db.execute(f"SELECT count(*) FROM note {where}", values).fetchone()[0]
            ids = db.execute(f"SELECT id FROM note {where} ORDER BY updated DESC, id DESC LIMIT ?", [*values, limit])
            return [_read(db, row[0]) for row in ids.fetchall()], total

    def tags(self) -> dict[str, int]:
        """The tags in use, and how many notes have each."""
        with self._transaction() as db:
            return dict(db.execute("SELECT name, count(*) FROM tag GROUP BY name ORDER BY count(*) DESC, name"))

    def find(self, query: str, tag: str | None, limit: int) -> list[tuple[Note, str]]:
        """The notes that fit a query best, each with the words around the match.

        All words first; where that finds nothing, any of them; then the text itself,
        which also finds parts of words and signs that are no words.
        """
        terms = _terms(query)
        with self._transaction() as db:
            rows: list[tuple[int, str]] = []
            for joint in (" AND ", " OR "):
                if terms and not rows:
                    rows = db.execute(
                        "SELECT rowid, snippet(words, -1, '', '', '…', 24) FROM words WHERE words MATCH ?1 "
                        "AND (?2 IS NULL OR rowid IN (SELECT note FROM tag WHERE name = ?2)) "
                        "ORDER BY bm25(words, 5.0, 1.0), rowid DESC LIMIT ?3",
                        (joint.join(terms), tag, limit),
                    ).fetchall()
            if not rows:
                rows = db.execute(
                    "SELECT id, substr(text, max(1, instr(lower(text), lower(?1)) - 60), 160) FROM note "
                    "WHERE (instr(lower(text), lower(?1)) OR instr(lower(title), lower(?1))) "
                    "AND (?2 IS NULL OR id IN (SELECT note FROM tag WHERE name = ?2)) ORDER BY updated DESC LIMIT ?3",
                    (query.strip(), tag, limit),
                ).fetchall()
            return [(_read(db, note), words) for note, words in rows]

    def _make(self) -> None:
        """Make the file, or make sure of the one that is there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(self._connect("rwc")) as db:
            _prepare(db)
        self._is_made = True

    @contextlib.contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if not self._is_made:
                self._make()
            with contextlib.closing(self._connect("rw")) as db:
                # IMMEDIATE waits its turn now instead of failing at the first write.
                db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                yield db
                db.execute("COMMIT")
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than anybody asks
            raise ToolError(_IN_WORDS.get(code, f"the notes cannot be used: {error}")) from error
        except OSError as error:
            raise ToolError(f"the notes cannot be used: {error.strerror}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        # Without a mode, SQLite would quietly make a new file where the notes have gone.
        address = f"file:{quote(str(self.path))}?mode={mode}"
        db = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        db.execute("PRAGMA foreign_keys = ON")
        return db


_IN_WORDS = {
    sqlite3.SQLITE_BUSY: "the notes are in use by another program; try again in a moment",
    sqlite3.SQLITE_LOCKED: "the notes are in use by another program; try again in a moment",
    sqlite3.SQLITE_CORRUPT: "the notes database is damaged; tell the user, who can restore a copy of it",
    sqlite3.SQLITE_NOTADB: "the notes database is damaged; tell the user, who can restore a copy of it",
    sqlite3.SQLITE_CANTOPEN: "the notes database is gone; tell the user",
}


def _require_room(path: Path) -> None:
    """Raise an OSError where no file of this name can be made."""
    if path.exists():
        above = path
    else:
        above = next(folder for folder in path.parents if os.path.lexists(folder))
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    if not os.access(above, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(above))


def _prepare(db: sqlite3.Connection) -> None:
    """Make the tables in a new file; make sure an existing one is ours and sound."""
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        # One by one: `executescript` would end the transaction first.
        for statement in re.split(r"(?<=;)\n(?=CREATE )", _SCHEMA.strip()):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise sqlite3.DatabaseError("it belongs to another program")
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        raise sqlite3.DatabaseError("it was written by a newer toolkit")
    verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"it is damaged: {verdict}")
    with contextlib.suppress(sqlite3.OperationalError):  # someone writes just now: the next to open it will do this
        db.execute("PRAGMA journal_mode = WAL")


def _terms(query: str) -> list[str]:
    """The query's words as FTS5 strings, each a prefix; a "quoted phrase" stays whole. Never FTS5 syntax."""
    found = re.findall(r'"([^"]+)"|([^\s"]+)', query.replace("\0", " "))
    pieces = [(phrase or word, not phrase) for phrase, word in found]
    return [f'"{piece}"' + "*" * is_word for piece, is_word in pieces if re.search(r"\w", piece)][:_MOST_TERMS]


def _set_tags(db: sqlite3.Connection, note: int, tags: Sequence[str]) -> None:
    db.executemany("INSERT OR IGNORE INTO tag (name, note) VALUES (?, ?)", [(tag, note) for tag in tags])


def _read(db: sqlite3.Connection, note: int) -> Note:
    row = db.execute("SELECT id, title, text, created, updated FROM note WHERE id = ?", (note,)).fetchone()
    if row is None:
        raise ToolError(f"there is no note {note}; find_notes and list_notes show which there are")
    tags = tuple(name for (name,) in db.execute("SELECT name FROM tag WHERE note = ? ORDER BY name", (note,)))
    return Note(row[0], row[1], row[2], tags, row[3], row[4])
