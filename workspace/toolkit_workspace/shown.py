"""What of a mount is shown from the host instead of being copied: lent folders, and git's history.

Called once the rest has been copied. In the copy there is an empty folder where something
is lent, and a git folder of its own where the host has a repository.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit._base.handles import READ_DIR
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.git import (
    GitInside,
    Origin,
    Repository,
    find_around,
    find_repository,
    make_git,
    origin_of,
    plan_git,
)
from toolkit_workspace.mount import HostMount
from toolkit_workspace.places import Places
from toolkit_workspace.selecting import AllowedRoots, Source, Tally
from toolkit_workspace.workspace import Workspace

NOTHING = "nothing"
"""The empty file beside a workspace that is shown in place of others."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown besides the copy."""

    lent: tuple[tuple[str, str], ...] = ()
    """Host paths to show read-only, each with its place inside."""
    git: tuple[GitInside, ...] = ()
    aside: tuple[str, ...] = ()
    """Places in the workspace, relative to it, that are no part of the changes."""
    origins: tuple[Origin, ...] = ()
    """The repositories that its parts come from."""
    over: tuple[tuple[str, str], ...] = ()
    """Host paths that are no part of a mount, each with its place in the workspace, relative to it."""

    @property
    def all(self) -> tuple[tuple[str, str], ...]:
        """Everything that has to be shown, lent folders and what git needs."""
        return (*self.lent, *(pair for one in self.git for pair in one.lent))

    def covered(self, folders: Mapping[str, Path], places: Places) -> Shown:
        """The same with these shown over places of the workspace, instead of those before."""
        before = {place for _, place in self.over}
        gone = {places.to_agent(place) for place in before}
        lent = [pair for pair in self.lent if pair[1] not in gone]
        lent += [(str(host), places.to_agent(place)) for place, host in folders.items()]
        aside = [place for place in self.aside if place not in before]
        over = tuple((str(host), place) for place, host in folders.items())
        return replace(self, lent=tuple(lent), aside=(*aside, *folders), over=over)

    def to_json(self) -> dict[str, Any]:
        git = [{"at": one.at, "lent": one.lent, "remarks": one.remarks} for one in self.git]
        origins = [one.to_json() for one in self.origins]
        return {"lent": self.lent, "git": git, "aside": self.aside, "origins": origins, "over": self.over}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Shown:
        git = [GitInside(one["at"], _pairs(one["lent"]), tuple(one["remarks"])) for one in data["git"]]
        origins = tuple(map(Origin.from_json, data["origins"]))
        return cls(_pairs(data["lent"]), tuple(git), tuple(data["aside"]), origins, _pairs(data.get("over", ())))


