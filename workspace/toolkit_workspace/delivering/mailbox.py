"""Commits as mails that `git am` takes: binary files, modes, links and renames included."""

from __future__ import annotations

import os
import re

from toolkit_workspace.delivering.building import Written
from toolkit_workspace.quarantine import Quarantine

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
    found = []
    seen: dict[str, bool] = {}
    listed = (
        quarantine.git("rev-list", written.tip, *(["--not", written.onto] if written.onto else [])).decode().split()
    )
    for commit in listed:
        empty = ["--root"] if written.onto is None else []
        fields = os.fsdecode(quarantine.git("diff-tree", "-r", "-z", "--no-renames", "--no-commit-id", *empty, commit))
        rows = fields.split("\0")[:-1]
        for about, path in zip(rows[::2], rows[1::2], strict=True):
            modes, oids = about.lstrip(":").split(" ")[:2], about.split(" ")[2:4]
            for mode, oid in zip(modes, oids, strict=True):
                if mode.startswith("100") and oid not in seen:
                    seen[oid] = b"\r" in quarantine.read(oid)
            if any(seen.get(oid) for oid in oids):
                found.append(path)
    return list(dict.fromkeys(found))


def _whole(path: str) -> bytes:
    """The line of attributes that keeps one file from being shown by its lines."""
    pattern = os.fsencode(_SPECIAL.sub(lambda found: f"\\{found[0]}", path))
    quoted = b"".join(
        b"\\" + bytes([byte]) if byte in b'"\\' else bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte
        for byte in pattern
    )
    return b'"/' + quoted + b'" -diff\n'
