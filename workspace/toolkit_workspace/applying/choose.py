"""Choose which changes to apply: by path, by mount, and never what nobody asked for by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.changes import Change, Changes


def choose(
    changes: Changes, paths: Iterable[str | Path] | None, mounts: Iterable[str] | None
) -> tuple[list[Change], list[tuple[str, str]]]:
    """The changes to apply, and those asked for that never are, with the reason."""
    wanted_paths = None if paths is None else [str(path) for path in paths]
    wanted_mounts = None if mounts is None else set(mounts)
    _refuse_unknown(changes, wanted_paths, wanted_mounts)
    names_git = any(".git" in path.split("/") for path in wanted_paths or ())
    chosen: list[Change] = []
    left: list[tuple[str, str]] = []
    for change in changes:
        if wanted_mounts is not None and change.mount not in wanted_mounts:
            continue
        if wanted_paths is not None and not any(change.is_below(path) for path in wanted_paths):
            continue
        if reason := _why_left(change, names_git):
            left.append((change.path, reason))
        else:
            chosen.append(change)
    return chosen + _needed_for(chosen, changes), left


def _needed_for(chosen: Sequence[Change], changes: Changes) -> list[Change]:
    """The changes that make room for the chosen ones: folders above them, and files where these folders come."""
    above = {parent for change in chosen if change.kind != "deleted" for parent in _parents(change.path)}
    taken = {id(change) for change in chosen}
    return [
        change
        for change in changes
        if id(change) not in taken and change.path in above and change.mount is not None
        if change.type == "folder" or change.kind == "deleted"
    ]


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _why_left(change: Change, names_git: bool) -> str:
    if change.mount is None:
        return "outside every mount"
    if change.type == "special":
        return "neither file, folder nor link"
    if ".git" in change.path.lower().split("/") and not names_git:
        return "inside a git folder: name it in paths to apply it"
    return ""


def _refuse_unknown(changes: Changes, paths: list[str] | None, mounts: set[str] | None) -> None:
    for mount in sorted(mounts or ()):
        if mount not in changes.mounts:
            raise WorkspaceError(f"no mount is called {mount!r}", fix=f"The mounts are: {', '.join(changes.mounts)}")
    for path in paths or ():
        if not any(change.is_below(path) for change in changes):
            raise WorkspaceError(
                f"nothing changed at {path!r}",
                fix="Paths are relative to the workspace, as in changes().summary()",
            )
