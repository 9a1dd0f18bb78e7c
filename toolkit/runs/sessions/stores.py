"""Where conversations are kept between processes: a folder of files, or one SQLite database.

Both fulfil the SDK's `SessionStore` contract, so either can be given wherever the
SDK takes one. An entry that carries a `uuid` is kept once, however often it arrives.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry, fold_session_summary

from toolkit._base.locks import hold, take_lock
from toolkit.runs.sessions.transcripts import digest, transcripts

T = TypeVar("T")
Entries = list[SessionStoreEntry]


class _Summaries(SessionStore):
    """Summaries of all sessions, made from their transcripts when they are asked for."""

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """One summary for each session of a project."""
        summaries = []
        for listed in await self.list_sessions(project_key):
            key: SessionKey = {"project_key": project_key, "session_id": listed["session_id"]}
            summary = fold_session_summary(None, key, await self.load(key) or [])
            summaries.append({**summary, "mtime": listed["mtime"]})
        return summaries


class FileSessionStore(_Summaries):
    """One JSON-lines file for each transcript, below a folder."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._known: dict[Path, tuple[int, set[str]]] = {}
        """The ids in a file of that size, so that a long transcript is not read again for every line."""

    async def append(self, key: SessionKey, entries: Entries) -> None:
        """Add entries to a transcript, each `uuid` once."""
        await asyncio.to_thread(self.add, key, entries)

    async def load(self, key: SessionKey) -> Entries | None:
        """All entries of a transcript; None if there is none."""
        return await asyncio.to_thread(self._load, key)

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The sessions of a project with the time of their last entry."""
        return await asyncio.to_thread(self._sessions, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Remove a transcript; a session's own takes those of its subagents along."""
        await asyncio.to_thread(self._delete, key)

    async def list_subkeys(self, key: Any) -> list[str]:
        """The transcripts of a session's subagents."""
        found = await asyncio.to_thread(self._keys_of, key["project_key"], key["session_id"])
        return [kept["subpath"] for kept in found if "subpath" in kept]

    def _path(self, key: SessionKey) -> Path:
        name = digest(key["session_id"] + "\0" + key.get("subpath", ""))
        return transcripts(self._folder, key["project_key"], key["session_id"]) / f"{name}.jsonl"

    def add(self, key: SessionKey, entries: Entries) -> None:
        """`append`, where nothing else waits."""
        path = self._path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a+b") as file:
            hold(file.fileno(), wait=True)
            size, seen = self._known.get(path, (-1, set[str]()))
            if file.seek(0, os.SEEK_END) != size or not size:
                seen = _ids_in(file)
            fresh = [] if file.tell() else [json.dumps(key)]
            for entry in entries:
                id = str(entry.get("uuid") or "")
                if not id or id not in seen:
                    fresh.append(json.dumps(entry))
                    seen.add(id)
            self._known.pop(path, None)
            file.write("".join(line + "\n" for line in fresh).encode())
            file.flush()
            self._known[path] = (file.tell(), seen)

    def _load(self, key: SessionKey) -> Entries | None:
        try:
            lines = self._path(key).read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in lines[1:] if line.endswith(b"\n")]

    def _sessions(self, project_key: str) -> list[Any]:
        latest: dict[str, int] = {}
        for kept, path in self._kept(self._folder.glob("*/*/*.jsonl")):
            if kept["project_key"] == project_key and "subpath" not in kept:
                latest[kept["session_id"]] = path.stat().st_mtime_ns // 1_000_000
        return [{"session_id": session, "mtime": mtime} for session, mtime in latest.items()]

    def _keys_of(self, project_key: str, session_id: str) -> list[SessionKey]:
        folder = self._path({"project_key": project_key, "session_id": session_id}).parent
        return [kept for kept, _ in self._kept(folder.glob("*.jsonl"))]

    def _kept(self, paths: Iterable[Path]) -> Iterator[tuple[SessionKey, Path]]:
        for path in sorted(paths):
            with path.open("rb") as file:
                first = file.readline()
            if first.endswith(b"\n"):  # else a writer was killed before it had written anything
                yield json.loads(first), path

    def _delete(self, key: SessionKey) -> None:
        doomed = [key] if "subpath" in key else self._keys_of(key["project_key"], key["session_id"])
        for each in doomed:
            self._path(each).unlink(missing_ok=True)


