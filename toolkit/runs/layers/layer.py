"""A layer: what one setup made, kept for every later run that would make the same.

    $TOOLKIT_HOME/setups/KEY/
      layer.json   what it was made by and of, its places and its seal's digests
      tree/        the folders it made, each at its place relative to the workspace
      cache/       what it put into $TOOLKIT_CACHE
      seal         a row for every entry of both
      output       what the command printed
      lock         held, together with others, by each run that uses it
      used         touched at each use

It gets its name when it is complete, and is never written to afterwards.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.locks import Lock
from toolkit._base.words import safe_name
from toolkit.errors import RunError
from toolkit.runs.layers.seal import differing, has_stamps, seal
from toolkit.sandbox import CACHE, Layout, toolchain_of

if TYPE_CHECKING:
    from toolkit_workspace import WorkspaceSection

FACTS = "layer.json"
OUTPUT = "output"
_LOCK, _USED = "lock", "used"
_KEEPERS = {"cargo": "CARGO_HOME", "go-mod": "GOMODCACHE", "python": "UV_PYTHON_INSTALL_DIR"}
"""Folders of the cache that programs look for by a variable, to find what was installed there."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as it is stored."""

    folder: Path
    facts: dict[str, Any]
    lock: Lock | None = None
    """What keeps it from being removed, while it is held."""

    @classmethod
    def read(cls, folder: Path) -> Layer:
        """The layer in a folder.

        Raises:
            RunError: it cannot be read.
        """
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            layer = cls(folder, facts)
            _ = (layer.command, layer.places, layer.size, layer.files, facts["content"], facts["stamps"], facts["made"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"the layer {safe_name(folder.name)} cannot be read: {error}",
                where=[str(folder)],
                fix=f"Remove it: toolkit setups clean {folder.name[:12]}",
            ) from error
        return layer

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def short(self) -> str:
        """Enough of the key to tell it from others."""
        return self.key[:12]

    @property
    def command(self) -> str:
        return str(self.facts["command"])

    @property
    def places(self) -> tuple[str, ...]:
        """The folders it has, relative to the workspace."""
        return tuple(self.facts["places"])

    @property
    def size(self) -> int:
        """The bytes of all its files together."""
        return int(self.facts["bytes"])

    @property
    def files(self) -> int:
        return int(self.facts["files"])

    @property
    def used(self) -> float:
        """When it was used last, in seconds since the epoch."""
        try:
            return (self.folder / _USED).stat().st_mtime
        except OSError:
            return float(self.facts["made"])

    @property
    def cache(self) -> Path:
        """What agents find read-only at `$TOOLKIT_CACHE`."""
        return self.folder / "cache"

    @property
    def output(self) -> Path:
        """What the command printed."""
        return self.folder / OUTPUT

    def over(self) -> dict[str, Path]:
        """Its folders by their places in the workspace."""
        return {place: self.folder / "tree" / place for place in self.places}

    def is_as_sealed(self) -> bool:
        """Whether it is what the setup made: by its stamps, or where one differs by all its bytes.

        One that was only touched, by a backup or a move to another disk, gets its new stamps written down.
        """
        if has_stamps(self.folder, str(self.facts["stamps"])):
            return True
        try:
            if differing(self.folder, str(self.facts["content"])):
                return False
            self.write({**self.facts, "stamps": seal(self.folder).stamps})
        except (OSError, ValueError, TypeError, LookupError):
            return False
        return True

    def differing(self) -> list[str]:
        """Read all of it, and name what is not as the setup made it.

        Raises:
            RunError: something cannot be read, so nobody can say.
        """
        try:
            return differing(self.folder, str(self.facts["content"]))
        except (OSError, ValueError, TypeError, LookupError) as error:
            what = f"the layer {self.short} cannot be compared with its seal: {error}"
            raise RunError(
                what, where=[str(self.folder)], fix=f"Remove it: toolkit setups clean {self.short}"
            ) from error

    def write(self, facts: dict[str, Any]) -> None:
        """Write down what it is."""
        from toolkit._base.files import write_json

        write_json(self.folder / FACTS, facts, indent=1)

    def touch(self) -> None:
        """Note that it is used now."""
        (self.folder / _USED).touch(mode=0o600)

    def held(self, lock: Lock) -> Layer:
        """The same, held."""
        return replace(self, lock=lock)

    def release(self) -> None:
        """Let others remove it."""
        if self.lock is not None:
            self.lock.release()

    def shown_in(self, layout: Layout, section: WorkspaceSection) -> Layout:
        """The layout with what this layer needs besides its folders, which the section shows: PATH, and the cache."""
        tools = toolchain_of(self._tops(section))
        known = {inside for _, inside in layout.lent}
        lent = [(one.host, one.inside) for one in tools.lent if one.inside not in known]
        lent += [(self.cache, CACHE)] if self.cache.is_dir() and CACHE not in known else []
        shown = [Path(inside) for _, inside in (*layout.lent, *lent)]
        path = [one for one in tools.path if any(Path(one).is_relative_to(place) for place in shown)]
        kept = {variable: f"{CACHE}/{name}" for name, variable in _KEEPERS.items() if (self.cache / name).is_dir()}
        return replace(
            layout,
            lent=(*layout.lent, *lent),
            path=tuple(dict.fromkeys([*path, *layout.path])),
            environment={**layout.environment, **tools.environment, **kept, "TOOLKIT_CACHE": CACHE},
        )

    def covered(self, section: WorkspaceSection) -> dict[Path, Path]:
        """The folders of the host that its own stand in for."""
        found: dict[Path, Path] = {}
        for mount, project in zip(section.mounts, section.projects, strict=True):
            top = "" if mount.landing == "." else f"{mount.landing}/"
            below = {place: host for place, host in self.over().items() if place.startswith(top)}
            found |= {project / place.removeprefix(top): host for place, host in below.items()}
        return found

    def _tops(self, section: WorkspaceSection) -> list[tuple[Path, str]]:
        """Its folders directly in a mount, each with where an agent finds it."""
        tops = {mount.landing for mount in section.mounts}
        return [
            (host, section.places.to_agent(place))
            for place, host in self.over().items()
            if (os.path.dirname(place) or ".") in tops  # noqa: PTH120 - a place, no path of this machine
        ]

    def words(self) -> str:
        """What it has, on one line."""
        return ", ".join(map(safe_name, self.places)) or "nothing in the mounts"

    def to_json(self) -> dict[str, Any]:
        """All that is known of it, as plain values."""
        used = self.used
        return {"key": self.key, "folder": str(self.folder), "used": used, "idle": time.time() - used, **self.facts}


def lock_file(folder: Path) -> Path:
    """The file that each user of a layer holds."""
    return folder / _LOCK
