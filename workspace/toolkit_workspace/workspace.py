"""One prepared workspace: the folder the agent works in, and what is kept about it beside it.

What is kept lies in a hidden folder next to the workspace, out of the agent's sight:
the record, the base bytes, the journal of an apply, the snapshots, and whose it is.
Nothing in it is ever executed or unpickled.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.files import is_there, write_json
from toolkit._base.handles import READ_DIR
from toolkit._base.layered import Layers, make_above, mount_layers
from toolkit._base.locks import Lock, take_lock
from toolkit._base.unborn import unborn_name
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.record import ByteStore, MountRecord, Record, keep_bases
from toolkit_workspace.record.trouble import in_words, in_words_of
from toolkit_workspace.state import (
    PREFIX,
    is_unfinished,
    owner_facts,
    read_facts,
    remove_pair,
    state_dir_of,
    take_state,
)

if TYPE_CHECKING:
    from toolkit_workspace.places import Places


class Workspace:
    """A workspace folder with its record; `create` or `adopt` one to own it, or just look at one."""

    def __init__(self, folder: Path, lock: Lock | None = None, record: Record | None = None) -> None:
        self.folder = folder
        self.state_dir = state_dir_of(folder)
        self.store = ByteStore(self.state_dir / "bases", lambda: self.bases_below)
        self._lock = lock
        self._record = record
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    @classmethod
    def create(cls, parent: Path, mounts: Sequence[MountRecord]) -> Workspace:
        """Make an empty workspace (mode 0700) below `parent`, owned and locked by this process."""
        folder = parent / (PREFIX + os.urandom(6).hex())
        unborn = parent / unborn_name(folder.name)
        what, fix = f"no workspace can be made below {safe_name(str(parent))}", "Choose another folder for it."
        with in_words(what, at=parent, fix=fix):
            unborn.mkdir(mode=0o700)
        workspace = cls(folder, record=Record(mounts))
        try:
            # Locked before it has the name that `find_workspaces` looks for: nobody sees it without an owner.
            workspace._lock = take_lock(unborn / "lock")
            st = unborn.stat()
            facts = {"created": time.time(), **owner_facts(os.getpid()), "kept": False, "made": [st.st_dev, st.st_ino]}
            write_json(unborn / "owner.json", facts)
            unborn.rename(workspace.state_dir)
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
        except BaseException as error:
            with contextlib.suppress(OSError):
                remove_pair(folder, unborn)
            left = workspace.remove_after(error)
            if not isinstance(error, OSError):
                raise
            raise in_words_of(error, what, at=parent, fix=left) from error
        return workspace

    @classmethod
    def found(cls, folder: Path) -> Workspace:
        """A workspace that another process prepared, to look at: whoever owns it goes on doing so.

        Raises:
            WorkspaceError: there is none.
        """
        workspace = cls(folder.resolve())
        if not is_there(workspace.state_dir / "owner.json") or not is_there(workspace.folder):
            what = f"{safe_name(str(folder))} is no prepared workspace"
            raise WorkspaceError(what, fix="See: toolkit workspace list").as_mistyped()
        return workspace

    @classmethod
    def adopt(cls, folder: Path) -> Workspace:
        """A workspace another process prepared and kept; this process owns it now.

        Raises:
            WorkspaceError: there is none, or its owner lives.
        """
        workspace = cls.found(folder)
        workspace._lock = take_state(workspace.state_dir)
        if workspace._lock is None:
            raise WorkspaceError(
                f"the workspace {safe_name(str(folder))} is in use",
                where=[f"by process {workspace.read_facts().get('pid')}"],
            )
        return workspace

    @property
    def is_held(self) -> bool:
        """Whether this process owns it: no other can adopt it."""
        return self._lock is not None

    @property
    def record_file(self) -> Path:
        return self.state_dir / "record"

    @property
    def record(self) -> Record:
        """What was put there.

        Raises:
            WorkspaceError: it is missing or cannot be read.
        """
        if self._record is None:
            self._record = Record.load(self.record_file)
        return self._record

    def forget_record(self) -> None:
        """Read the record again when it is next needed: another process may have changed it."""
        self._record = None

    def save(self, *, durable: bool = False) -> None:
        """Write the record, so that another process can tell what changed."""
        self.record.save(self.record_file, durable=durable)

    def read_facts(self) -> dict[str, Any]:
        """The owner, and what the section wrote down; empty where nothing was.

        Raises:
            OSError: that cannot be read.
        """
        return read_facts(self.state_dir)

    def write_facts(self, **facts: Any) -> None:
        """Record the owner and these facts, all of it or nothing; what was kept stays kept if the owner is killed."""
        known = {"kept": False, **self.read_facts(), **owner_facts(os.getpid()), **facts}
        write_json(self.state_dir / "owner.json", known, indent=1)

    @functools.cached_property
    def below(self) -> Path | None:
        """The kept copy that shows through where nothing was written; None where the folder is all there is."""
        below = self.read_facts().get("below")
        return None if below is None else Path(below)

    @functools.cached_property
    def bases_below(self) -> Path | None:
        """The kept copy that it lies over, or lay over once: it has the bytes of what earlier records speak of."""
        once = self.read_facts().get("lay_over")
        return self.below if once is None else Path(once)

    @property
    def lower(self) -> tuple[Path, ...]:
        """What shows through its folder."""
        return () if self.below is None else (self.below,)

    @property
    def work(self) -> Path:
        """The folder that the kernel needs beside one that lies over a kept copy."""
        return self.state_dir / "work"

    def lay_over(self, below: Path | None) -> None:
        """From now on the folder holds only what is written, over a kept copy; or all there is, with None."""
        facts = {} if below is None else {"lay_over": str(below)}
        self.write_facts(below=None if below is None else str(below), **facts)
        if below is not None:
            self.record.above = set()
            self.work.mkdir(mode=0o700, exist_ok=True)
        self.facts_changed()

    def make_folder(self, path: str) -> None:
        """Make a folder of the workspace where it is missing; those that the kept copy has come as they are there."""
        with self.opened() as root:
            os.close(make_above(root, self.lower, os.fsencode(path)))

    @functools.cached_property
    def aside(self) -> tuple[bytes, ...]:
        """Places that are no part of the changes: what is lent, and the git folders of the copy itself."""
        return tuple(os.fsencode(path) for path in self.read_facts().get("shown", {}).get("aside", ()))

    @functools.cached_property
    def seen(self) -> Places | None:
        """Where an agent in a jail sees its parts, once one has; None before."""
        from toolkit_workspace.places import Places

        facts = self.read_facts().get("seen")
        return None if facts is None else Places.from_json(facts)

    def facts_changed(self) -> None:
        """Look again at what the section wrote down."""
        for name in ("aside", "seen", "below", "bases_below"):
            self.__dict__.pop(name, None)

    @property
    def identities(self) -> frozenset[tuple[int, int]]:
        """(st_dev, st_ino) of both folders: a mount that contains them must not copy them into themselves."""
        stats = [self.folder.lstat(), self.state_dir.lstat()]
        return frozenset((st.st_dev, st.st_ino) for st in stats)

    @property
    def has_unfinished_apply(self) -> bool:
        """Whether an apply, or its undo, had begun to write to the host and is neither finished nor taken back."""
        with in_words("nobody can say whether an apply was interrupted", at=self.state_dir):
            return is_unfinished(self.state_dir)

    @property
    def ways_to_settle(self) -> str:
        """What to type to end an unfinished apply."""
        command = f"toolkit workspace apply {self.folder}"
        return f"apply all of it: {command} --resume, or take all of it back: {command} --undo"

    def unfinished(self, what: str = "an earlier apply, or taking it back, was interrupted") -> WorkspaceError:
        """The error for whatever has to wait until an unfinished apply is settled."""
        return WorkspaceError(
            what,
            where=[f"{self.folder}: some of its changes are on the host, and some are not"],
            fix=f"{self.ways_to_settle[:1].upper()}{self.ways_to_settle[1:]}",
        )

    def open(self) -> int:
        """The workspace folder as a handle, for the caller to close.

        Raises:
            WorkspaceError: it is gone, or another folder is in its place.
        """
        try:
            handle = os.open(self.folder, READ_DIR)
        except OSError as error:
            raise WorkspaceError(
                "the workspace folder cannot be opened", where=[f"{self.folder}: {error.strerror}"]
            ) from error
        if os.fstat(handle).st_ino != self.record.root_stamp[1]:
            os.close(handle)
            raise WorkspaceError(
                "the workspace folder was replaced by another one",
                where=[str(self.folder)],
                fix="Its changes cannot be told apart from what was prepared: prepare a new workspace.",
            )
        return handle

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """`open` for a block."""
        handle = self.open()
        try:
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def whole(self) -> Iterator[int]:
        """The folder with all files in it, as a handle, for a block; for an overlay nobody else may have it mounted.

        Raises:
            OSError: an overlay cannot be mounted.
        """
        if not self.lower:
            with self.opened() as root:
                yield root
            return
        with mount_layers(Layers(self.folder, self.work, self.lower)) as mounted:
            yield mounted.whole

    def start_keeping_bases(self) -> None:
        """Keep the bytes of small files from now on, in the background: in case the host changes them.

        The agent need not wait for it; whatever needs the bytes calls `finish_keeping_bases` first.
        """
        keeper = threading.Thread(target=self._keep_bases, name="toolkit-workspace-bases", daemon=True)
        try:
            keeper.start()
        except RuntimeError:  # there may be no thread to be had
            self._keep_bases()
        else:
            self._keeper = keeper

    def _keep_bases(self) -> None:
        # A workspace that is removed meanwhile, or a full disk: what was not kept is a conflict later, no more.
        with contextlib.suppress(OSError, WorkspaceError), self.opened() as root:
            keep_bases(self.record, self.store, root, stop=self._stop.is_set)
            if not self._stop.is_set():
                self.save()

    def finish_keeping_bases(self) -> None:
        """Wait until all bytes are kept."""
        if self._keeper is not None:
            self._keeper.join()
            self._keeper = None

    def release(self) -> None:
        """Give up the lock; the workspace stays."""
        self.finish_keeping_bases()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def remove(self) -> None:
        """Remove the folder and all that is kept about it, then give up the lock."""
        self._stop.set()  # at most the file at hand is still kept
        self.finish_keeping_bases()
        try:
            remove_pair(self.folder, self.state_dir)
        finally:
            self.release()

    def remove_after(self, error: BaseException) -> str:
        """Remove what there is of a workspace that could not be made; what to say of the rest.

        An error that is in words already says so itself, where there is a rest.
        """
        try:
            self.remove()
        except OSError as why:
            command = f"toolkit workspace clean --parent {self.folder.parent}"
            left = f"{self.folder} was left behind ({why.strerror}); remove it: {command}"
            if isinstance(error, WorkspaceError):
                error.fix = f"{error.fix} {left}".lstrip()
            return left
        return "Nothing was left behind."


def default_parent() -> Path:
    import tempfile

    return Path(tempfile.gettempdir())
