"""A prepared workspace as any process can find it again: the folder, and the state beside it.

The state lies outside what the agent is given: the manifest, the kept base bytes,
the journal of an apply and the snapshots. Nothing in it is ever executed or unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import READ_DIR
from toolkit.errors import WorkspaceError
from toolkit_workspace.record.content import ByteStore
from toolkit_workspace.record.manifest import Manifest


@dataclass(slots=True)
class Prepared:
    """One prepared workspace: where it is, what was put there, and where its state is kept."""

    root: Path
    state: Path
    manifest: Manifest
    store: ByteStore

    @classmethod
    def at(cls, root: Path, state: Path, manifest: Manifest) -> Prepared:
        """A workspace whose manifest is at hand; `save` makes it findable."""
        return cls(root, state, manifest, ByteStore(state / "bases"))

    @classmethod
    def load(cls, root: Path, state: Path) -> Prepared:
        """Find a workspace by its folder and its state.

        Raises:
            WorkspaceError: its manifest is missing or cannot be read.
        """
        return cls.at(root, state, Manifest.load(state / "manifest"))

    def save(self, *, durable: bool = False) -> None:
        """Write the manifest, so that another process can tell what changed."""
        self.manifest.save(self.state / "manifest", durable=durable)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """The workspace folder as a handle.

        Raises:
            WorkspaceError: it is gone, or another folder is in its place.
        """
        fd = self.open_root()
        try:
            yield fd
        finally:
            os.close(fd)

    def open_root(self) -> int:
        try:
            fd = os.open(self.root, READ_DIR)
        except OSError as error:
            raise WorkspaceError(
                "the workspace folder cannot be opened", where=[f"{self.root}: {error.strerror}"]
            ) from error
        if os.fstat(fd).st_ino != self.manifest.root_stamp[1]:
            os.close(fd)
            raise WorkspaceError(
                "the workspace folder was replaced by another one",
                where=[str(self.root)],
                fix="Its changes cannot be told apart from what was prepared: prepare a new workspace.",
            )
        return fd
