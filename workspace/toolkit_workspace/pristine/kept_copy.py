"""One kept copy: its folder, what it was made of, and which workspaces lie over it.

tree/       the files, never written again
record      a row for each of them
stamps      the stamps that the host has for them, for a quick look
facts.json  the key, counts and what was said of the mounts
users/      a file for each workspace that lies over it
lock        held shared while it is looked at or used, alone by whoever removes it
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.files import write_json
from toolkit._base.processes import boot_id
from toolkit.errors import WorkspaceError
from toolkit_workspace.record import Record
from toolkit_workspace.selecting import Tally

FACTS, RECORD, STAMPS, TREE, USERS, USED = "facts.json", "record", "stamps", "tree", "users", "used"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy that is kept."""

    folder: Path
    key: str
    files: int
    size: int
    """Bytes that its files take."""
    mounts: tuple[str, ...]
    """The host paths it is of."""
    made: float
    boot: str
    """The boot of the machine in which laying something over it was tried last."""
    tallies: tuple[dict[str, Any], ...] = ()

    @classmethod
    def read(cls, folder: Path) -> KeptCopy:
        """The copy in a folder.

        Raises:
            WorkspaceError: there is none that can be read.
        """
        try:
            facts = json.loads((folder / FACTS).read_bytes())
            if facts["format"] != _FORMAT:
                raise ValueError("another version made it")
            return cls(
                folder,
                facts["key"],
                facts["files"],
                facts["bytes"],
                tuple(facts["mounts"]),
                facts["made"],
                facts["boot"],
                tuple(facts["tallies"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkspaceError("a kept copy cannot be read", where=[f"{folder}: {error}"]) from error

    def write(self) -> None:
        """Write down what it is."""
        facts = {"format": _FORMAT, "key": self.key, "files": self.files, "bytes": self.size, "mounts": self.mounts}
        facts |= {"made": self.made, "boot": self.boot, "tallies": self.tallies}
        write_json(self.folder / FACTS, facts)

    @property
    def tree(self) -> Path:
        return self.folder / TREE

    @property
    def lock_file(self) -> Path:
        return self.folder / "lock"

    @property
    def was_tried(self) -> bool:
        """Whether something was laid over it since the machine was started."""
        return self.boot == boot_id()

    @property
    def used(self) -> float:
        """When a workspace was last laid over it."""
        with contextlib.suppress(OSError):
            return (self.folder / USED).stat().st_mtime
        return self.made

    def touch(self) -> None:
        """It is used now."""
        with contextlib.suppress(OSError):
            (self.folder / USED).touch()
            os.utime(self.folder / USED, (time.time(), time.time()))

    def record(self) -> Record:
        """A row for everything in it.

        Raises:
            WorkspaceError: it cannot be read.
        """
        return Record.load(self.folder / RECORD)

    def counted(self) -> list[Tally]:
        """What was counted of each mount."""
        return [Tally.from_json(one) for one in self.tallies]

    def add_user(self, name: str, state_dir: Path) -> None:
        """A workspace lies over it from now on."""
        write_json(self.folder / USERS / name, {"state": str(state_dir)})

    def remove_user(self, name: str) -> None:
        """A workspace lies over it no more."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / USERS / name).unlink()

    def users(self) -> Sequence[Path]:
        """The state folders of the workspaces that lie over it; notes of those that are gone are removed.

        Raises:
            OSError: they cannot be listed.
        """
        found = []
        for note in (self.folder / USERS).iterdir():
            if note.name.startswith("."):
                continue  # half-written by one who was killed before anything lay over it
            try:
                state = Path(json.loads(note.read_bytes())["state"])
            except (OSError, ValueError, KeyError, TypeError):
                found.append(note)  # what is in doubt is in use
                continue
            if os.path.lexists(state):
                found.append(state)
            else:
                note.unlink(missing_ok=True)
        return found
