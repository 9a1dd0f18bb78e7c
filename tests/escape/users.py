"""Run a command as an ordinary user, also where root keeps the interpreter to itself."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from pathlib import Path

PLAIN_USER = 65_534
ROOT = Path(__file__).parents[2]


def can_become_plain() -> bool:
    """Whether this process may start another as an ordinary user."""
    return os.geteuid() == 0 and shutil.which("setpriv") is not None and shutil.which("unshare") is not None


def as_plain_user(command: list[str], home: Path) -> list[str]:
    """The command, run by an ordinary user with `home` as its home.

    Folders only root may enter are covered, in a mount namespace of the command's
    own, by an empty one that shows nothing but the interpreter and the project.
    """
    os.chown(home, PLAIN_USER, PLAIN_USER)
    needed = [Path(sys.prefix), Path(sys.base_prefix), ROOT, home]
    covered: dict[Path, list[Path]] = {}
    for path in {path.resolve() for path in needed} | set(needed):
        closed = next((parent for parent in reversed(path.parents) if not _is_open(parent)), None)
        if closed is not None:
            covered.setdefault(closed, []).append(path)
    lines = []
    for closed, paths in covered.items():
        spare = f"/mnt/{abs(hash(closed))}"
        lines += ["mount -t tmpfs -o mode=0755 none /mnt", f"mkdir {spare}", f"mount --rbind {closed} {spare}"]
        lines += [f"mount -t tmpfs -o mode=0755 none {shlex.quote(str(closed))}"]
        for path in paths:
            inside = shlex.quote(f"{spare}/{path.relative_to(closed)}")
            lines += [f"mkdir -p {shlex.quote(str(path))}", f"mount --rbind {inside} {shlex.quote(str(path))}"]
        lines += [f"umount -l {spare}"]
    user = ["setpriv", f"--reuid={PLAIN_USER}", f"--regid={PLAIN_USER}", "--clear-groups", "--"]
    environment = ["env", f"HOME={home}", "USER=nobody"]
    lines += ["exec " + shlex.join([*user, *environment, *command])]
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-ec", "\n".join(lines)]


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)
