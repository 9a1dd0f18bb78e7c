"""Mark changes a reviewer should look at twice before taking them back.

A mark is a short reason, never a verdict: the file may be what was asked for. The
list holds what other programs obey without being asked (an agent's settings, git
hooks, editor tasks), what can run, what leads out, and names made to be misread.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.changes.scan import Pair
from toolkit_workspace.record.content import Node
from toolkit_workspace.record.record import MountRecord, Record
from toolkit_workspace.record.trouble import is_gone, leads_away, unreadable

_OBEYED_FOLDERS = {
    ".claude": "settings and commands of an agent",
    ".git": "inside a git folder",
    ".github": "runs on the code host",
    ".husky": "git hooks",
    ".vscode": "obeyed by an editor",
    ".idea": "obeyed by an editor",
    ".devcontainer": "obeyed by an editor",
    ".cursor": "settings of an agent",
}
_OBEYED_FILES = {
    ".mcp.json": "starts programs for an agent",
    ".claude.json": "settings of an agent",
    "claude.md": "instructions to an agent",
    "claude.local.md": "instructions to an agent",
    "agents.md": "instructions to an agent",
    ".gitattributes": "changes how git reads files",
    ".gitmodules": "makes git fetch code",
    ".gitlab-ci.yml": "runs on the code host",
    ".pre-commit-config.yaml": "git hooks",
    ".envrc": "run when a shell enters the folder",
    ".npmrc": "settings of a package manager",
    "sitecustomize.py": "run whenever Python starts",
    "usercustomize.py": "run whenever Python starts",
}
_GIT_PARTS = {"hooks": "a git hook", "config": "git settings, which can run programs"}
_MOST_LINKS = 40
LEADS_OUT = "link leads out of its mount"

LinkReader = Callable[[bytes], bytes | None]
"""The target of the link at a path, None where there is no link."""


def marks_of(
    pairs: Sequence[Pair], mounts: Sequence[MountRecord | None], record: Record, read_link: LinkReader
) -> list[tuple[str, ...]]:
    """For each pair, which lies in one of `mounts`, the reasons to look twice at what the path is now."""
    twins = _case_twins(pairs, record)
    ats = [mount.at if mount else b"" for mount in mounts]
    return [_marks(pair, at, twins, read_link) for pair, at in zip(pairs, ats, strict=True)]


def _marks(pair: Pair, at: bytes, twins: Collection[bytes], read_link: LinkReader) -> tuple[str, ...]:
    new = pair.new
    if new is None:
        return ()
    text = os.fsdecode(pair.path)
    marks = [] if new.kind == "d" else _marks_for_use(text)  # a folder alone is obeyed by nobody
    marks += _marks_for_spelling(text.rpartition("/")[2]) + _marks_for_kind(pair.old, new)
    if pair.path in twins:
        marks.append("another name here differs only in case")
    if new.target is not None and _leaves_mount(pair.path, new.target, at, read_link):
        marks.append(LEADS_OUT)
    return tuple(dict.fromkeys(marks))


def _marks_for_use(text: str) -> list[str]:
    parts = [part.lower() for part in text.split("/")]
    marks = [_OBEYED_FOLDERS[part] for part in parts[:-1] if part in _OBEYED_FOLDERS]
    if ".git" in parts[:-1]:
        marks += [_GIT_PARTS[part] for part in parts[parts.index(".git") + 1 :][:1] if part in _GIT_PARTS]
    if parts[-1] in _OBEYED_FILES:
        marks.append(_OBEYED_FILES[parts[-1]])
    elif parts[-1] in (".git", ".claude"):
        marks.append(_OBEYED_FOLDERS[parts[-1]])
    if parts[-1].endswith(".pth"):
        marks.append("run whenever Python starts")
    return marks


def _marks_for_spelling(name: str) -> list[str]:
    marks = []
    categories = {unicodedata.category(char) for char in name}
    if "Cs" in categories:
        marks.append("name is not UTF-8")
    if "Cc" in categories:
        marks.append("control characters in the name")
    if "Cf" in categories:
        marks.append("invisible characters in the name")
    if name != name.strip() or name.endswith("."):
        marks.append("name starts or ends with a space or dot")
    return marks


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


def _leaves_mount(path: bytes, target: bytes, at: bytes, read_link: LinkReader) -> bool:
    if not at:
        return leads_out(read_link, path, target)
    inside = path[len(at) + 1 :]
    return not inside or leads_out(lambda below: read_link(at + b"/" + below), inside, target)


def leads_out(read_link: LinkReader, path: bytes, target: bytes) -> bool:
    """Whether a link at `path` leads, or could lead, out of the folder paths are relative to.

    Links on the way are followed as the kernel would. A part that does not exist is taken by its name.
    """
    if target.startswith(b"/"):
        return True
    here = path.split(b"/")[:-1]
    todo = target.split(b"/")[::-1]
    passed: list[tuple[list[bytes], list[bytes]]] = []
    while todo:  # ends: a link adds parts at most 40 times
        part = todo.pop()
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
        if inner.startswith(b"/") or len(passed) > _MOST_LINKS:
            return True
        todo += inner.split(b"/")[::-1]
        if (here, todo) in passed:  # a circle leads nowhere
            return False
        passed.append((here[:], todo[:]))
    return False


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
            if is_gone(error) or leads_away(error) or error.errno == errno.EINVAL:  # EINVAL: it is no link
                return None
            raise unreadable(path, error) from error

    return read_link
