"""Find the repository behind a folder with a `.git`, and everything a copy of it needs to know.

`.git` is a folder, or a file that names one elsewhere (a linked worktree, a
submodule). A file is only believed when the folder it names points back: otherwise
anything that can write a `.git` file could have another repository's history shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.git.program import git

_MOST_ALTERNATES = 50
_SMALL = 65_536


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the host, as one of its work trees has it."""

    top: Path
    """The work tree."""
    git_dir: Path
    """What belongs to this work tree: HEAD, index, what is under way."""
    common_dir: Path
    """What all its work trees share: refs, objects, configuration."""
    objects: tuple[Path, ...]
    """The object stores: its own, then those it borrows from."""
    config: tuple[tuple[str, str], ...]
    """What git obeys here, the owner's and the system's settings included: names in lower case, in order."""

    def setting(self, name: str) -> str | None:
        """The value that counts; None where nothing is set."""
        return next((value for key, value in reversed(self.config) if key == name), None)


def find_repository(top: Path) -> Repository | None:
    """The repository whose work tree is `top`; None where there is none.

    Raises:
        WorkspaceSecurityError: `.git` names a repository that does not know of this folder.
        WorkspaceError: the repository cannot be read.
    """
    dot_git = top / ".git"
    if dot_git.is_symlink():
        raise WorkspaceSecurityError(
            f"the repository {str(top)!r} has a link for its .git",
            path=str(dot_git),
            rule="git-dir",
            fix="Mount the folder it leads to, or copy without git: HostMount(…, git='none')",
        )
    git_dir = dot_git if dot_git.is_dir() else _named_by(dot_git)
    if git_dir is None or not (git_dir / "HEAD").exists():
        return None
    common_dir = _common_dir(git_dir)
    config = tuple(_settings(git_dir))
    repository = Repository(top, git_dir, common_dir, tuple(_object_stores(common_dir / "objects")), config)
    if git_dir != dot_git and not _points_back(repository):
        raise WorkspaceSecurityError(
            f"{str(dot_git)!r} names a repository that does not know of this folder",
            path=str(git_dir),
            rule="git-dir",
            fix="Run 'git worktree repair' there, or copy without git: HostMount(…, git='none')",
        )
    return repository


def _named_by(file: Path) -> Path | None:
    """The git folder that a `.git` file names."""
    try:
        if not file.is_file() or file.stat().st_size > _SMALL:
            return None
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{str(file)!r} cannot be read: {error.strerror}") from error
    if not text.startswith("gitdir: "):
        return None
    return _normal(file.parent / text[len("gitdir: ") :].rstrip("\n"))


def _common_dir(git_dir: Path) -> Path:
    try:
        text = (git_dir / "commondir").read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
    except FileNotFoundError:
        return git_dir
    return _normal(git_dir / text)


def _points_back(repository: Repository) -> bool:
    """Whether the git folder, which lies elsewhere, says that this is its work tree."""
    try:
        back = (repository.git_dir / "gitdir").read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
    except FileNotFoundError:
        own = git(repository.git_dir, "config", "--file", str(repository.common_dir / "config"), "--null", "--list")
        named = dict(_pairs(own)).get("core.worktree")
        return named is not None and _same(repository.git_dir / named, repository.top)
    return _same(repository.git_dir / back, repository.top / ".git")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _object_stores(own: Path) -> Iterator[Path]:
    """A store and all it borrows from, each once."""
    todo, seen = [own], set[Path]()
    while todo:
        store = todo.pop(0)
        resolved = store.resolve()
        if resolved in seen or not resolved.is_dir():
            continue
        seen.add(resolved)
        if len(seen) > _MOST_ALTERNATES:
            raise WorkspaceError(f"the repository borrows from more than {_MOST_ALTERNATES} others", where=[str(own)])
        yield resolved
        try:
            lines = (resolved / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            continue
        todo += [_normal(resolved / line) for line in lines.splitlines() if line and not line.startswith("#")]


def _settings(git_dir: Path) -> Iterator[tuple[str, str]]:
    yield from _pairs(git(git_dir, "config", "--includes", "--null", "--list"))


def _pairs(listed: bytes) -> Iterator[tuple[str, str]]:
    for entry in os.fsdecode(listed).split("\0"):
        if entry:
            name, _, value = entry.partition("\n")
            yield name, value


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
