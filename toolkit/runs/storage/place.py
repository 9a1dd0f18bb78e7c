"""The place a run works in: the folder on the host, how it appears in the jail, and the owner's tools beside it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from toolkit._base.locks import Lock
from toolkit._base.words import safe_name
from toolkit.errors import RunError, ToolError
from toolkit.runs.agents import shown_folders
from toolkit.runs.spec import InPlace, RunSpec
from toolkit.runs.storage.backing import why_whole
from toolkit.runs.storage.going_on import (
    Taken,
    is_free_of_links,
    mounts_of,
    news_of,
    note_stay,
    refuse_half_applied,
    refuse_half_rewound,
    take_place,
    without_links,
)
from toolkit.runs.storage.run_folder import RunFolder
from toolkit.runs.storage.stored_run import StoredRun
from toolkit.runs.storage.stored_runs import run_of_session
from toolkit.sandbox import LITTER, Layout, Toolchain, find_toolchain, remove_litter, toolchain_of, unreadable_text

if TYPE_CHECKING:
    from toolkit.runs.layers.layer import Layer
    from toolkit.tools import AgentPaths
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
    goes_on: bool = False
    """Whether the conversation has worked there before."""
    news: str = ""
    """What is different from what the conversation knows, in words."""
    protected: tuple[str, ...] = ()
    """What in the folder the agent cannot change, relative to it."""
    lock: Lock | None = None
    """Held where somebody else made the folder and there is no section to hold."""
    layer: Layer | None = None
    """What the setup made, which is shown there as well."""
    whole: Path | None = None
    """Where this process reaches all files of an overlay, while its jail is open."""

    @property
    def reached(self) -> Path:
        """The folder as tools on the host reach it."""
        return self.whole or self.folder

    @property
    def start(self) -> str:
        """The agent's working directory, as it knows it."""
        if self.layout.start:
            return self.layout.start
        return self.layout.places[0][1] if self.layout.places else str(self.folder)

    @property
    def working_folder(self) -> Path:
        """The host folder behind the agent's working directory."""
        top, below = self.locate(".") or (self.reached, ".")
        return top / below

    def locate(self, path: str) -> tuple[Path, str] | None:
        """The host folder behind a part of the workspace and the path below it, for a path that the agent wrote."""
        wanted = PurePosixPath(os.path.normpath(PurePosixPath(self.start, path)))
        if any(wanted.is_relative_to(inside) for _, inside in self.layout.lent):
            raise ToolError(f"{safe_name(path)} is shown from the host, read-only: a tool cannot take it")
        for part, inside in sorted(self.parts, key=lambda pair: -len(pair[1])):
            if wanted.is_relative_to(inside):
                return self.reached / part, str(wanted.relative_to(inside))
        return None

    def to_agent(self, path: Path) -> str | None:
        """What the agent calls a host path; None for one it cannot see."""
        for part, inside in sorted(self.parts, key=lambda pair: -len(Path(pair[0]).parts)):
            for top in dict.fromkeys((self.reached, self.folder)):
                if path.is_relative_to(top / part):
                    return str(PurePosixPath(inside, path.relative_to(top / part)))
        return None

    def names(self) -> list[tuple[str, str]]:
        """The host folders that the agent knows by another name, each with that name, the innermost first."""
        tops = dict.fromkeys((self.reached, self.folder))
        pairs = [(top / part, inside) for top in tops for part, inside in self.parts]
        known = {os.path.normpath(way): inside for path, inside in pairs for way in (path, path.resolve())}
        others = [(host, inside) for host, inside in known.items() if host != inside]
        return sorted(others, key=lambda one: -len(one[0]))

    def check_change(self, path: Path) -> None:
        """See `AgentPaths.check_change`: without `for_writing` nothing is held against it."""

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The parts of the folder, relative to it, each with its path inside."""
        return self.layout.places or ((".", str(self.folder)),)

    def for_writing(self) -> AgentPaths:
        """The same for a tool that may change what it is given: without what is protected."""
        return Unprotected(self) if self.protected else self

    def mounts(self) -> list[tuple[str, str]]:
        """The host paths that were copied, and where each lies in the folder."""
        return mounts_of(() if self.section is None else self.section.mounts)

    def lent(self) -> list[dict[str, str]]:
        """What is shown from the host, in words."""
        return lent_rows(self.layout, self.toolchain, self.layer)

    def warnings(self) -> list[str]:
        """What the owner should know before anything is sent."""
        told = [self.news] if self.news else []
        if self.section is None or self.goes_on:
            return told
        from toolkit_workspace import left_secrets_text, left_unread_text, secrets_text

        told += [secrets_text(self.section.secrets)] if self.section.secrets else []
        left = self.section.left_out
        return [*told, *(one for one in (left_secrets_text(left), left_unread_text(left)) if one)]

    def unreadable(self) -> str:
        """What the agent cannot read of what it is lent, in one sentence; empty where nothing was found.

        It takes as long as all else before the CLI is started, and the answer changes nothing: look while the model
        thinks.
        """
        return unreadable_text(host for host, _ in self.layout.lent)

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
        if self.lock is not None:
            self.lock.release()


@dataclass(frozen=True, slots=True)
class Unprotected:
    """The paths of a place, but for those that are protected."""

    place: Place

    def locate(self, path: str) -> tuple[Path, str] | None:
        """See `Place.locate`."""
        found = self.place.locate(path)
        if found is None:
            return None
        top, below = found
        real = Path(os.path.realpath(top / below))
        if any(real.is_relative_to(one) for one in self._protected()):
            raise _is_protected(path)
        return found

    def to_agent(self, path: Path) -> str | None:
        """See `Place.to_agent`."""
        return self.place.to_agent(path)

    def names(self) -> list[tuple[str, str]]:
        """See `Place.names`."""
        return self.place.names()

    def check_change(self, path: Path) -> None:
        """See `AgentPaths.check_change`."""
        real = Path(os.path.realpath(path.parent)) / path.name
        shown = self.place.to_agent(real) or str(path)
        for one in self._protected():
            if real.is_relative_to(one):
                raise _is_protected(shown)
            # What is above could be moved or removed with it.
            if one.is_relative_to(real):
                held = safe_name(str(one.relative_to(real)))
                raise ToolError(f"{safe_name(shown)} has {held} in it, which is protected and stays where it is")

    def _protected(self) -> list[Path]:
        folder = self.place.folder.resolve()
        return [folder / one for one in self.place.protected]


def _is_protected(path: str) -> ToolError:
    return ToolError(f"{safe_name(path)} is protected: only a tool that changes nothing can take it")


def find_place(spec: RunSpec, stored: RunFolder, layer: Layer | None = None) -> Place:
    """The place for a run; a section that is not prepared yet is prepared inside the run's folder and kept there.

    A conversation that goes on and is given no workspace works where it worked before. `layer` is what a setup made.
    """
    given = spec.workspace
    earlier = None if spec.resume is None else run_of_session(spec.resume, spec.home)
    if given is None:
        taken = None if earlier is None else take_place(earlier, spec.run_id)
        return _own_folder(spec, stored, earlier) if taken is None else _taken_up(spec, taken, layer)
    if isinstance(given, InPlace):
        return Place(_existing(given))
    claimed, is_fresh = not given.is_held, not given.is_prepared
    if not is_fresh:
        refuse_half_rewound(given)
        refuse_half_applied(given)
    if not is_fresh and claimed and earlier is not None and earlier.facts["workspace"] == str(given.temp_dir):
        given.prepare()
        note_stay(given.temp_dir, stored.folder)
        return _taken_up(spec, Taken(given.temp_dir, given), layer)
    if not is_fresh:
        _refuse_links(given, spec)
    toolchain = _toolchain(given, spec, layer)
    if is_fresh:
        _lend(given, toolchain)
        given.show_over({} if layer is None else layer.over())
    if claimed:
        given.prepare(parent=stored.folder, keep=True, no_overlay=why_whole(spec), home=spec.home)
    _lend(given, toolchain)  # over the copies that a section has which was prepared before
    if not is_fresh:
        given.show_over({} if layer is None else layer.over())
    note_stay(given.temp_dir, stored.folder)
    if spec.transport is not None:
        return Place(given.temp_dir, given, claimed)
    given.show_inside()
    layout = _layout(given, toolchain, given.shown, was_worked_in=not is_fresh, layer=layer)
    return Place(given.temp_dir, given, claimed, layout=layout, toolchain=toolchain, layer=layer)


def _own_folder(spec: RunSpec, stored: RunFolder, earlier: StoredRun | None) -> Place:
    """An empty folder of the run's own."""
    stored.workspace.mkdir(mode=0o700)
    # A transport starts nothing, so nothing stands elsewhere than on the host.
    inside = Layout(places=((".", EMPTY),), own_git=True) if spec.transport is None else Layout()
    is_lost = earlier is not None and not Path(earlier.facts["workspace"]).is_dir()
    news = "The files of the turns before were dropped: the folder is empty." if is_lost else ""
    return Place(stored.workspace, is_own=True, layout=inside, news=news)


