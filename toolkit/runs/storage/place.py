"""The place a run works in: the folder on the host, how it appears in the jail, and the owner's tools beside it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from toolkit.errors import RunError
from toolkit.runs.spec import InPlace, RunSpec
from toolkit.runs.storage.run_folder import RunFolder
from toolkit.sandbox import LITTER, Layout, Toolchain, find_toolchain, remove_litter

if TYPE_CHECKING:
    from toolkit_workspace import Changes, Plan, Shown, WorkspaceSection

EMPTY = "/work"
"""Where an empty workspace appears to the agent."""
GIT_HISTORY = "git history"
"""What a stored run calls the host's objects, which are shown for git."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folder a run works in, and the section it belongs to, if it is a copy."""

    folder: Path
    section: WorkspaceSection | None = None
    claimed: bool = False
    """Whether the run took hold of the section, and lets go of it at its end."""
    is_own: bool = False
    """Whether it is an empty folder of the run's own."""
    layout: Layout = field(default_factory=Layout)
    """Where it appears inside, and what is lent."""
    toolchain: Toolchain = field(default_factory=Toolchain)
    """The owner's tools among that."""

    @property
    def start(self) -> str:
        """The agent's working directory, as it knows it."""
        if self.layout.start:
            return self.layout.start
        return self.layout.places[0][1] if self.layout.places else str(self.folder)

    @property
    def working_folder(self) -> Path:
        """The host folder behind the agent's working directory."""
        top, below = self.locate(".") or (self.folder, ".")
        return top / below

    def locate(self, path: str) -> tuple[Path, str] | None:
        """The host folder behind a part of the workspace and the path below it, for a path that the agent wrote."""
        wanted = PurePosixPath(os.path.normpath(PurePosixPath(self.start, path)))
        for part, inside in sorted(self._parts(), key=lambda pair: -len(pair[1])):
            if wanted.is_relative_to(inside):
                return self.folder / part, str(wanted.relative_to(inside))
        return None

    def to_agent(self, path: Path) -> str | None:
        """What the agent calls a host path; None for one it cannot see."""
        for part, inside in sorted(self._parts(), key=lambda pair: -len(Path(pair[0]).parts)):
            if path.is_relative_to(self.folder / part):
                return str(PurePosixPath(inside, path.relative_to(self.folder / part)))
        return None

    def _parts(self) -> tuple[tuple[str, str], ...]:
        return self.layout.places or ((".", str(self.folder)),)

    def lent(self) -> list[dict[str, str]]:
        """What is shown from the host, in words."""
        return lent_rows(self.layout, self.toolchain)

    def warnings(self) -> list[str]:
        """What the owner should know before anything is sent."""
        if self.section is None or not self.section.secrets:
            return []
        from toolkit_workspace import secrets_text

        return [secrets_text(self.section.secrets)]

    def changes(self) -> Changes | None:
        """What the agent changed of what it was given; None where that cannot be known: it works in place."""
        if self.section is None:
            from toolkit_workspace import Changes

            return Changes(()) if self.is_own else None
        found = self.section.changes()
        litter = [change.path for change in found if change.kind == "added" and change.path.endswith(LITTER)]
        if not litter:
            return found
        remove_litter(self.folder, litter)
        return self.section.changes()

    def release(self) -> None:
        """Let other processes have the copy; the section goes on working in this one."""
        if self.section is not None and self.claimed:
            self.section.release()


def find_place(spec: RunSpec, stored: RunFolder) -> Place:
    """The place for a run; a section that is not prepared yet is prepared inside the run's folder and kept there."""
    given = spec.workspace
    if given is None:
        stored.workspace.mkdir(mode=0o700)
        # A transport starts nothing, so nothing stands elsewhere than on the host.
        inside = Layout(places=((".", EMPTY),), own_git=True) if spec.transport is None else Layout()
        return Place(stored.workspace, is_own=True, layout=inside)
    if isinstance(given, InPlace):
        return Place(_existing(given))
    claimed = not given.is_held
    if spec.transport is not None:
        if claimed:
            given.prepare(parent=stored.folder, keep=True)
        return Place(given.temp_dir, given, claimed)
    toolchain = _toolchain(given, spec)
    if claimed:
        _lend(given, toolchain)
        given.prepare(parent=stored.folder, keep=True)
    given.show_inside()
    return Place(given.temp_dir, given, claimed, layout=_layout(given, toolchain, given.shown), toolchain=toolchain)


