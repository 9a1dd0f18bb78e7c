"""Conversations that go on: kept outside of every jail, resumed in a later run.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.sessions.moving import keep_files as keep_files, kept_files as kept_files

_HOMES = {"toolkit.runs.sessions.moving": "keep_files kept_files"}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
