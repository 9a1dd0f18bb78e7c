"""The packs that this machine has: unpacked beneath its temp folder, once for all workers, by their hashes.

    TEMP/toolkit-packs-UID/
      HASH/        the files of a pack
      HASH.lock    held by whoever unpacks it, shared by those who use it

A pack that nobody has used for a while goes when room is wanted.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolkit._base.handles import remove_folder
from toolkit._base.locks import Lock, take_lock
from toolkit._base.unborn import UNBORN, is_stillborn, unborn_name
from toolkit._base.words import size_text
from toolkit.errors import RunError
from toolkit.fleets.packs.pack import MOST_BYTES, Pack
from toolkit.fleets.parcels import Manifest, fetch, unpack_into
from toolkit.fleets.store import Store
from toolkit_workspace import ArrivedSection

KEPT_SECONDS = 7 * 24 * 3600.0
KEPT_BYTES = 20 << 30
_LONGEST_WAIT = 1800.0
"""Seconds to wait for another worker that unpacks the same."""
_POLL = 0.02
_FACTS = "facts.json"
_TREE = "tree"
_SIZE = "size"


@dataclass
class Unpacked:
    """A pack on this machine, kept there as long as this is not released; a context manager."""

    pack: Pack
    folder: Path
    _lock: Lock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let it go when room is wanted."""
        self._lock.release()

    def section(self, *, makes_lent: bool = False) -> ArrivedSection:
        """A fresh section for one run, to be given as its workspace.

        With `makes_lent` a setup of the run makes what is lent on the caller's machine.

        Raises:
            WorkspaceError: a folder that is lent on the caller's machine is not on this one.
        """
        return ArrivedSection(self.tree, self.facts["section"], makes_lent=makes_lent)

    @property
    def tree(self) -> Path:
        """Its files."""
        return self.folder / _TREE

    @property
    def facts(self) -> dict[str, Any]:
        """What was written down when it was packed."""
        facts: dict[str, Any] = json.loads((self.folder / _FACTS).read_bytes())
        return facts


def unpack(pack: Pack, store: Store, *, temp: Path | None = None, most_bytes: int = MOST_BYTES) -> Unpacked:
    """A pack's files on this machine; the first worker fetches and unpacks them, the others wait for it.

    Raises:
        ParcelError: the store has another pack, or a damaged one.
        RunError: the store cannot be read, the disk is full, or the temp folder is not this user's own.
    """
    home = _packs_home(Path(tempfile.gettempdir()) if temp is None else temp)
    until = time.monotonic() + _LONGEST_WAIT
    while True:
        lock = take_lock(home / f"{pack.hash}.lock", shared=True)
        if lock is not None:
            if (home / pack.hash / _FACTS).exists():
                os.utime(lock.handle)
                return Unpacked(pack, home / pack.hash, lock)
            lock.release()
        lock = take_lock(home / f"{pack.hash}.lock")
        if lock is not None:
            with lock:
                if not (home / pack.hash / _FACTS).exists():
                    _fill(home, pack, store, most_bytes)
            continue
        if time.monotonic() > until:
            raise RunError("another worker of this machine unpacks the same pack and does not come to an end")
        time.sleep(_POLL)  # the lock is another process's: its release sets no event of ours


def _fill(home: Path, pack: Pack, store: Store, most_bytes: int) -> None:
    parts = fetch(pack.parcel, store, pack.name)
    manifest = Manifest.from_bytes(parts.manifest(), pack.parcel, most_bytes=most_bytes)
    tidy_packs(home, needs=manifest.size)
    unborn = home / unborn_name(pack.hash)
    try:
        free = shutil.disk_usage(home).free
        if free < manifest.size:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, {size_text(free)} free")
        unborn.mkdir(mode=0o700)
        (unborn / _TREE).mkdir(mode=0o700)
        unpack_into(unborn / _TREE, manifest, parts)
        (unborn / _SIZE).write_text(str(manifest.size))
        (unborn / _FACTS).write_text(json.dumps(manifest.facts))
        unborn.rename(home / pack.hash)
    except OSError as error:
        raise RunError(
            f"the worker on {platform.node()} cannot unpack what the runs work on: {error.strerror}",
            where=[f"{home}: {size_text(manifest.size)} are needed"],
            fix="Make room there, or set TMPDIR of the workers to a larger folder",
        ) from error
    finally:
        if unborn.exists():
            remove_folder(unborn)


def _packs_home(temp: Path) -> Path:
    """The folder of packs below a temp folder that others may write to as well.

    Raises:
        RunError: somebody else made it.
    """
    home = temp / f"toolkit-packs-{os.geteuid()}"
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        st = home.lstat()
    except OSError as error:
        raise RunError(
            f"the worker on {platform.node()} cannot keep packs: {error.strerror}",
            where=[str(home)],
            fix="Set TMPDIR of the workers to a folder they can write to",
        ) from error
    if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.geteuid() or st.st_mode & 0o077:
        raise RunError(
            f"the folder for packs on {platform.node()} is not this user's own",
            where=[str(home)],
            fix="Remove it, or set TMPDIR of the workers to a folder of their own",
        )
    return home


def tidy_packs(
    home: Path, *, needs: int = 0, older_than: float = KEPT_SECONDS, most_bytes: int = KEPT_BYTES
) -> list[str]:
    """Remove packs that nobody uses: those unused for long, then the longest unused, until `needs` more bytes fit.

    Gives the hashes of those that went.
    """
    for left in home.glob(f".*{UNBORN}"):
        try:
            if is_stillborn(left):
                remove_folder(left)
        except OSError:
            continue
    used = sorted((lock.stat().st_mtime, lock) for lock in home.glob("*.lock"))
    sizes = {lock: _size_of(home / lock.stem) for _, lock in used}
    total, gone = sum(sizes.values()), []
    for at, file in used:
        if at > time.time() - older_than and total + needs <= most_bytes:
            break
        lock = take_lock(file)
        if lock is None:
            continue
        with lock:
            if (home / file.stem).is_dir():
                remove_folder(home / file.stem)
                gone.append(file.stem)
                total -= sizes[file]
    return gone


def _size_of(folder: Path) -> int:
    try:
        return int(json.loads((folder / _SIZE).read_bytes()))
    except (OSError, ValueError):
        return 0