def plan_place(spec: RunSpec) -> tuple[Layout, Toolchain, Plan | None]:
    """How the place for a run would appear inside, and what would be copied; nothing is made.

    There is no plan where nothing is copied any more: without mounts, and for a section that is prepared.
    """
    given = spec.workspace
    if given is None:
        return Layout(places=((".", EMPTY),), own_git=True), Toolchain(), None
    if isinstance(given, InPlace):
        folder = str(_existing(given))
        return Layout(places=((".", folder),)), Toolchain(), None
    toolchain = _toolchain(given, spec)
    if given.is_prepared:
        return _layout(given, toolchain, given.shown), toolchain, None
    looked_at = copy.copy(given)  # what is lent to it is lent to this one only
    _lend(looked_at, toolchain)
    plan = looked_at.plan()
    return _layout(looked_at, toolchain, looked_at.plan_shown(plan)), toolchain, plan


def lent_rows(layout: Layout, toolchain: Toolchain) -> list[dict[str, str]]:
    """What is shown from the host, in words."""
    known = {one.inside: one.what for one in toolchain.lent}
    rows = [(str(host), inside) for host, inside in layout.lent]
    return [{"host": host, "inside": inside, "what": known.get(inside) or _what(inside)} for host, inside in rows]


def _existing(given: InPlace) -> Path:
    folder = Path(given.folder)
    if not folder.is_dir():
        raise RunError(f"the workspace '{folder}' is not a folder", fix="Name one that exists, or a section")
    return folder.resolve()


def _toolchain(section: WorkspaceSection, spec: RunSpec) -> Toolchain:
    """The tools of the projects that are mounted."""
    projects = [Path(mount.host_path).resolve() for mount in section.mounts]
    return find_toolchain([one for one in projects if one.is_dir()]) if spec.toolchain else Toolchain()


def _lend(section: WorkspaceSection, toolchain: Toolchain) -> None:
    """Lend what of the tools lies in a mount."""
    for mount in section.mounts:
        section.lend_also(mount, toolchain.inside(Path(mount.host_path).resolve()))


def _what(inside: str) -> str:
    return GIT_HISTORY if inside.startswith("/run/") else "lent"


def _layout(section: WorkspaceSection, toolchain: Toolchain, shown: Shown) -> Layout:
    places, mounts = section.places, [Path(mount.host_path).resolve() for mount in section.mounts]
    lent = [(Path(host), inside) for host, inside in shown.all]
    # What lies in a mount is lent with it; elsewhere it keeps its place. A mount that is shown elsewhere has its
    # tools at both, because their scripts name the interpreter by its path.
    inside = {place for _, place in lent}
    lent += [(one.host, one.inside) for one in toolchain.lent if one.inside not in inside]

    def as_seen(path: str) -> str:
        for mount, project in zip(section.mounts, mounts, strict=True):
            if Path(path).is_relative_to(project):
                return places.to_agent(str(Path(mount.landing) / Path(path).relative_to(project)))
        return path

    return Layout(
        places=tuple((part.landing, part.inside) for part in places.parts),
        start=places.start,
        lent=tuple(lent),
        path=tuple(_lent_only(map(as_seen, toolchain.path), lent)),
        environment={name: as_seen(value) for name, value in toolchain.environment.items()},
        own_git=all(mount.git != "copy" for mount in section.mounts),
    )


def _lent_only(path: Iterator[str], lent: list[tuple[Path, str]]) -> Iterator[str]:
    """A section that was prepared before may have copied what would be lent: that stays off PATH."""
    places = [Path(inside) for _, inside in lent]
    return (one for one in path if any(Path(one).is_relative_to(place) for place in places))
