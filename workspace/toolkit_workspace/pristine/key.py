"""Name a mount set, so that the copy that was kept of it is found again.

Everything that decides which files come along, and with which permissions, is in the name; what they hold is not: that
is looked at each time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence

from toolkit._base.files import umask
from toolkit._base.handles import READ_FILE, open_beneath
from toolkit_workspace.selecting import AllowedRoots, Source

_FORMAT = 1
_MOST_RULES = 1_000_000


def key_of(sources: Sequence[Source], roots: AllowedRoots, *, strict: bool) -> str:
    """The name of what these mounts select."""
    parts = [_FORMAT, os.geteuid(), umask(), strict, sorted(roots.paths), [_facts(source) for source in sources]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _facts(source: Source) -> list[object]:
    mount, record = source.mount, source.record
    names = [os.fsdecode(name or b"") for name in (record.host, record.at, record.name)]
    where = [names, record.dev, record.inode, [os.fsdecode(path) for path in source.real_paths]]
    rules = [mount.include_glob, mount.exclude_glob, mount.gitignore, mount.follow_symlinks, mount.leave_out_secrets]
    return [where, rules, mount.lend, mount.git == "copy", mount.max_bytes, _excludes(source)]


def _excludes(source: Source) -> str:
    """The rules of git that lie in no folder of the walk."""
    if not source.mount.gitignore:
        return ""
    try:
        handle = open_beneath(source.handle, b".git/info/exclude", READ_FILE)
    except OSError:
        return ""
    try:
        return hashlib.sha256(os.read(handle, _MOST_RULES)).hexdigest()
    finally:
        os.close(handle)