def _ids_in(file: BinaryIO) -> set[str]:
    """The ids of the entries in a transcript; a line that was cut short by a kill is removed."""
    file.seek(0)
    lines = file.read().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        file.truncate(sum(map(len, lines[:-1])))
        lines.pop()
    file.seek(0, os.SEEK_END)
    return {str(entry.get("uuid") or "") for entry in map(json.loads, lines[1:])}


_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
  place INTEGER PRIMARY KEY,
  project TEXT NOT NULL, session TEXT NOT NULL, subpath TEXT NOT NULL,
  uuid TEXT, entry TEXT NOT NULL, at INTEGER NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS once ON entries (project, session, subpath, uuid) WHERE uuid IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_key ON entries (project, session, subpath);
"""


class SqliteSessionStore(_Summaries):
    """All transcripts in one SQLite file that several processes may share."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._made: tuple[int, int] | None = None
        """The file that is known to have its tables."""

    async def append(self, key: SessionKey, entries: Entries) -> None:
        """Add entries to a transcript, each `uuid` once."""
        rows = [(*_columns(key), entry.get("uuid"), json.dumps(entry), int(time.time() * 1000)) for entry in entries]
        sql = "INSERT OR IGNORE INTO entries (project, session, subpath, uuid, entry, at) VALUES (?, ?, ?, ?, ?, ?)"
        await self._do(lambda db: db.executemany(sql, rows))

    async def load(self, key: SessionKey) -> Entries | None:
        """All entries of a transcript; None if there is none."""
        sql = "SELECT entry FROM entries WHERE project = ? AND session = ? AND subpath = ? ORDER BY place"
        rows = await self._do(lambda db: db.execute(sql, _columns(key)).fetchall())
        return [json.loads(entry) for (entry,) in rows] or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The sessions of a project with the time of their last entry."""
        sql = "SELECT session, max(at) FROM entries WHERE project = ? AND subpath = '' GROUP BY session"
        rows = await self._do(lambda db: db.execute(sql, (project_key,)).fetchall())
        return [{"session_id": session, "mtime": at} for session, at in rows]

    async def delete(self, key: SessionKey) -> None:
        """Remove a transcript; a session's own takes those of its subagents along."""
        sql, columns = "DELETE FROM entries WHERE project = ? AND session = ?", _columns(key)
        if "subpath" in key:
            await self._do(lambda db: db.execute(sql + " AND subpath = ?", columns))
        else:
            await self._do(lambda db: db.execute(sql, columns[:2]))

    async def list_subkeys(self, key: Any) -> list[str]:
        """The transcripts of a session's subagents."""
        sql = "SELECT DISTINCT subpath FROM entries WHERE project = ? AND session = ? AND subpath != ''"
        rows = await self._do(lambda db: db.execute(sql, _columns(key)[:2]).fetchall())
        return [subpath for (subpath,) in rows]

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def in_thread() -> T:
            with self._open() as db:
                return work(db)

        return await asyncio.to_thread(in_thread)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if self._made is None or self._made != self._file():
            self._make()
        with closing(sqlite3.connect(self._path, timeout=30)) as db, db:
            yield db

    def _make(self) -> None:
        """Make the file with its tables, one process and thread at a time: SQLite does not wait for others there."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            take_lock(self._path.with_name(f"{self._path.name}.lock"), wait=True) or nullcontext(),
            closing(sqlite3.connect(self._path, timeout=30)) as db,
        ):
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(_SCHEMA)
            self._made = self._file()

    def _file(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def _columns(key: SessionKey) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath", "")
