"""How git is set up below a folder: what can have a plain `git status` run a program of the agent's.

`core.fsmonitor`, an external diff, a pager, a filter, a hook: the agent may write all of them in a workspace, by any
tool. So a decision about git holds as long as these files stay as they are. Whatever looks like a repository counts,
whatever its name: git takes it for one.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_SETTINGS = frozenset({"config", "config.worktree", "commondir", "gitdir", "attributes"})
"""Files of a repository that decide what git runs, or where it looks for that."""
_REPOSITORY = ({"HEAD", "config"}, {"HEAD", "commondir"}, {"objects", "refs"})
"""What a folder that git takes for a repository has, or for the part of one that others share. Of any type: for git an
executable file will do where a folder belongs."""
_CONTENTS = frozenset({"objects", "refs", "logs", "lfs"})
"""Folders of a repository whose files are no settings of it, whatever their names."""
_OWN_NAMES = (".gitmodules", ".gitconfig")
_ELSEWHERE = re.compile(rb"include|hookspath", re.IGNORECASE)
"""In a config: more of it, or the hooks, are in files of any name."""
_PROGRAM = re.compile(
    rb"\b(?:fsmonitor|external|textconv|command|clean|smudge|process|program)[ \t]*="
    rb"(?![ \t]*\"?(?:true|false)\"?[ \t]*(?:\n|\Z))",
    re.IGNORECASE,
)
"""In a config: what git runs when it only looks is a program or a script of any name, which the agent may write."""
_LONGEST = 1 << 20
UNSEEN = "?"
"""What the letters begin with where they are never the same."""


class _CannotLook(Exception):
    """A part of it cannot be looked at."""


def git_setup(folder: Path) -> str:
    """Letters that stand for it; nothing where there is no repository, and never the same where it cannot be seen."""
    seen = hashlib.sha256()
    try:
        found = sorted({*_files(folder)})
        for path in found:
            name = os.fsencode(path.relative_to(folder))
            seen.update(b"%d %b %b\n" % (len(name), name, _content(path)))
    except (OSError, _CannotLook):
        return UNSEEN + os.urandom(6).hex()
    return seen.hexdigest()[:12] if found else ""


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder, onerror=_raise):
        here = Path(where)
        links = [name for name in folders if (here / name).is_symlink()]
        yield from (here / name for name in links if name == ".git")
        yield from (here / name for name in files if name == ".git" or name in _OWN_NAMES)
        entries = {*folders, *files}
        if here.name == ".git" or any(parts <= entries for parts in _REPOSITORY):
            yield from _of_repository(here)  # and on: the next one may be in any folder of this one


def _of_repository(top: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(top, onerror=_raise):
        here = Path(where)
        in_hooks = here.name == "hooks"
        yield from (here / name for name in files if in_hooks or name in _SETTINGS)
        yield from (here / name for name in folders if (here / name).is_symlink())
        folders[:] = [name for name in folders if name not in _CONTENTS]


def _content(path: Path) -> bytes:
    """A digest of a file, which says all: what a link or an include leads to may change behind it."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
        raise _CannotLook
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        content = file.read(_LONGEST + 1)
    if "config" in path.name and (_ELSEWHERE.search(content) or _PROGRAM.search(content)):
        raise _CannotLook
    return b"%o %b" % (found.st_mode & 0o111, hashlib.sha256(content).digest())


def _raise(error: OSError) -> None:
    raise error
