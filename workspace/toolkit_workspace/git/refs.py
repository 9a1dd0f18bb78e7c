"""The refs of a repository, read without git: git would follow links out of the folder, however far.

Each work tree has a few of its own; the rest is shared. Those that git takes for broken
are left out, as git does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import WorkspaceError
from toolkit_workspace.git.folder import GitFolder

_MOST_FILES = 200_000
_MOST_FOLDERS = 50_000
_DEEPEST = 60
_LARGEST_PACKED = 1 << 28
_LARGEST_REF = 65_536
_MOST_HOPS = 5
_OBJECT = re.compile(r"(?!0+$)(?:[0-9a-f]{40}|[0-9a-f]{64})")
_PER_WORK_TREE = ("refs/bisect/", "refs/rewritten/", "refs/worktree/")
_NAME = re.compile(
    r"""refs(?: / (?!\.) [^\x00-\x20\x7f~^:?*\[\\/]+ (?<!\.lock) )+ (?<!\.)""",
    re.VERBOSE,
)


def read_refs(git_dir: GitFolder, common_dir: GitFolder, name_length: int) -> tuple[dict[str, str], dict[str, str]]:
    """Every ref with the object it names, and every ref that stands for another one.

    Args:
        git_dir: What belongs to the work tree.
        common_dir: What all work trees share; the same path where there is one only.
        name_length: Of an object's name, in hexadecimal digits.

    Raises:
        WorkspaceSecurityError: there is a link, or something that is no file, below `refs`.
        WorkspaceError: they cannot be read, or are too many.
    """
    object_name = re.compile(rf"(?!0+$)[0-9a-f]{{{name_length}}}")
    named = dict(_packed(common_dir, object_name))
    symbolic: dict[str, str] = {}
    is_linked = git_dir.path != common_dir.path
    found = [pair for pair in _loose(common_dir) if not (is_linked and pair[0].startswith(_PER_WORK_TREE))]
    if is_linked:
        found += [pair for pair in _loose(git_dir) if pair[0].startswith(_PER_WORK_TREE)]
    for ref, text in found:
        named.pop(ref, None)
        if text.startswith("ref:"):
            if is_ref(target := text.removeprefix("ref:").strip()):
                symbolic[ref] = target
        elif object_name.fullmatch(name := text.split(maxsplit=1)[0] if text.strip() else ""):
            named[ref] = name
    return named, symbolic


def head_of(git_dir: GitFolder, refs: tuple[dict[str, str], dict[str, str]]) -> tuple[str | None, str | None]:
    """The ref that HEAD stands for, if it does, and the commit; None for one without a commit yet.

    Args:
        git_dir: The git folder of a work tree.
        refs: What `read_refs` says of it.
    """
    named, symbolic = refs
    text = git_dir.line("HEAD") or ""
    if not text.startswith("ref:"):
        return None, text if _OBJECT.fullmatch(text) else None
    ref = text.removeprefix("ref:").strip()
    at = ref
    for _ in range(_MOST_HOPS):
        if at not in symbolic:
            break
        at = symbolic[at]
    return ref, named.get(at)


def is_ref(name: str) -> bool:
    """Whether git takes this for the name of a ref."""
    return bool(_NAME.fullmatch(name)) and ".." not in name and "@{" not in name


def _packed(common_dir: GitFolder, object_name: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    data = common_dir.read("packed-refs", _LARGEST_PACKED)
    for line in os.fsdecode(data or b"").split("\n"):
        name, _, ref = line.partition(" ")
        if object_name.fullmatch(name) and is_ref(ref):
            yield ref, name


def _loose(folder: GitFolder) -> Iterator[tuple[str, str]]:
    """Every file below `refs`, with its text."""
    files = folders = 0
    todo = ["refs"]
    while todo:
        at = todo.pop()
        below, names = folder.names(at)
        folders, files = folders + 1, files + len(names)
        if folders > _MOST_FOLDERS or files > _MOST_FILES or at.count("/") > _DEEPEST:
            raise _too_many(folder.path / "refs")
        todo += [f"{at}/{name}" for name in below]
        for ref in (f"{at}/{name}" for name in names):
            data = folder.read(ref, _LARGEST_REF)
            if data is not None and is_ref(ref):
                yield ref, os.fsdecode(data)


def _too_many(refs: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{str(refs)!r} holds more than {_MOST_FILES:,} files or {_MOST_FOLDERS:,} folders, or is too deep",
        fix="Run 'git pack-refs --all' there, or copy without git: --git none, HostMount(…, git='none')",
    )
