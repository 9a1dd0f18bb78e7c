"""Say which host file or folder comes along, where it lands, and how much of it.

A `HostMount` is only a wish: whether the path may be read is decided by the
section's allowed roots when the copy is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.options import (
    Rule,
    check_name,
    checked,
    flag,
    one_of,
    optional,
    path,
    path_text,
    several,
    size,
    wrong,
)

GitChoice = Literal["lend", "copy", "none"]
"""What a mount's `.git` becomes: a git folder of the copy's own over the host's history, a plain copy, or nothing."""


@dataclass(frozen=True, init=False)
class HostMount:
    """One host file or folder that may be copied into a workspace."""

    host_path: Path
    """Where it lives on the host; must sit under an allowed root."""
    mount_path: str | None
    """Where it lands, relative to the workspace; its own name if not given, "." for the workspace itself."""
    include_glob: tuple[str, ...]
    """Take only what these patterns name, written as in a .gitignore file; all if empty."""
    exclude_glob: tuple[str, ...]
    """Leave behind what these patterns name; stronger than include_glob and any .gitignore file."""
    max_bytes: int | None
    """The most bytes this mount may write; more is a WorkspaceBudgetError."""
    follow_symlinks: bool
    """Copy what a link out of the mount leads to, where an allowed root holds it."""
    gitignore: bool
    """Also leave behind what the tree's own .gitignore files and .git/info/exclude name."""
    lend: tuple[str, ...]
    """Folders of it that are shown read-only from the host instead of being copied, such as '.venv'."""
    leave_out_secrets: bool
    """Leave behind files that usually hold credentials, such as `.env` and private keys."""
    git: GitChoice
    """What its `.git` becomes; see `GitChoice`."""

    def __init__(
        self,
        host_path: str | os.PathLike[str],
        mount_path: str | os.PathLike[str] | None = None,
        include_glob: str | Iterable[str] = (),
        exclude_glob: str | Iterable[str] = (),
        max_bytes: int | None = None,
        follow_symlinks: bool = False,
        gitignore: bool = False,
        *,
        lend: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        git: GitChoice = "lend",
        leave_out_secrets: bool = False,
    ) -> None:
        for name, kept in checked(_RULES, locals()).items():
            object.__setattr__(self, name, kept)

    @cached_property
    def landing(self) -> str:
        """Where it lands, relative to the workspace; "." for the workspace itself."""
        if self.mount_path is not None:
            return self.mount_path
        name = Path(os.path.abspath(self.host_path)).name  # noqa: PTH100 - links in the path must stay
        if not name:
            raise WorkspaceError(
                f"mount {safe_name(str(self.host_path))}: it has no name to land under",
                fix="Write where it lands: HostMount(…, mount_path='data')",
            )
        return name

    def to_json(self) -> dict[str, Any]:
        """The mount as it is written down beside a workspace: with paths that mean the same from anywhere."""
        host_path = os.path.abspath(self.host_path)  # noqa: PTH100 - links in the path must stay
        return {"host_path": host_path, "landing": self.landing} | {name: getattr(self, name) for name in _WRITTEN}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> HostMount:
        """The mount that was written down.

        Raises:
            KeyError: it is not whole.
            WorkspaceError: it cannot be one.
        """
        return cls(facts["host_path"], facts["landing"], **{name: facts[name] for name in _WRITTEN})


_WRITTEN = tuple(one.name for one in fields(HostMount) if one.name not in ("host_path", "mount_path"))


def without_places(mount: HostMount, places: Iterable[str]) -> HostMount:
    """The same mount without what it has at places of the workspace; those are relative to that."""
    top = "" if mount.landing == "." else f"{mount.landing}/"
    below = [place.removeprefix(top) for place in places if place.startswith(top) and place != top]
    patterns = [f"/{_escaped(path)}" for path in below]
    lend = tuple(folder for folder in mount.lend if folder not in below)
    new = tuple(pattern for pattern in patterns if pattern not in mount.exclude_glob)
    return replace(mount, exclude_glob=(*mount.exclude_glob, *new), lend=lend) if below else mount


def _escaped(path: str) -> str:
    """A path as a pattern that names it alone."""
    plain = re.sub(r"([\\*?\[\]!#])", r"\\\1", path)
    return plain[:-1] + "\\ " if plain.endswith(" ") else plain


def _inside(name: str, value: Any) -> str:
    path = path_text(name, value, "a path relative to the workspace")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    rule = "is absolute" if path.startswith("/") else "climbs out" if ".." in parts else ""
    if "\0" in path:
        rule = "holds a NUL byte"
    if rule:
        raise WorkspaceSecurityError(
            f"mount_path {safe_name(path)} {rule}: a mount lands inside the workspace",
            path=path,
            rule="mount-path",
            fix="Write a path relative to the workspace, for example: mount_path='src'",
        )
    if not path:
        raise WorkspaceError("mount_path is empty", fix="Write '.' for the workspace itself, or leave it away.")
    return "/".join(parts) or "."


def _lent(name: str, value: Any) -> str:
    """A folder that is lent, relative to its mount."""
    text = path_text(name, value, "a folder inside the mount")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts or "\0" in text or not parts or ".git" in parts:
        raise WorkspaceSecurityError(
            f"lend={safe_name(text)}: only folders inside the mount can be lent",
            path=text,
            rule="lend",
            fix="Write a path relative to the mount, for example: lend=('.venv',)",
        )
    return "/".join(parts)


def _all_lent(name: str, value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_lent_folders(name, value)))


def _pattern(name: str, value: Any) -> str:
    """A pattern; one that can never match is a mistake, and here somebody can still correct it."""
    if not isinstance(value, str):
        fix = f"Write {str(value)!r}" if isinstance(value, os.PathLike) else ""
        raise wrong(name, value, "it is a pattern as in a .gitignore file, as a text", fix)
    check_name(name, value)
    from toolkit_workspace.selecting.pattern import read_globs

    option = name.partition("[")[0]
    patterns = read_globs((value,), option)
    if not patterns or not patterns[0].can_match or "\0" in value:
        raise WorkspaceError(
            f"{option}: the pattern {safe_name(value)} can never match",
            fix="Patterns are written as in a .gitignore file; escape '#', '[' and a last '\\' with a backslash.",
        )
    return value


_patterns = several(_pattern, "patterns", "['*.pyc', 'node_modules/']", alone=(str,))
_lent_folders = several(_lent, "folders inside the mount", "['.venv']", alone=(str, os.PathLike))
_RULES: dict[str, Rule] = {
    "host_path": path,
    "mount_path": optional(_inside),
    "include_glob": _patterns,
    "exclude_glob": _patterns,
    "max_bytes": optional(size),
    "follow_symlinks": flag,
    "gitignore": flag,
    "lend": _all_lent,
    "leave_out_secrets": flag,
    "git": one_of(get_args(GitChoice), "choice"),
}
"""The rule of every field. A new field of `HostMount` needs its line here."""
