"""Mark changes a reviewer should look at twice before taking them back.

A mark is a short reason, never a verdict: the file may be what was asked for. There
is one for what other programs obey without being asked, what can run, what leads out,
what git takes for a repository, and what is made to be misread. `marking/` has each.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.changes.scan import Pair
from toolkit_workspace.marking import (
    IN_A_REPOSITORY,
    Entries,
    PlantedRepositories,
    marks_for_scripts,
    marks_for_spelling,
    marks_for_text,
    marks_for_use,
    shadowed_module,
)
from toolkit_workspace.record.content import Node
from toolkit_workspace.record.record import MountRecord, Record
from toolkit_workspace.record.trouble import is_gone, leads_away, unreadable

if TYPE_CHECKING:
    from toolkit_workspace.places import Places

_MOST_LINKS = 40
LEADS_OUT = "link leads out of its mount"
ONLY_INSIDE = "its target is the agent's own name for a path, which the host does not have: a relative link would do"

LinkReader = Callable[[bytes], bytes | None]
"""The target of the link at a path, None where there is no link."""


def marks_of(
    pairs: Sequence[Pair],
    mounts: Sequence[MountRecord | None],
    record: Record,
    read_link: LinkReader,
    seen: Places | None = None,
) -> list[tuple[tuple[str, ...], str | None]]:
    """For each pair, which lies in one of `mounts`, the reasons to look twice at what the path is now.

    With them the folder around it that git takes for a repository, if there is one.
    """
    twins, entries = _case_twins(pairs, record), _entries(pairs, record)
    repositories, marked = PlantedRepositories(entries), []
    for pair, mount in zip(pairs, mounts, strict=True):
        planted = None if pair.new is None else repositories.around(os.fsdecode(pair.path))
        marks = _marks(pair, twins, entries) + _marks_for_link(pair, mount, read_link, seen)
        marked.append((tuple(dict.fromkeys([IN_A_REPOSITORY, *marks] if planted else marks)), planted))
    return marked


def _marks(pair: Pair, twins: Collection[bytes], entries: Entries) -> list[str]:
    new = pair.new
    if new is None:
        return []
    text = os.fsdecode(pair.path)
    folder, _, name = text.rpartition("/")
    marks = [] if new.kind == "d" else marks_for_use(text)  # a folder alone is obeyed by nobody
    marks += marks_for_spelling(name) + _marks_for_kind(pair.old, new)
    if new.kind == "f" and not pair.has_same_bytes:
        marks += marks_for_scripts(name, pair.old, new) + marks_for_text(pair.old, new)
    if (pair.old is None or pair.old_path is not None) and new.kind in "fl":
        shadowed = shadowed_module(text, entries(folder))
        marks += [f"Python would import it instead of its own module '{shadowed}'"] if shadowed else []
    if pair.path in twins:
        marks.append("another name here differs only in case")
    return marks


def _marks_for_link(pair: Pair, mount: MountRecord | None, read_link: LinkReader, seen: Places | None) -> list[str]:
    target = None if pair.new is None else pair.new.target
    if target is None or not _leaves_mount(pair.path, target, mount, read_link):
        return []
    is_the_agents = seen is not None and seen.from_agent(os.fsdecode(target)) is not None
    return [LEADS_OUT, ONLY_INSIDE] if is_the_agents else [LEADS_OUT]


def _entries(pairs: Sequence[Pair], record: Record) -> Entries:
    """The names in a folder as the workspace has them now."""
    came: dict[str, set[str]] = {}
    went: dict[str, set[str]] = {}
    for pair in pairs:
        for path, node in ((pair.path, pair.new), (pair.old_path, None)):
            if path is not None:
                folder, _, name = os.fsdecode(path).rpartition("/")
                (went if node is None else came).setdefault(folder, set()).add(name)

    @cache
    def names(folder: str) -> frozenset[str]:
        rows = record.folders.get(os.fsencode(folder))
        known = set(rows.names) if rows is not None else set()
        return frozenset(known - went.get(folder, set()) | came.get(folder, set()))

    return names


def _marks_for_kind(old: Node | None, new: Node) -> list[str]:
    """Reasons that lie in what the path is now, as far as they are new."""
    if new.kind == "s":
        return ["neither file, folder nor link: never opened, never applied"]
    marks = []
    if new.kind == "f" and new.mode & 0o111 and not (old and old.mode & 0o111):
        marks.append("executable")
    before = old.mode if old else 0
    gained = new.mode & ~before & (stat.S_ISUID | stat.S_ISGID)
    if gained and new.kind != "l":
        marks.append("runs with its owner's rights")
    return marks


def _case_twins(pairs: Sequence[Pair], record: Record) -> set[bytes]:
    """New paths that another name in the same folder equals but for case or Unicode form."""
    by_parent: dict[bytes, set[bytes]] = {}
    for pair in pairs:
        if pair.old is None:
            by_parent.setdefault(pair.path.rpartition(b"/")[0], set()).add(pair.path)
    gone = {pair.path for pair in pairs if pair.new is None}
    twins: set[bytes] = set()
    for parent, new in by_parent.items():
        prefix = parent + b"/" if parent else b""
        folder = record.folders.get(parent)
        known = {prefix + os.fsencode(name) for name in folder.names} if folder else set()
        counts = Counter(_folded(path) for path in new | (known - gone))
        twins |= {path for path in new if counts[_folded(path)] > 1}
    return twins


def _folded(path: bytes) -> str:
    return unicodedata.normalize("NFC", os.fsdecode(path)).casefold()


def _leaves_mount(path: bytes, target: bytes, mount: MountRecord | None, read_link: LinkReader) -> bool:
    at = mount.at if mount else b""
    top = mount.host if mount and mount.name is None else None
    if not at:
        return leads_out(read_link, path, target, top)
    inside = path[len(at) + 1 :]
    return not inside or leads_out(lambda below: read_link(at + b"/" + below), inside, target, top)


def leads_out(read_link: LinkReader, path: bytes, target: bytes, top: bytes | None = None) -> bool:
    """Whether a link at `path` leads, or could lead, out of the folder paths are relative to.

    `top` is where that folder stands on the host: an absolute link to a path below it stays inside. Links on the
    way are followed as the kernel would. A part that does not exist is taken by its name.
    """
    here, todo = path.split(b"/")[:-1], [target]
    passed: list[tuple[list[bytes], list[bytes]]] = []
    while todo:  # ends: a link adds parts at most 40 times
        part = todo.pop()
        if b"/" in part:  # a link's whole target
            here, todo = (here, todo) if not part.startswith(b"/") else ([], todo)
            below = part if not part.startswith(b"/") else _below(part, top)
            if below is None:
                return True
            todo += below.split(b"/")[::-1]
            continue
        if part in (b"", b"."):
            continue
        if part == b"..":
            if not here:
                return True
            here.pop()
            continue
        inner = read_link(b"/".join([*here, part]))
        if inner is None:
            here.append(part)
            continue
        if len(passed) > _MOST_LINKS:
            return True
        todo.append(inner)
        if (here, todo) in passed:  # a circle leads nowhere
            return False
        passed.append((here[:], todo[:]))
    return False


def _below(path: bytes, top: bytes | None) -> bytes | None:
    """The rest of an absolute path below `top`, compared part by part as it is written; None elsewhere."""
    if top is None or not (path == top or path.startswith(top.rstrip(b"/") + b"/")):
        return None
    return path[len(top.rstrip(b"/")) :].lstrip(b"/")


def links_below(root: int) -> LinkReader:
    """Reads links below an open folder, through no other link; what cannot be read is an error, not "no link"."""

    def read_link(path: bytes) -> bytes | None:
        parent, _, name = path.rpartition(b"/")
        try:
            folder = open_beneath(root, parent, READ_DIR)
            try:
                return os.readlink(name, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            # EINVAL: it is no link. ENAMETOOLONG: a part of a link's target is longer than any name can be.
            if is_gone(error) or leads_away(error) or error.errno in (errno.EINVAL, errno.ENAMETOOLONG):
                return None
            raise unreadable(path, error) from error

    return read_link
