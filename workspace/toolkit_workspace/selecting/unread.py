"""Tell which files may not be read before anybody reads them, and say what was left out for that.

What a stat says is believed where it says yes. Only where it says no a file is opened: an access control list
or a capability may still allow it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from toolkit._base.words import safe_name

if TYPE_CHECKING:
    from toolkit_workspace.selecting.tally import LeftOut

_MOST_NAMED = 10


def may_read(st: os.stat_result) -> bool:
    """Whether the permission bits of a file let us read it; if not, only an open can tell."""
    if st.st_mode & 0o444 == 0o444:
        return True
    if st.st_uid == os.geteuid():
        return bool(st.st_mode & 0o400)
    return bool(st.st_mode & (0o040 if st.st_gid in _groups(os.getegid()) else 0o004))


@cache
def _groups(own: int) -> frozenset[int]:
    return frozenset({own, *os.getgroups()})


def left_unread_text(left: Sequence[tuple[str, LeftOut]]) -> str | None:
    """One line for what did not come along, by the mount's place and the entry; None where all could be read."""
    found = [os.path.normpath(f"{at}/{one.path}") for at, one in left if one.why == "unreadable"]
    if not found:
        return None
    more = [f"and {'more' if len(found) > _MOST_NAMED + 1 else '1 more'}"] if len(found) > _MOST_NAMED else []
    named = ", ".join([*map(safe_name, found[:_MOST_NAMED]), *more])
    it = "it" if len(found) == 1 else "them"
    return f"left out, because you may not read {it}: {named}"
