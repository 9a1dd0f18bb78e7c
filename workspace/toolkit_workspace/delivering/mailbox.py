"""Commits as mails that `git am` takes: binary files, modes, links and renames included."""

from __future__ import annotations

import os
import re

from toolkit_workspace.delivering.building import Written
from toolkit_workspace.quarantine import Quarantine

_LARGEST_TEXT = 8 << 20
_SPECIAL = re.compile(r'[\\*?\[\]!"#]')


def mailbox_of(quarantine: Quarantine, written: Written) -> bytes:
    """The commits from where they begin, the first one first."""
    attributes = quarantine.git.git_dir / "info/attributes"
    attributes.write_bytes(b"".join(_whole(path) for path in _with_carriage_returns(quarantine, written)))
    since = ["--root", written.tip] if written.onto is None else [f"{written.onto}..{written.tip}"]
    git = quarantine.git.at(GIT_WORK_TREE=str(quarantine.folder / "home"))
    return git(
        *("format-patch", "--stdout", "--binary", "--full-index", "--find-renames", "--no-signature", "--no-base"),
        *("--no-ext-diff", "--no-textconv", "--encode-email-headers", "--src-prefix=a/", "--dst-prefix=b/"),
        *since,
    )


def _with_carriage_returns(quarantine: Quarantine, written: Written) -> list[str]:
    """Files with a CR: a mail cannot hold one at the end of a line, so they are written as git writes binary files."""
    commits = (
        quarantine.git("rev-list", written.tip, *(["--not", written.onto] if written.onto else [])).decode().split()
    )
    options = ("-r", "-z", "--no-renames", "--no-commit-id", "--root")
    pairs: list[tuple[str, str]] = []
    for commit in commits:
        rows = os.fsdecode(quarantine.git("diff-tree", *options, commit)).split("\0")[:-1]
        for about, path in zip(rows[::2], rows[1::2], strict=True):
            old_mode, mode, old, new, _ = about.lstrip(":").split(" ")
            sides = ((old_mode, old), (mode, new))
            pairs += [(path, oid) for kind, oid in sides if kind.startswith("100")]
    texts = quarantine.read_all((oid for _, oid in pairs), _LARGEST_TEXT)
    return list(dict.fromkeys(path for path, oid in pairs if b"\r" in texts.get(oid, b"\r")))


def _whole(path: str) -> bytes:
    """The line of attributes that keeps one file from being shown by its lines."""
    pattern = os.fsencode(_SPECIAL.sub(lambda found: f"\\{found[0]}", path))
    quoted = b"".join(
        b"\\" + bytes([byte]) if byte in b'"\\' else bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte
        for byte in pattern
    )
    return b'"/' + quoted + b'" -diff\n'