def _taken_up(spec: RunSpec, taken: Taken, layer: Layer | None = None) -> Place:
    """The place of an earlier run, with what changed on the host since."""
    section = taken.section
    if section is None:
        inside = Layout(places=((".", EMPTY),), own_git=True) if spec.transport is None else Layout()
        return Place(taken.folder, is_own=True, layout=inside, goes_on=True, lock=taken.lock)
    try:
        toolchain = _toolchain(section, spec, layer)
        news = news_of(section.update_from_host(besides=[one.host for one in toolchain.lent]), section)
        if spec.transport is not None:
            return Place(taken.folder, section, claimed=True, goes_on=True, news=news)
        section.show_inside()
        _refuse_links(section, spec)
        # Tools that came into a mount since are not shown: the agent may have something of its own in their place.
        mounts = [Path(mount.host_path).resolve() for mount in section.mounts]
        outside = tuple(one for one in toolchain.lent if not _lies_in(mounts, one.inside))
        layout = _layout(section, replace(toolchain, lent=outside), section.shown, was_worked_in=True, layer=layer)
        lost = [inside for _, inside in section.shown.lent if inside not in {place for _, place in layout.lent}]
        if lost:
            news = f"{news} No longer shown from the host: {', '.join(map(safe_name, lost))}.".lstrip()
        return Place(
            taken.folder, section, True, layout=layout, toolchain=toolchain, goes_on=True, news=news, layer=layer
        )
    except BaseException:
        taken.release()
        raise


