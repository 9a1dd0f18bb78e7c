"""One hash for all that is in a workspace: names, contents, links, executable bits; no times, no owners."""

from __future__ import annotations

import hashlib
import os
import stat

from toolkit._base.handles import READ_FILE
from toolkit_workspace.selecting.rules import rules_at
from toolkit_workspace.selecting.tally import LeftBehind, Why
from toolkit_workspace.selecting.walk import Walk


class _Hash(LeftBehind):
    """The hash; it is told what a walk leaves out too: special files and links that lead out are content."""

    def __init__(self) -> None:
        super().__init__()
        self._sha = hashlib.sha256()

    def feed(self, kind: bytes, data: bytes) -> None:
        self._sha.update(kind + str(len(data)).encode() + b":" + data)

    def add(self, path: bytes, why: Why, rule: str = "", detail: str = "") -> None:
        self.feed(b"o", path)
        self.feed(b"w", os.fsencode(why + rule + detail))

    def hexdigest(self) -> str:
        return self._sha.hexdigest()


def fingerprint_of(workspace: int) -> str:
    """A hash of everything below an open folder, in an order that depends on names only."""
    digest = _Hash()
    # No absolute link is taken for one inside, and what cannot be read has no hash.
    walk = Walk(workspace, (b"/\0",), rules_at(workspace), digest, strict=True)
    for folder in walk.folders():
        digest.feed(b"d", folder.path)
        for name in folder.files:
            _feed_file(digest, folder.handle, name)
        for name, target in folder.links:
            digest.feed(b"l", os.fsencode(name))
            digest.feed(b">", target)
    return digest.hexdigest()


def _feed_file(digest: _Hash, folder: int, name: str) -> None:
    handle = os.open(name, READ_FILE, dir_fd=folder)
    try:
        st = os.fstat(handle)
        digest.feed(b"x" if st.st_mode & 0o100 else b"f", os.fsencode(name))
        left = st.st_size if stat.S_ISREG(st.st_mode) else 0
        while left > 0 and (data := os.read(handle, min(left, 1 << 18))):
            digest.feed(b".", data)
            left -= len(data)
    finally:
        os.close(handle)
