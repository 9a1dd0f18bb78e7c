"""What a new branch may be called, and whether that name is free."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.git import Repository
from toolkit_workspace.git.folder import GitFolder
from toolkit_workspace.git.refs import is_ref

_LONGEST = 200
_UNDER_WAY = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")


class BranchNameError(WorkspaceError):
    """A name that no branch can have: whoever wrote it has to write another."""

    exit_code = 2


def checked_name(name: str) -> str:
    """The name of a branch.

    Raises:
        BranchNameError: git takes no such name.
    """
    is_good = isinstance(name, str) and is_ref(f"refs/heads/{name}") and not name.startswith(("-", "refs/"))
    if not is_good or name in ("HEAD", "@") or len(os.fsencode(name)) > _LONGEST or not name.isprintable():
        raise BranchNameError(
            f"{safe_name(str(name))} cannot be the name of a branch",
            fix="Write one that git takes, for example: agent/fix-prices",
        )
    return name


def free_place(
    repository: Repository, named: Mapping[str, str], symbolic: Mapping[str, str], name: str, *, force: bool
) -> str | None:
    """The commit that a branch of that name has now; None if there is none. The refs are those of the repository.

    Raises:
        WorkspaceError: there is one and it is not to be replaced, or it cannot be: it is checked out somewhere.
    """
    ref = f"refs/heads/{name}"
    top = repository.top
    work_trees = list(_checked_out(repository, ref))
    if work_trees:
        raise WorkspaceError(
            f"the branch {safe_name(name)} is checked out, so its files would no longer be those of its commit",
            where=work_trees,
            fix="Choose another name",
        )
    known = {**named, **symbolic}
    parts = ref.split("/")
    around = ["/".join(parts[:depth]) for depth in range(3, len(parts))]
    in_the_way = [one for one in known if one in around or one.startswith(f"{ref}/")]
    if in_the_way:
        other = safe_name(in_the_way[0].removeprefix("refs/heads/"))
        raise WorkspaceError(
            f"there can be no branch {safe_name(name)} beside the branch {other}",
            where=[str(top)],
            fix="Choose another name",
        )
    if ref in symbolic:
        raise WorkspaceError(f"the branch {safe_name(name)} stands for another one", fix="Choose another name")
    old = named.get(ref)
    if old is not None and not force:
        raise WorkspaceError(
            f"there is a branch {safe_name(name)} already",
            where=[f"{top}: {old[:12]}"],
            fix="Choose another name, or replace it: toolkit runs branch RUN --name NAME --force",
        )
    return old


def _checked_out(repository: Repository, ref: str) -> Iterator[str]:
    """The work trees that have a branch checked out, or are in the middle of something on it."""
    common = repository.common_dir
    with GitFolder(common) as folder:
        others = folder.names("worktrees")[0]
    for git_dir in (common, *(common / "worktrees" / name for name in others)):
        with GitFolder(git_dir) as folder:
            texts = [folder.line("HEAD") or "", *(folder.line(name) or "" for name in _UNDER_WAY)]
            place = folder.line("gitdir")
        if any(text.removeprefix("ref:").strip() in (ref, ref.removeprefix("refs/heads/")) for text in texts):
            yield str(Path(place).parent if place else repository.top)
