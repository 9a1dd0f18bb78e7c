"""Conversations that go on: kept outside of every jail, resumed in a later run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.sessions.resume import default_store as default_store
    from toolkit.runs.sessions.resume import one_at_a_time as one_at_a_time
    from toolkit.runs.sessions.stores import FileSessionStore as FileSessionStore
    from toolkit.runs.sessions.stores import SqliteSessionStore as SqliteSessionStore

_HOMES = {
    "toolkit.runs.sessions.resume": (
        "default_store",
        "one_at_a_time",
    ),
    "toolkit.runs.sessions.stores": (
        "FileSessionStore",
        "SqliteSessionStore",
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