def _refuse_links(section: WorkspaceSection, spec: RunSpec) -> None:
    """What is shown from the host below the workspace must not be led elsewhere by a link that an agent made."""
    for path in (*spec.readable, *shown_folders(spec)):
        shown = Path(path).resolve()
        place = section.places.to_host(section.temp_dir, str(shown))
        if place is not None and not is_free_of_links(section.temp_dir, str(place.relative_to(section.temp_dir))):
            raise RunError(
                f"{shown} cannot be shown to the agent: it has put a link in its place",
                where=[str(place)],
                fix="Leave it out, or start from the host's files: name the workspace again",
            )


def plan_place(spec: RunSpec, layer: Layer | None = None) -> tuple[Layout, Toolchain, Plan | None]:
    """How the place for a run would appear inside, and what would be copied; nothing is made.

    `layer` is what its setup made, if it is there.
    There is no plan where nothing is copied any more: without mounts, and for a section that is prepared.
    """
    given = spec.workspace
    if given is None:
        earlier = None if spec.resume is None else run_of_session(spec.resume, spec.home)
        if earlier is not None and earlier.facts.get("copied"):
            raise RunError(
                f"there is nothing to plan: this goes on in the workspace of run {earlier.id}",
                fix=f"See what that has: toolkit runs show {earlier.id}",
            )
        return Layout(places=((".", EMPTY),), own_git=True), Toolchain(), None
    if isinstance(given, InPlace):
        folder = str(_existing(given))
        return Layout(places=((".", folder),)), Toolchain(), None
    toolchain = _toolchain(given, spec, layer)
    if given.is_prepared:
        return _layout(given, toolchain, given.shown, layer=layer), toolchain, None
    looked_at = copy.copy(given)  # what is lent to it is lent to this one only
    _lend(looked_at, toolchain)
    looked_at.show_over({} if layer is None else layer.over())
    plan = looked_at.plan()
    return _layout(looked_at, toolchain, looked_at.plan_shown(plan), layer=layer), toolchain, plan


