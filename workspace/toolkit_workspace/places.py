"""Where the parts of a workspace appear to the agent, and how its paths and the host's become each other.

Inside a jail a mount's copy stands at the host's own path, so that virtual environments,
shebangs, editable installs and absolute paths in configurations hold. On the host the copy
stays where it was made. Everything here is about names; whether a path leads out by a link
is decided on handles, by whoever opens it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit.errors import WorkspaceError
from toolkit_workspace.mount import HostMount
from toolkit_workspace.options import path_text

EMPTY = "/work"
"""Where a workspace without mounts appears."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the workspace and where it appears."""

    landing: str
    """Relative to the workspace; "." for all of it."""
    inside: str
    """The absolute path the agent knows it by."""


@dataclass(frozen=True, slots=True)
class Places:
    """All parts of one workspace."""

    parts: tuple[Part, ...]
    start: str
    """Where the agent begins."""

    def to_host(self, folder: Path, path: str) -> Path | None:
        """The path of the copy in `folder` for one that the agent writes; None outside of every part."""
        wanted = PurePosixPath(os.path.normpath(PurePosixPath(self.start, path)))
        for part in sorted(self.parts, key=lambda part: -len(part.inside)):
            if wanted.is_relative_to(part.inside):
                return folder / part.landing / wanted.relative_to(part.inside)
        return None

    def to_agent(self, path: str) -> str:
        """What the agent calls a path that is given relative to the workspace."""
        for part in sorted(self.parts, key=lambda part: -len(PurePosixPath(part.landing).parts)):
            if part.landing == "." or path == part.landing or path.startswith(part.landing + "/"):
                below = path if part.landing == "." else path[len(part.landing) + 1 :]
                return f"{part.inside}/{below}".rstrip("/") if below != "." else part.inside
        return path

    def from_agent(self, path: str) -> str | None:
        """The same path relative to the workspace, for an absolute one of the agent; None outside of every part."""
        for part in sorted(self.parts, key=lambda part: -len(part.inside)):
            if path == part.inside or path.startswith(part.inside + "/"):
                return os.path.normpath(f"{part.landing}/{path[len(part.inside) + 1 :]}")
        return None

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"start": self.start, "parts": [[part.landing, part.inside] for part in self.parts]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Places:
        """What `to_json` gave."""
        return cls(tuple(Part(*one) for one in data["parts"]), data["start"])


def places_of(mounts: Sequence[HostMount], at: str | None = None) -> Places:
    """Where mounts appear: each at the host's own path, or all of them at `at`.

    Several mounts that lie side by side on the host as in the workspace are one part, so that the
    agent can also work in the folder around them. A path that leads through a link is there as well.
    """
    if at is not None:
        return _at(mounts, checked_at(at))
    if not mounts:
        return Places((Part(".", EMPTY),), EMPTY)
    written = [os.path.abspath(mount.host_path) for mount in mounts]  # noqa: PTH100 - links must stay
    real = [os.path.realpath(path) for path in written]
    around = os.path.commonpath([os.path.dirname(path) for path in real])  # noqa: PTH120
    is_one_folder = len(mounts) == 1 and Path(real[0]).is_dir()
    as_on_host = all(os.path.relpath(path, around) == one.landing for one, path in zip(mounts, real, strict=True))
    if as_on_host and not is_one_folder and len(Path(around).parts) > 2:
        return Places((Part(".", around),), around)
    if not all(map(os.path.isdir, real)):  # a single file cannot be replaced where it is shown by itself
        return Places((Part(".", EMPTY),), EMPTY)
    parts = [Part(mount.landing, path) for mount, path in zip(mounts, real, strict=True)]
    parts += [Part(one.landing, path) for one, path, known in zip(mounts, written, real, strict=True) if path != known]
    return Places(tuple(parts), real[0])


def _at(mounts: Sequence[HostMount], at: str) -> Places:
    one = mounts[0].landing if len(mounts) == 1 and Path(mounts[0].host_path).is_dir() else "."
    return Places((Part(one, at),), at)


def checked_at(written: str | os.PathLike[str]) -> str:
    """A place of the user's choice.

    Raises:
        WorkspaceError: it is no absolute path, or the root.
    """
    at = path_text("at", written, "an absolute path")
    normal = os.path.normpath(at) if at.startswith("/") and "\0" not in at else ""
    if normal == "/":
        what = f"at={at!r} is where everything of the jail itself is, so no mount can be there"
        raise WorkspaceError(what, fix="Write for example: at='/work'")
    if not normal:
        raise WorkspaceError(f"at={at!r} is no absolute path", fix="Write for example: at='/work'")
    return normal
