"""The unprivileged host user a jail started by root runs as, and what belongs to it meanwhile.

Inside the jail everyone is uid 1000; for the host kernel that must not be uid 0,
or `/proc/sys` and every root-owned file are one mistake away. So root lends the
workspace to a uid nobody else has and takes it back afterwards. Files with a
second name elsewhere are not lent: changing their owner would reach outside.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from toolkit.errors import SandboxError

# Above every range that distributions and systemd hand out, below the sign bit.
FIRST_TENANT, LAST_TENANT = 1_879_048_192, 1_879_113_727
_NOBODY = 65_534


def choose_tenant() -> int | None:
    """Return the host uid (and gid) for the next jail, or None if the caller is not root."""
    if os.geteuid() != 0:
        return None
    tenant = FIRST_TENANT + secrets.randbelow(LAST_TENANT - FIRST_TENANT + 1)
    return tenant if _is_mapped(tenant) else _NOBODY


def is_tenant(uid: int) -> bool:
    """Whether a file with this owner was left by a jail whose starter was killed."""
    return FIRST_TENANT <= uid <= LAST_TENANT


def lend(folder: Path, tenant: int) -> None:
    """Give the tenant everything in `folder` that belongs to the caller and has no name elsewhere."""
    try:
        names = _lend_where(folder, tenant, lambda found: found.st_nlink == 1)
        if names:
            _lend_where(folder, tenant, lambda found: names[found.st_dev, found.st_ino] == found.st_nlink)
        os.chown(folder, tenant, tenant, follow_symlinks=False)
    except (OSError, RecursionError) as error:
        raise SandboxError(
            f"the workspace cannot be given to the jail's user: {error}",
            where=[str(folder)],
            fix="Use a folder on a local file system, or start as a plain user.",
        ) from error


def _lend_where(folder: Path, tenant: int, is_ours: Callable[[os.stat_result], bool]) -> Counter[tuple[int, int]]:
    """Lend folders and the files `is_ours` accepts; count the names of those that have several."""
    mine, names = os.geteuid(), Counter[tuple[int, int]]()
    # Walks by descriptor and never follows a link, so nothing outside can be reached.
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                names[found.st_dev, found.st_ino] += 1
            if found.st_uid == mine and (stat.S_ISDIR(found.st_mode) or is_ours(found)):
                os.chown(name, tenant, tenant, dir_fd=descriptor, follow_symlinks=False)
    return names


def take_back(folder: Path, tenant: int) -> None:
    """Return to the caller what the tenant has or made; set-user-id bits are lost on the way."""
    if not folder.is_dir():
        return
    command = take_back_command(folder, tenant)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(
            "the workspace could not be taken back from the jail's user",
            where=[done.stderr.strip()[-300:]],
            fix=f"Run: {shlex.join(command)}",
        )


def take_back_command(folder: Path, tenant: int) -> list[str]:
    """The same as a command: what the tenant owns is in the jail's folders only, so its owner decides.

    GNU chown, because an agent may leave a tree deeper than Python can walk.
    """
    mine = f"{os.geteuid()}:{os.getegid()}"
    return ["chown", "-R", "-P", "-h", f"--from={tenant}", mine, "--", str(folder)]


def _is_mapped(uid: int) -> bool:
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, _, count = (int(part) for part in line.split())
        if inside <= uid < inside + count:
            return True
    return False