def lent_rows(layout: Layout, toolchain: Toolchain, layer: Layer | None = None) -> list[dict[str, str]]:
    """What is shown from the host, in words."""
    known = {one.inside: one.what for one in toolchain.lent}
    rows = [(str(host), inside) for host, inside in layout.lent]
    if layer is not None:
        made = f"made by the setup, layer {layer.short}"
        own = [(Path(host), inside) for host, inside in rows if Path(host).is_relative_to(layer.folder)]
        known |= {one.inside: one.what for one in toolchain_of(own).lent}
        known |= {inside: made for _, inside in own}
    return [{"host": host, "inside": inside, "what": known.get(inside) or _what(inside)} for host, inside in rows]


def _existing(given: InPlace) -> Path:
    folder = Path(given.folder)
    if not folder.is_dir():
        raise RunError(f"the workspace '{folder}' is not a folder", fix="Name one that exists, or a section")
    return folder.resolve()


def _toolchain(section: WorkspaceSection, spec: RunSpec, layer: Layer | None) -> Toolchain:
    """The tools of the projects that are mounted, but for those that a layer has in their place."""
    if not spec.toolchain or spec.transport is not None:
        return Toolchain()
    covered = {} if layer is None else layer.covered(section)
    return find_toolchain([one for one in section.projects if one.is_dir()], covered=covered)


def _lend(section: WorkspaceSection, toolchain: Toolchain) -> None:
    """Lend what of the tools lies in a mount."""
    for mount in section.mounts:
        section.lend_also(mount, toolchain.inside(Path(mount.host_path).resolve()))


def _what(inside: str) -> str:
    return GIT_HISTORY if inside.startswith("/run/") else "lent"


def _layout(
    section: WorkspaceSection,
    toolchain: Toolchain,
    shown: Shown,
    *,
    was_worked_in: bool = False,
    layer: Layer | None = None,
) -> Layout:
    places, mounts = section.places, [Path(mount.host_path).resolve() for mount in section.mounts]
    lent = [(Path(host), inside) for host, inside in shown.all]
    # What lies in a mount is lent with it; elsewhere it keeps its place. A mount that is shown elsewhere has its
    # tools at both, because their scripts name the interpreter by its path.
    inside = {place for _, place in lent}
    tops = [Path(part.inside) for part in places.parts]
    lent += [(one.host, one.inside) for one in toolchain.lent if one.inside not in inside | _below(tops, toolchain)]
    if was_worked_in:
        lent = without_links(lent, section)

    def as_seen(path: str) -> str:
        for mount, project in zip(section.mounts, mounts, strict=True):
            if Path(path).is_relative_to(project):
                return places.to_agent(str(Path(mount.landing) / Path(path).relative_to(project)))
        return path

    layout = Layout(
        places=tuple((part.landing, part.inside) for part in places.parts),
        start=places.start,
        lent=tuple(lent),
        path=tuple(_lent_only(map(as_seen, toolchain.path), lent)),
        environment={name: as_seen(value) for name, value in toolchain.environment.items()},
        own_git=all(mount.git != "copy" for mount in section.mounts),
        **_layers(section),
    )
    return layout if layer is None else layer.shown_in(layout, section)


def _layers(section: WorkspaceSection) -> dict[str, Any]:
    """What shows through the section's folder, where something does."""
    layers = section.layers if section.is_prepared else None
    return {} if layers is None else {"below": (layers[0],), "work": layers[1]}


def _below(tops: Iterable[Path], toolchain: Toolchain) -> set[str]:
    """Tools that lie in the workspace and are not lent with it: an agent may have something of its own there."""
    return {one.inside for one in toolchain.lent if _lies_in(tops, one.inside)}


def _lies_in(folders: Iterable[Path], path: str) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _lent_only(path: Iterator[str], lent: list[tuple[Path, str]]) -> Iterator[str]:
    """A section that was prepared before may have copied what would be lent: that stays off PATH."""
    places = [Path(inside) for _, inside in lent]
    return (one for one in path if any(Path(one).is_relative_to(place) for place in places))
