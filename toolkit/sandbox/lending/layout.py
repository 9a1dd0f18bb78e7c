"""Where a workspace appears inside a jail, and what of the host is lent beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from toolkit.errors import SandboxError
from toolkit.sandbox.jail.walls import CLI_HOME, HOME, PATH

# These are made for the jail itself, or hold what every jail needs.
_TAKEN = ("/proc", "/sys", "/dev", "/etc", "/run", "/boot")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_WHOLE = ("/", "/usr", "/bin", "/lib", "/lib64", "/sbin", "/tmp", "/var", "/home", "/root", "/opt", "/mnt", "/srv")
STORES = "/run/toolkit/git"
"""A place in /run where things of the host may be shown: git's history."""
CACHE = "/run/toolkit/cache"
"""The other one: what a setup put into `$TOOLKIT_CACHE`."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a jail shows, and where.

    Raises:
        SandboxError: a place that the jail needs for itself.
    """

    places: tuple[tuple[str, str], ...] = ()
    """Parts of the workspace, relative to it, each with its path inside; all of it at its own path if empty."""
    start: str = ""
    """Where the agent begins; the first of the places if not given."""
    lent: tuple[tuple[Path, str], ...] = ()
    """Host paths that are shown read-only, each with its path inside."""
    protected: tuple[str, ...] = ()
    """Paths inside, of the workspace itself, that cannot be changed."""
    path: tuple[str, ...] = ()
    """Folders before the system's on PATH. Each must be lent: the CLI itself looks there too."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that belong to what is lent, such as VIRTUAL_ENV."""
    own_git: bool = False
    """Whether the `.git` in it was made for the copy, so that the agent may use all of it."""
    below: tuple[Path, ...] = ()
    """Folders that show through the workspace, which holds only what is written then; the first is on top."""
    work: Path | None = None
    """For `below`: an empty folder on the workspace's file system."""

    @property
    def search_path(self) -> tuple[str, ...]:
        """Where commands look for programs, in that order."""
        return (*self.path, *PATH.split(":"))

    def __post_init__(self) -> None:
        for _, place in self.places:
            _check_place(place)
        for _, place in self.lent:
            if place != CACHE and not PurePosixPath(place).is_relative_to(STORES):
                _check_place(place)
        for folder in self.path:
            lent = [place for _, place in self.lent]
            if not any(PurePosixPath(folder).is_relative_to(place) for place in (*lent, "/usr")):
                raise SandboxError(
                    f"'{folder}' cannot be on PATH: it is not lent, so the agent could change what is in it",
                    fix="Lend the folder, or call its programs by their path.",
                )


def _check_place(place: str) -> None:
    path = PurePosixPath(place)
    taken = str(path) in (*_WHOLE, HOME) or any(path.is_relative_to(one) for one in (*_TAKEN, CLI_HOME))
    if taken or not path.is_absolute() or ".." in path.parts or _is_new_in_the_system(path):
        raise SandboxError(
            f"nothing can be shown at '{place}': the jail has its own things there",
            fix="Choose another place for the workspace: at='/work' (--at /work)",
        )


def _is_new_in_the_system(path: PurePosixPath) -> bool:
    """Whether it would have to be made among the system's programs, which are read-only, or lies behind a link."""
    top = Path(*path.parts[:2])
    return str(top) in _SYSTEM and (top.is_symlink() or not Path(path).exists())