def _pairs(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((host, inside) for host, inside in rows)


def show(
    workspace: Workspace, sources: Sequence[Source], tallies: Sequence[Tally], roots: AllowedRoots, places: Places
) -> Shown:
    """Make room for what is lent, and a git folder for each repository that was copied.

    Raises:
        WorkspaceError: a folder to lend is missing, or a repository cannot be read.
        WorkspaceSecurityError: one of them lies in no allowed root.
    """
    lent: list[tuple[str, str]] = []
    git: list[GitInside] = []
    aside: list[str] = []
    origins: list[Origin] = []
    for source, tally in zip(sources, tallies, strict=True):
        at = _landing(source)
        found = repositories_of(source, tally.repositories)
        origins += _origins(source, found)
        for name in source.mount.lend:
            lent.append((_lendable(source, name, roots), places.to_agent(f"{at}{name}")))
            workspace.make_folder(f"{at}{name}")
            aside.append(f"{at}{name}")
        if source.mount.git == "lend":
            stores = sum(len(one.lent) for one in git)
            for one in _gits(workspace, source, tally, found, roots, stores):
                git.append(one)
                aside.append(one.at)
    return Shown(tuple(lent), tuple(git), tuple(aside), tuple(origins))


def repositories_of(source: Source, places: Iterable[bytes | str]) -> dict[str, Repository]:
    """The repositories of a mount by the place of each below it; one that cannot be read matters where git is lent."""
    folder = Path(os.fsdecode(source.real_paths[0]))
    found: dict[str, Repository] = {}
    for below in sorted(map(os.fsdecode, places)):
        try:
            repository = find_repository(folder / below)
        except WorkspaceError:
            if source.mount.git == "lend":
                raise
            continue
        found |= {} if repository is None else {below: repository}
    return found


def _origins(source: Source, found: Mapping[str, Repository]) -> Iterator[Origin]:
    """Where the parts of a mount come from: the repository it lies in or is, and those below it."""
    folder = Path(os.fsdecode(source.real_paths[0]))
    top, name = _landing(source).rstrip("/"), os.fsdecode(source.record.name or b"")
    with contextlib.suppress(WorkspaceError):  # one around it that cannot be read: only a branch there would need it
        if "" not in found and (around := find_around(folder)) is not None:
            yield origin_of(around, top, folder / name)
    for below, repository in found.items() if not name else ():
        at = "/".join(part for part in (top, below) if part)
        git = f"{at}/.git".lstrip("/") if source.mount.git == "lend" else None
        yield origin_of(repository, at, folder / below, git=git)


def plan_shown(
    sources: Sequence[Source], repositories: Sequence[Iterable[bytes | str]], roots: AllowedRoots, places: Places
) -> Shown:
    """What `show` would give, by looking only; raises as it does. `repositories` are those found in each mount."""
    lent: list[tuple[str, str]] = []
    git: list[GitInside] = []
    origins: list[Origin] = []
    for source, below_it in zip(sources, repositories, strict=True):
        at = _landing(source)
        found = repositories_of(source, below_it)
        origins += _origins(source, found)
        lent += [(_lendable(source, name, roots), places.to_agent(f"{at}{name}")) for name in source.mount.lend]
        for below, repository in found.items() if source.mount.git == "lend" else ():
            _check_stores(repository, roots)
            place = str(PurePosixPath(at, below, ".git"))
            git.append(plan_git(repository, place, first_store=sum(len(one.lent) for one in git)))
    return Shown(tuple(lent), tuple(git), origins=tuple(origins))


def lend_over(shown: Shown, mount: HostMount, folders: Sequence[str], places: Places) -> Shown:
    """The same with further folders lent, in a workspace that has copies of them."""
    at = "" if mount.landing == "." else f"{mount.landing}/"
    top = Path(mount.host_path).resolve()
    lent = [(str((top / name).resolve()), places.to_agent(f"{at}{name}")) for name in folders]
    return replace(shown, lent=(*shown.lent, *lent), aside=(*shown.aside, *(f"{at}{name}" for name in folders)))


def _gits(
    workspace: Workspace,
    source: Source,
    tally: Tally,
    found: Mapping[str, Repository],
    roots: AllowedRoots,
    stores: int,
) -> Iterator[GitInside]:
    nothing = workspace.state_dir / NOTHING
    nothing.touch(mode=0o644)
    is_whole = not tally.left.counts
    for below, repository in found.items():
        _check_stores(repository, roots)
        at = f"{_landing(source)}{below}".rstrip("/")
        prefix = f"{below}/" if below else ""
        hidden = [name.removeprefix(prefix) for name in source.mount.lend if name.startswith(prefix)]
        copy = workspace.folder / at
        workspace.make_folder(at)
        made = make_git(
            repository,
            copy,
            f"{at}/.git" if at else ".git",
            first_store=stores,
            nothing=nothing,
            hidden=None if is_whole else hidden,
            below=None if workspace.below is None else workspace.below / at,
        )
        stores += len(made.lent)
        yield made


def _landing(source: Source) -> str:
    return "" if source.mount.landing == "." else f"{source.mount.landing}/"


def _lendable(source: Source, name: str, roots: AllowedRoots) -> str:
    """The real path of a folder to lend, which an allowed root must hold."""
    path = Path(os.fsdecode(source.real_paths[0])) / name
    try:
        handle = roots.open(path, READ_DIR & ~os.O_NOFOLLOW)
    except OSError as error:
        raise WorkspaceError(
            f"lend: {safe_name(name)} cannot be lent: {error.strerror}",
            where=[str(path)],
            fix="Name a folder that is there, or leave it away.",
        ) from error
    try:
        return str(Path(f"/proc/self/fd/{handle}").readlink())
    finally:
        os.close(handle)


def _check_stores(repository: Repository, roots: AllowedRoots) -> None:
    """Objects are shown from the repository itself; those it borrows must lie in an allowed root."""
    for store in repository.objects:
        if not store.is_relative_to(repository.common_dir.resolve()):
            os.close(roots.open(store))
