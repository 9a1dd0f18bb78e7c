"""Find the repository behind a folder with a `.git`, and everything a copy of it needs to know.

`.git` is a folder, or a file that names one elsewhere (a linked worktree, a
submodule). A file is only believed when the folder it names points back: otherwise
anything that can write a `.git` file could have another repository's history shown.
For the same reason a git folder shares what another one has only where git itself
would have made it so: as `worktrees/NAME` in it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.git.folder import GitFolder, refused
from toolkit_workspace.git.program import own_settings, owner_settings

LARGEST_HEAD = 65_536
_MOST_ALTERNATES = 50
_LARGEST_CONFIG = 1 << 22
_LARGEST_LIST = 1 << 18
_IN_A_STORE = re.compile(r"[0-9a-f]{2}|info|pack|journals|(tmp_obj|tmp_objdir|incoming)[-_].*|.*\.lock|\.DS_Store")


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
    """The system's and the owner's settings, then the repository's own: names in lower case, in order."""
    excludes_file: str | None
    """The file of what the owner ignores in all repositories; never one that the repository names."""

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        return (self.setting("extensions.objectformat") or "sha1").lower()

    def setting(self, name: str) -> str | None:
        """The value that counts; None where nothing is set."""
        return next((value for key, value in reversed(self.config) if key == name), None)


def find_around(folder: Path) -> Repository | None:
    """The repository that a folder, a real path, lies in; None where it lies in none. Raises as `find_repository`."""
    for top in (folder, *folder.parents):
        if (found := find_repository(top)) is not None:
            return found
    return None


def find_repository(top: Path) -> Repository | None:
    """The repository whose work tree is `top`, a real path; None where there is none.

    Raises:
        WorkspaceSecurityError: `.git` names a repository that does not know of this folder, or has links.
        WorkspaceError: the repository cannot be read.
    """
    dot_git = top / ".git"
    try:
        mode = dot_git.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise WorkspaceError(f"{str(dot_git)!r} cannot be read: {error.strerror}") from error
    if stat.S_ISLNK(mode):
        raise WorkspaceSecurityError(
            f"the repository {str(top)!r} has a link for its .git",
            path=str(dot_git),
            rule="git-dir",
            fix="Mount the folder it leads to, or copy without git: --git none, HostMount(…, git='none')",
        )
    git_dir = dot_git if stat.S_ISDIR(mode) else _named_by(top) if stat.S_ISREG(mode) else None
    if git_dir is None:
        return None
    with GitFolder(git_dir) as folder:
        if folder.read("HEAD", LARGEST_HEAD) is None:
            return None
        if git_dir == dot_git:
            _has_no_other(folder)
            common_dir = git_dir
        else:
            common_dir = _common_dir(folder, top)
        with GitFolder(common_dir) as common:
            return _described(top, folder, common)


def _described(top: Path, folder: GitFolder, common: GitFolder) -> Repository:
    own = _own_config(folder, common)
    if (kept_in := dict(own).get("extensions.refstorage", "files").lower()) != "files":
        raise WorkspaceError(
            f"the repository {str(top)!r} keeps its refs in a way that is not known: {kept_in}",
            fix="Copy its git folder as it is, or not at all: --git copy or none; HostMount(…, git='copy')",
        )
    owner = owner_settings(folder.path)
    stores = tuple(_object_stores(common))
    excludes = dict(owner).get("core.excludesfile")
    return Repository(top, folder.path, common.path, stores, (*owner, *own), excludes)


def _named_by(top: Path) -> Path | None:
    """The git folder that a `.git` file names; None where it names none, or one that is gone."""
    with GitFolder(top) as folder:
        text = folder.line(".git")
    if text is None or not text.startswith("gitdir: "):
        return None
    named = Path(os.path.realpath(top / text.removeprefix("gitdir: ")))
    return named if named.is_dir() else None


def _has_no_other(folder: GitFolder) -> None:
    """Check that a git folder is whole by itself."""
    if folder.line("commondir") is not None:
        raise refused(
            f"{str(folder.path / 'commondir')!r} names another repository, and this is no linked worktree",
            folder.path / "commondir",
        )


def _common_dir(folder: GitFolder, top: Path) -> Path:
    """What a git folder that lies elsewhere shares with others, once it says that `top` is its work tree."""
    shares = folder.line("commondir")
    if shares is None:
        named = dict(_own_config(folder, folder)).get("core.worktree")
        if named is None or not _same(folder.path / named, top):
            raise _not_known(folder, top)
        return folder.path
    common = folder.path.parent.parent
    back = folder.line("gitdir")
    if folder.path.parent.name != "worktrees" or not _same(folder.path / shares, common):
        raise refused(
            f"{str(folder.path / 'commondir')!r} names another repository than the one this worktree lies in",
            folder.path / "commondir",
        )
    if back is None or not _same(folder.path / back, top / ".git"):
        raise _not_known(folder, top)
    return common


def _not_known(folder: GitFolder, top: Path) -> WorkspaceSecurityError:
    return WorkspaceSecurityError(
        f"{str(top / '.git')!r} names a repository that does not know of this folder",
        path=str(folder.path),
        rule="git-dir",
        fix="Run 'git worktree repair' there, or copy without git: --git none, HostMount(…, git='none')",
    )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _own_config(folder: GitFolder, common: GitFolder) -> list[tuple[str, str]]:
    """The repository's own settings; what they include is not read, nor anything else they name."""
    text = common.read("config", _LARGEST_CONFIG)
    found = own_settings(common.path, text) if text else []
    if dict(found).get("extensions.worktreeconfig", "false").lower() in ("true", "yes", "on", "1", ""):
        more = folder.read("config.worktree", _LARGEST_CONFIG)
        found += own_settings(folder.path, more) if more else []
    return found


def _object_stores(common: GitFolder) -> Iterator[Path]:
    """The store of a repository and all it borrows from, each once."""
    own = common.path / "objects"
    common.names("objects")  # refuses a link
    todo, seen = [own], set[Path]()
    while todo:
        store = todo.pop(0)
        resolved = Path(os.path.realpath(store))
        if resolved in seen or not resolved.is_dir():
            continue
        seen.add(resolved)
        if "\n" in str(resolved):  # it would be two lines, and so two stores, where the copy names it
            raise refused(f"the object store {str(resolved)!r} has a line break in its path", resolved)
        with GitFolder(resolved) as folder:
            if store != own:
                _holds_objects(folder)
            lines = os.fsdecode(folder.read("info/alternates", _LARGEST_LIST) or b"").split("\n")
        yield resolved
        todo += [_normal(resolved / line) for line in lines if line and not line.startswith("#") and "\0" not in line]
        if len(seen) + len(todo) > _MOST_ALTERNATES:
            raise WorkspaceError(f"the repository borrows from more than {_MOST_ALTERNATES} others", where=[str(own)])


def _holds_objects(folder: GitFolder) -> None:
    """Check that a folder is an object store: any other would be shown to the agent whole, files left out included."""
    folders, files = folder.names(".")
    strange = [name for name in (*folders, *files) if not _IN_A_STORE.fullmatch(name)]
    if strange or "pack" not in folders:
        raise refused(f"{str(folder.path)!r}, from which the repository borrows, is no store of objects", folder.path)


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
