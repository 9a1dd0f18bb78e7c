"""Where a part of a workspace comes from, as git sees it: the repository, the place in it, the commit of that moment.

Written down when the copy is made. What the copy's own git folder says later is the
agent's word.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit_workspace.git.folder import GitFolder
from toolkit_workspace.git.refs import head_of, read_refs
from toolkit_workspace.git.repository import Repository


@dataclass(frozen=True, slots=True)
class Origin:
    """A part of a workspace that was copied from a work tree."""

    at: str
    """Its place, relative to the workspace; empty for all of it."""
    top: str
    """The work tree on the host."""
    inside: str
    """The same part relative to the work tree; empty for all of it."""
    commit: str | None
    """The commit that was checked out; None where there was none yet."""
    git: str | None = None
    """The place of the git folder that the copy got, relative to the workspace."""

    def in_repository(self, path: str) -> str | None:
        """What the repository calls a path of the workspace; None for one that is not in this part."""
        if self.at and path != self.at and not path.startswith(f"{self.at}/"):
            return None
        below = path[len(self.at) :].lstrip("/") if self.at else path
        return "/".join(part for part in (self.inside, below) if part)

    def in_workspace(self, path: str) -> str | None:
        """What the workspace calls a path of the repository; None for one that is not in this part."""
        if self.inside and path != self.inside and not path.startswith(f"{self.inside}/"):
            return None
        below = path[len(self.inside) :].lstrip("/") if self.inside else path
        return "/".join(part for part in (self.at, below) if part)

    def to_json(self) -> dict[str, Any]:
        names = ("at", "top", "inside", "commit", "git")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Origin:
        return cls(data["at"], data["top"], data["inside"], data["commit"], data["git"])


def origin_of(repository: Repository, at: str, host: Path, *, git: str | None = None) -> Origin:
    """Where what was copied from `host` to `at` comes from.

    Raises:
        WorkspaceError: the refs of the repository cannot be read.
    """
    with GitFolder(repository.git_dir) as folder, GitFolder(repository.common_dir) as common:
        refs = read_refs(folder, common, 64 if repository.object_format == "sha256" else 40)
        commit = head_of(folder, refs)[1]
    inside = os.path.relpath(host, repository.top)
    return Origin(at, str(repository.top), "" if inside == "." else inside, commit, git)
