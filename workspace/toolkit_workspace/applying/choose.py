"""Choose the changes to apply, by the paths and mounts that people name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from toolkit._base.words import nearest
from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.changes import Change, Changes
from toolkit_workspace.record.record import MountRecord, join
from toolkit_workspace.workspace import Workspace

_MOST_NAMED = 10


def choose(
    workspace: Workspace, changes: Changes, paths: Iterable[str | Path] | None, mounts: Iterable[str] | None
) -> tuple[list[Change], list[tuple[str, str]]]:
    """The changes to apply, and those asked for that never are, with the reason.

    Raises:
        WorkspaceError: a path or mount matches nothing, or a path several things.
    """
    wanted_mounts = None if mounts is None else set(mounts)
    _refuse_unknown(changes, wanted_mounts)
    wanted_paths = None if paths is None else [_meant(workspace, changes, str(path)) for path in paths]
    names_git = any(".git" in path.split("/") for path in wanted_paths or ())
    ignored = {change.path for change in changes if change.ignored}
    named = [path for path in wanted_paths or () if not ignored.isdisjoint((path, *_parents(path)))]
    chosen: list[Change] = []
    left: list[tuple[str, str]] = []
    for change in changes:
        if wanted_mounts is not None and change.mount not in wanted_mounts:
            continue
        if wanted_paths is not None and not any(change.is_below(path) for path in wanted_paths):
            continue
        if change.ignored and not any(change.is_below(path) for path in named):
            if change.path.rpartition("/")[0] not in ignored:  # what is in it goes without saying
                left.append((change.path, "the project ignores it, or it is a cache: name it in paths to apply it"))
        elif reason := _why_left(change, names_git) or _why_left_planted(change, wanted_paths or ()):
            left.append((change.path, reason))
        else:
            chosen.append(change)
    return chosen + _needed_for(chosen, changes), left


def _meant(workspace: Workspace, changes: Changes, path: str) -> str:
    """The path in the workspace that somebody means who names it there, in its mount, or on the host."""
    if not path:
        fix = "Write a path of the workspace, or name none to apply everything."
        raise WorkspaceError("a path to apply is empty", fix=fix).as_mistyped()
    if any(change.is_below(path) for change in changes):
        return path
    ways = dict.fromkeys(_ways_to_mean(workspace, path))
    found = [one for one in ways if any(change.is_below(one) for change in changes)]
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkspaceError(
            f"{path!r} can mean several paths of the workspace",
            where=found[:_MOST_NAMED],
            fix="Write the one that is meant.",
        ).as_mistyped()
    names = [change.agent_path or change.path for change in changes]
    near = nearest(path, names) or next((name for name in names if name.endswith("/" + path.rpartition("/")[2])), None)
    hint = f"; did you mean {near!r}?" if near else ""
    raise WorkspaceError(
        f"nothing changed at {path!r}{hint}",
        where=[f"the changes are at: {', '.join(names[:_MOST_NAMED])}"] if names else ["there are no changes"],
        fix="Paths are those of the workspace, as the summary of the changes lists them, or of the host.",
    ).as_mistyped()


def _ways_to_mean(workspace: Workspace, path: str) -> Iterator[str]:
    """The paths of the workspace that a path can stand for: relative to it, to a mount, or to where we are."""
    absolute = os.path.normpath(Path.cwd() / path)
    if (below := _below(absolute, str(workspace.folder))) is not None:
        yield below or "."
    if workspace.seen is not None and (found := workspace.seen.from_agent(absolute)) is not None:
        yield found
    for mount in workspace.record.mounts:
        if (below := _below(absolute, os.fsdecode(mount.host))) is not None:
            yield from _in_mount(mount, below)
        if not Path(path).is_absolute():
            yield from _in_mount(mount, os.path.normpath(path))


def _in_mount(mount: MountRecord, path: str) -> Iterator[str]:
    if mount.name is None:
        yield os.fsdecode(join(mount.at, os.fsencode(path)) if path not in ("", ".") else mount.at) or "."
    elif os.fsencode(path) == mount.name:
        yield os.fsdecode(mount.at)


def _below(path: str, folder: str) -> str | None:
    """The rest of a path below a folder, None outside of it."""
    return path[len(folder) :].strip("/") if path == folder or path.startswith(folder.rstrip("/") + "/") else None


def _needed_for(chosen: Sequence[Change], changes: Changes) -> list[Change]:
    """The changes that make room for the chosen ones: folders above them, and files where these folders come."""
    above: set[str] = set()
    for change in chosen:
        if change.kind != "deleted":
            for parent in _parents(change.path):
                if parent in above:  # and so are those above it
                    break
                above.add(parent)
    taken = {id(change) for change in chosen}
    return [
        change
        for change in changes
        if id(change) not in taken and change.path in above and change.mount is not None
        if change.type == "folder" or change.kind == "deleted"
    ]


def _parents(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def _why_left(change: Change, names_git: bool) -> str:
    if change.mount is None:
        return "outside every mount"
    if change.type == "special":
        return "neither file, folder nor link"
    if ".git" in change.path.lower().split("/") and not names_git:
        return "inside a git folder: name it in paths to apply it"
    return ""


def _why_left_planted(change: Change, wanted: Iterable[str]) -> str:
    """A folder that git takes for a repository is taken only by its own name, or by one in it."""
    folder = change.planted
    if folder is None or any(path == folder or path.startswith(f"{folder}/") for path in wanted):
        return ""
    return f"git takes {folder!r} for a repository, whose settings can run programs: name it in paths to apply it"


def _refuse_unknown(changes: Changes, mounts: set[str] | None) -> None:
    for mount in sorted(mounts or ()):
        if mount not in changes.mounts:
            known = f"The mounts are: {', '.join(changes.mounts)}"
            raise WorkspaceError(f"no mount is called {mount!r}", fix=known).as_mistyped()
