"""Conversations that go on: kept outside of every jail, resumed in a later run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.sessions.transcripts import default_store as default_store, one_at_a_time as one_at_a_time

_HOMES = {
    "toolkit.runs.sessions.transcripts": (
        "default_store",
        "one_at_a_time",
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
