"""Prepare a workspace, describe it for a prompt, and take it away again.

A `WorkspaceSection` copies its mounts into a fresh folder only its user can enter.
Either everything selected arrives or nothing is left behind, Ctrl-C included.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from toolkit._base.files import is_full
from toolkit.errors import WorkspaceError
from toolkit_workspace.git import point_inside
from toolkit_workspace.mount import HostMount
from toolkit_workspace.options import (
    Backend,
    Rule,
    called_with,
    checked,
    flag,
    one_of,
    optional,
    path,
    several,
    wrong,
)
from toolkit_workspace.places import Places, checked_at, places_of
from toolkit_workspace.record.trouble import in_words, in_words_of
from toolkit_workspace.reviewed import Reviewed
from toolkit_workspace.selecting import (
    AllowedRoots,
    LeftOut,
    MountSummary,
    Plan,
    Secret,
    Seen,
    Source,
    check_budgets,
    check_landings,
    close_sources,
    left_secrets_text,
    left_unread_text,
    open_sources,
    plan_source,
    prompt_text,
    secrets_of,
    secrets_text,
)
from toolkit_workspace.shown import Shown, lend_over, plan_shown, show
from toolkit_workspace.workspace import Workspace, default_parent

if TYPE_CHECKING:
    from toolkit_workspace.copying import Progress
    from toolkit_workspace.delivering import Delivered, Delivery, Packer
    from toolkit_workspace.pristine import Wish
    from toolkit_workspace.travelling import GivenBack, Selected, Sink


class WorkspaceSection(Reviewed):
    """Allowed host files as a copy an agent may change; a context manager.

    Args:
        mounts: What comes along; a path is a `HostMount` with nothing else said.
        allowed_host_roots: Folders the mounts must lie in. Without one nothing is allowed.
        parent: Where the workspace folder is made; the system's temp folder if not given.
        keep: Leave the workspace when the context ends.
        strict: A file that cannot be read is an error, not a remark.
        progress: Called a few times a second while copying.
        keep_bases: Keep the bytes of files up to 1 MiB beside the workspace, in the background, so that
            what the host changes meanwhile can be merged instead of being a conflict.
        at: Where the agent finds it inside a jail, for example '/work'; the mounts' own paths if not given.
        backend: 'copy' gives it all files; with 'overlay' its folder holds only what is written, over a copy that
            is kept for all sections with these mounts, and only a jail sees the whole; 'auto' chooses.
    """

    def __init__(
        self,
        mounts: HostMount | str | os.PathLike[str] | Iterable[HostMount | str | os.PathLike[str]],
        allowed_host_roots: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        *,
        parent: str | os.PathLike[str] | None = None,
        keep: bool = False,
        strict: bool = False,
        progress: Callable[[Progress], None] | None = None,
        keep_bases: bool = True,
        at: str | os.PathLike[str] | None = None,
        backend: Backend = "copy",
    ) -> None:
        kept = checked(_RULES, locals())
        self.backend: Backend = kept["backend"]
        """How it is to be filled; see `filled_by` for how it was."""
        self._filled_by: tuple[str, str] = ("copy", "")
        self.mounts: tuple[HostMount, ...] = kept["mounts"]
        self.allowed_host_roots: tuple[Path, ...] = kept["allowed_host_roots"]
        self.keep: bool = kept["keep"]
        self._parent: Path | None = kept["parent"]
        self._strict: bool = kept["strict"]
        self._progress: Callable[[Progress], None] | None = kept["progress"]
        self._keep_bases: bool = kept["keep_bases"]
        self._workspace: Workspace | None = None
        self._summaries: tuple[MountSummary, ...] = ()
        self._shown = Shown()
        self._over: dict[str, Path] = {}
        self._secrets: tuple[Secret, ...] = ()
        self._is_inside = False
        self._given: Places | None = None
        """Where its parts appear, where its mounts do not say so: they were packed elsewhere."""
        self._was_inside = False
        """Whether an agent in a jail has seen it, now or before."""
        self.at: str | None = kept["at"]
        check_landings(self.mounts)

    @classmethod
    def open(cls, temp_dir: str | os.PathLike[str]) -> Self:
        """A workspace that another process prepared and kept; it stays kept.

        Raises:
            WorkspaceError: there is none at that place, or its owner still works with it.
        """
        from toolkit_workspace.travelling import is_copied, settle_here

        folder = path("temp_dir", temp_dir)
        with in_words("the workspace cannot be opened", at=folder):
            workspace = _adopted(folder)
        try:
            if is_copied(workspace):
                settle_here(workspace)
            facts = workspace.read_facts()
            try:
                mounts = [HostMount.from_json(one) for one in facts["mounts"]]
                section = cls(mounts, facts["roots"], parent=workspace.folder.parent, keep=True, at=facts["at"])
            except WorkspaceError as error:
                raise ValueError(error.what) from error
            section._shown = Shown.from_json(facts["shown"])
            section._over = {place: Path(host) for host, place in section._shown.over}
            section._secrets = tuple(Secret(*one) for one in facts["secrets"])
            section._was_inside = facts.get("seen") is not None
            section._given = Places.from_json(facts["given"]) if facts.get("given") else None
            section._filled_by = tuple(facts.get("filled_by") or ("copy", ""))
            section._summaries = tuple(MountSummary.from_json(one["summary"]) for one in facts["mounts"])
        except OSError as error:
            workspace.release()
            raise in_words_of(error, "the workspace cannot be opened", at=workspace.state_dir) from error
        except WorkspaceError:
            workspace.release()
            raise
        except (KeyError, TypeError, ValueError) as error:
            workspace.release()
            raise WorkspaceError(
                f"the record of the workspace {str(temp_dir)!r} cannot be read",
                where=[str(workspace.state_dir)],
                fix="Another version may have prepared it: use that one, or prepare it again.",
            ) from error
        section._workspace = workspace
        return section

    @property
    def is_prepared(self) -> bool:
        return self._workspace is not None

    @property
    def is_held(self) -> bool:
        """Whether it is prepared and not released: no other process can open it."""
        return self._workspace is not None and self._workspace.is_held

    @property
    def temp_dir(self) -> Path:
        """The folder the agent works in."""
        return self._prepared().folder

    @property
    def state_dir(self) -> Path:
        """Where the record and all else about the workspace is kept, outside of it."""
        return self._prepared().state_dir

    def _prepared(self) -> Workspace:
        if self._workspace is None:
            raise WorkspaceError(
                "the workspace is not prepared", fix="Use it as a context manager, or call prepare() first."
            )
        if not self._workspace.is_held:
            self._workspace.forget_record()  # another process may have applied changes meanwhile
        return self._workspace

    def check(self) -> None:
        """Open every mount beneath its root and close it again: `prepare` would raise the same, after it has begun.

        Raises:
            WorkspaceSecurityError: a mount lies in no allowed root, or a link leads out of it.
            WorkspaceError: a mount or a root is not there, or cannot be opened.
        """
        with AllowedRoots(self.allowed_host_roots) as roots:
            close_sources(open_sources(self.mounts, roots))

    @property
    def places(self) -> Places:
        """Where its parts appear to an agent in a jail."""
        return self._given or places_of(self.mounts, self.at)

    @property
    def projects(self) -> tuple[Path, ...]:
        """The host folders of its mounts, where its owner's tools are looked for."""
        return tuple(Path(mount.host_path).resolve() for mount in self.mounts)

    @property
    def shown(self) -> Shown:
        """What a jail has to show besides the copy: lent folders, and what git needs."""
        self._prepared()
        return self._shown

    def show_inside(self) -> None:
        """From now on it is spoken of as an agent in a jail sees it: in the prompt, and in its git folders."""
        if not self._is_inside and self.shown.git:
            with in_words("the git folder of the workspace cannot be written"), self._prepared().opened() as root:
                for one in self.shown.git:
                    point_inside(root, one)
        self._is_inside = True
        if not self._was_inside:
            self._was_inside = True
            self._write_facts()

    def _write_facts(self) -> None:
        workspace = self._prepared()
        what = f"what is known of the workspace {workspace.folder} cannot be written"
        with in_words(what, at=workspace.state_dir):
            workspace.write_facts(**self._facts())
        workspace.facts_changed()

    def lend_also(self, mount: HostMount, folders: Iterable[str]) -> None:
        """Lend further folders of a mount.

        In a workspace that is prepared already they were copied: what is lent is then shown over the copy, which
        counts no more. One that an agent has seen stays as it is.
        """
        if self._is_inside:
            return
        new = [folder for folder in dict.fromkeys(folders) if folder not in mount.lend]
        self.mounts = tuple(replace(one, lend=(*mount.lend, *new)) if one is mount else one for one in self.mounts)
        if self._workspace is not None and new:
            self._shown = lend_over(self._shown, mount, new, self.places)
            self._write_facts()

    def show_over(self, folders: Mapping[str, Path]) -> None:
        """Show folders of the host that belong to no mount over places of the workspace, instead of those before.

        The places are relative to the workspace. What a mount has there is not copied, or counts no more where it was.
        """
        self._over = dict(folders)
        if self._workspace is not None:
            self._shown = self._shown.covered(folders, self.places)
            self._write_facts()

    def plan(self) -> Plan:
        """What preparing would copy and leave out, by looking only."""
        with in_words("the mounts cannot be read"), AllowedRoots(self.allowed_host_roots) as roots:
            sources = open_sources(self._copied_mounts, roots)
            try:
                plans = []
                for source in sources:
                    plans.append(plan_source(source, roots, strict=self._strict))
                return Plan(tuple(plans))
            finally:
                close_sources(sources)

    def plan_backend(
        self, plan: Plan, *, no_overlay: str = "", home: str | os.PathLike[str] | None = None
    ) -> tuple[str, str]:
        """How preparing what `plan` is of would fill the workspace, and why so; nothing is made."""
        from toolkit_workspace.pristine import Wish, planned

        wish = Wish(self.backend, no_overlay, None if home is None else Path(home))
        return planned(wish, plan, follows=any(mount.follow_symlinks for mount in self.mounts))

    def plan_shown(self, plan: Plan) -> Shown:
        """What a jail would have to show besides the copy that `plan` is of; what `shown` is once it is prepared."""
        with in_words("the mounts cannot be read"), AllowedRoots(self.allowed_host_roots) as roots:
            sources = open_sources(self._copied_mounts, roots)
            try:
                found = [mount.repositories for mount in plan.mounts]
                return plan_shown(sources, found, roots, self.places).covered(self._over, self.places)
            finally:
                close_sources(sources)

    @property
    def filled_by(self) -> tuple[str, str]:
        """How it was filled, 'copy' or 'overlay', and why so or what it lies over."""
        self._prepared()
        return self._filled_by

    @property
    def layers(self) -> tuple[Path, Path] | None:
        """For an overlay: the kept copy below `temp_dir`, and a folder the kernel needs; None for a plain copy."""
        workspace = self._prepared()
        return None if workspace.below is None else (workspace.below, workspace.work)

    def prepare(
        self,
        *,
        parent: str | os.PathLike[str] | None = None,
        keep: bool | None = None,
        no_overlay: str = "",
        home: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Copy the mounts into a fresh folder; a second call does nothing, or takes back what was released.

        `parent` and `keep` count instead of what the section was made with. `no_overlay` says why an overlay would
        not do for the caller; `home` is the state folder in which copies are kept for one.

        Raises:
            WorkspaceSecurityError: a mount lies in no allowed root, or a link leads out of it.
            WorkspaceBudgetError: a mount is larger than its max_bytes.
            WorkspaceError: a mount or the workspace cannot be opened, read or written.
        """
        self.keep = self.keep if keep is None else flag("keep", keep)
        if self._workspace is not None:
            if not self.is_held:
                with in_words("the workspace cannot be opened", at=self._workspace.folder):
                    self._workspace, self._snapshots = _adopted(self._workspace.folder), None
            return self
        place = path("parent", parent) if parent is not None else self._parent or default_parent()
        with in_words("the mounts cannot be read"), AllowedRoots(self.allowed_host_roots) as roots:
            sources = open_sources(self._copied_mounts, roots)
            try:
                check_budgets(sources, roots, strict=self._strict)
                from toolkit_workspace.pristine import Wish

                wish = Wish(self.backend, no_overlay, None if home is None else Path(home))
                self._workspace = self._filled(place.absolute(), sources, roots, wish)
            finally:
                close_sources(sources)
        if self._keep_bases and self._workspace.below is None:
            self._workspace.start_keeping_bases()
        return self

    def _filled(self, place: Path, sources: Sequence[Source], roots: AllowedRoots, wish: Wish) -> Workspace:
        """A new workspace with everything in it; nothing is left of it if that fails."""
        workspace = Workspace.create(place, [source.record for source in sources])
        try:
            from toolkit_workspace.pristine import filled

            done = filled(workspace, sources, roots, wish, strict=self._strict, progress=self._progress)
            tallies, self._filled_by = done.tallies, (done.used, done.why)
            self._summaries = tuple(map(MountSummary.of, sources, tallies))
            self._secrets = tuple(secrets_of(sources, tallies))
            self._shown = show(workspace, sources, tallies, roots, self.places).covered(self._over, self.places)
            for part in self.places.parts if workspace.below is not None else ():
                workspace.make_folder(part.landing)  # a jail shows it from there
            workspace.write_facts(**self._facts())
        except BaseException as error:
            left = workspace.remove_after(error)
            if not isinstance(error, OSError):
                raise
            needs = self._bytes_needed(sources, roots) if is_full(error) else None
            raise in_words_of(error, "the workspace cannot be filled", at=place, needs=needs, fix=left) from error
        return workspace

    def pack_into(self, sink: Sink) -> Selected:
        """Give everything that preparing would copy to a sink instead, and what a copy needs of git; nothing is made.

        Raises as `prepare`, and what the sink raises.
        """
        from toolkit_workspace.travelling import give_histories, select_into

        with in_words("the mounts cannot be read"), AllowedRoots(self.allowed_host_roots) as roots:
            sources = open_sources(self._copied_mounts, roots)
            try:
                check_budgets(sources, roots, strict=self._strict)
                selected = select_into(sink, sources, roots, strict=self._strict)
                give_histories(sink, sources, selected)
                found = [tally.repositories for tally in selected.tallies]
                told = copy.copy(self)
                told._summaries = tuple(map(MountSummary.of, sources, selected.tallies))
                told._secrets = tuple(secrets_of(sources, selected.tallies))
                shown = plan_shown(sources, found, roots, self.places)
                lent = [os.path.normpath(f"{one.landing}/{name}") for one in self.mounts for name in one.lend]
                told._shown = replace(shown, aside=(*lent, *(one.at for one in shown.git)))
                told._was_inside = True
                facts = told._facts()
                for one, source in zip(facts["mounts"], sources, strict=True):
                    one["name"] = None if source.record.name is None else os.fsdecode(source.record.name)
                left = [(mount.landing, one) for mount in told._summaries for one in mount.left_out]
                secrets = secrets_text(told._secrets) if told._secrets else None
                said = (secrets, left_secrets_text(left), left_unread_text(left))
                return replace(selected, facts=facts, remarks=tuple(one for one in said if one))
            finally:
                close_sources(sources)

    def give_back(self, sink: Sink) -> GivenBack:
        """Give what differs from what was prepared, and its git folders, to a sink; raises as `changes`."""
        from toolkit_workspace.travelling import give_back

        with in_words("the changes cannot be sent back", at=self._prepared().state_dir):
            return give_back(sink, self._with_bases(), [one.at for one in self._shown.git])

    def _bytes_needed(self, sources: Sequence[Source], roots: AllowedRoots) -> int | None:
        """How many bytes the mounts hold, None where that cannot be told."""
        try:
            return sum(plan_source(source, roots, strict=False).needed for source in sources)
        except (OSError, WorkspaceError):
            return None

    def _facts(self) -> dict[str, Any]:
        pairs = zip(self.mounts, self._summaries, strict=True)
        roots = [os.path.abspath(root) for root in self.allowed_host_roots]  # noqa: PTH100 - links must stay
        mounts = [mount.to_json() | {"summary": summary.to_json()} for mount, summary in pairs]
        secrets = [[one.path, one.what, one.pattern] for one in self._secrets]
        shown = self._shown.to_json()
        seen = self.places.to_json() if self._was_inside else None
        facts = {"roots": roots, "mounts": mounts, "at": self.at, "shown": shown, "secrets": secrets, "seen": seen}
        facts["filled_by"] = self._filled_by
        return facts if self._given is None else {**facts, "given": self._given.to_json()}

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Files that came along and usually hold credentials."""
        self._prepared()
        return self._secrets

    @property
    def left_out(self) -> tuple[tuple[str, LeftOut], ...]:
        """What did not come along or deserves a remark: mount_path and entry, the first 200 of each rule."""
        self._prepared()
        return tuple((mount.landing, one) for mount in self._summaries for one in mount.left_out)

    def render(self) -> str:
        """The workspace as a section of a prompt: where things are, how much, and what was left out.

        The same mounts give the same text in every run; names are escaped.
        """
        self._prepared()
        return prompt_text(self._summaries, self._seen() if self._is_inside else None)

    def _seen(self) -> Seen:
        lent = [inside for _, inside in self._shown.lent]
        return Seen(
            [self.places.to_agent(mount.landing) for mount in self.mounts],
            self.places.start,
            lent,
            bool(self._shown.git),
        )

    def make_whole(self) -> bool:
        """Turn an overlay into a plain copy, with all files in its folder; False where it is one.

        Nobody may work in it meanwhile.

        Raises:
            WorkspaceError: it cannot be read or written, and is as it was.
        """
        from toolkit_workspace.pristine import make_whole

        with in_words("the workspace cannot be made a plain copy", at=self._prepared().folder):
            if not make_whole(self._prepared()):
                return False
        self._snapshots, self._filled_by = None, ("copy", "it was an overlay before")
        self._write_facts()
        return True

    def check_branch(self, name: str) -> None:
        """Look whether a branch of that name could be made in each repository that the mounts lie in.

        It can be asked before anything is copied.

        Raises:
            WorkspaceError: there is one already, or no repository, or git takes no such name.
        """
        from toolkit_workspace.delivering import check_branch

        origins = self.shown.origins if self.is_prepared else self.plan_shown(self.plan()).origins
        check_branch([Path(mount.host_path) for mount in self.mounts], origins, name)

    def deliver(self, delivery: Delivery, pack: Packer | None = None, *, as_mailbox: bool = False) -> Delivered:
        """Make the changes a branch of each repository that the mounts lie in, or mails for `git am`.

        `pack` packs what the agent committed; without it everything comes as one commit.

        Raises:
            WorkspaceConflictError: changes do not fit the commit; nothing was written.
            WorkspaceSecurityError: a link leads out, or the agent's commits are not sound.
            WorkspaceError: there is no repository, nothing to deliver, or the branch cannot be made.
        """
        from toolkit_workspace.delivering import deliver_branch, deliver_mailbox

        how = deliver_mailbox if as_mailbox else deliver_branch
        with in_words("the changes cannot be delivered", at=self.state_dir):
            return how(self._with_bases(), self.shown.origins, delivery, pack)

    def cleanup(self) -> None:
        """Remove the workspace, whatever the agent made of it; a second call does nothing.

        Raises:
            WorkspaceError: it cannot be removed, or an apply was interrupted and has to be finished or undone.
        """
        workspace = self._workspace
        if workspace is None:
            return
        if workspace.has_unfinished_apply:
            self.release()
            self._workspace = self._snapshots = None
            raise workspace.unfinished("the workspace is kept: an apply, or taking it back, was interrupted")
        self._workspace = self._snapshots = None
        command = f"toolkit workspace clean --parent {workspace.folder.parent}"
        with in_words("the workspace cannot be removed", at=workspace.folder, fix=f"Remove it later: {command}"):
            workspace.remove()

    def release(self) -> None:
        """Let go of the workspace and leave it, for another process to open; `changes` and `apply` go on working."""
        workspace = self._prepared()
        if not workspace.is_held:
            return
        what = f"what is known of the workspace {workspace.folder} cannot be written"
        fix = "It is still there. If 'toolkit workspace list' calls it left over, 'toolkit workspace clean' removes it."
        try:
            with in_words(what, at=workspace.state_dir, fix=fix):
                workspace.finish_keeping_bases()
                workspace.write_facts(**self._facts(), kept=True, touched=_touched(workspace))
        finally:
            workspace.release()

    def __enter__(self) -> Self:
        return self.prepare()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self.keep and self.is_prepared:
                self.release()
            else:
                self.cleanup()
        except WorkspaceError as second:
            if not isinstance(error, WorkspaceError):
                raise
            error.where = (*error.where, second.what)  # why the block failed comes first


def _mount(name: str, value: Any) -> HostMount:
    if isinstance(value, HostMount):
        return value
    if not isinstance(value, str | os.PathLike):
        raise wrong(name, value, "it is a HostMount, or a path", "Write for example: HostMount('src')")
    return HostMount(path(name, value))


_RULES: dict[str, Rule] = {
    "mounts": several(_mount, "mounts", "[HostMount('src')]", alone=(HostMount, str, os.PathLike)),
    "allowed_host_roots": several(path, "folders", "['.']", alone=(str, os.PathLike)),
    "parent": optional(path),
    "keep": flag,
    "strict": flag,
    "progress": optional(called_with("a Progress", "progress=lambda progress: print(progress.files)")),
    "keep_bases": flag,
    "at": optional(lambda _, value: checked_at(value)),
    "backend": one_of(get_args(Backend), "backend"),
}
"""The rule of every argument. A new argument of `WorkspaceSection` needs its line here."""


def _adopted(folder: Path) -> Workspace:
    workspace = Workspace.adopt(folder)
    try:
        if workspace.bases_below is not None:  # it is, or was, an overlay
            from toolkit_workspace.pristine import finish_whole

            finish_whole(workspace)
    except BaseException:
        workspace.release()
        raise
    return workspace


def _touched(workspace: Workspace) -> list[str] | None:
    """The files that a copy of the workspace could not tell to be touched; None where they cannot be looked at."""
    from toolkit_workspace.travelling import touched_unkept

    try:
        return touched_unkept(workspace)
    except (OSError, WorkspaceError):
        return None
