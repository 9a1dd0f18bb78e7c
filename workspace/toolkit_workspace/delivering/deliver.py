"""Deliver what an agent did as a branch of the host's repository, or as mails that `git am` takes.

For each repository that the workspace has parts of: the chosen changes are read as
`apply` reads them, the commits that the agent made are taken in, all is built in
quarantine, and only then the branch is made. Nothing of the workspace is run, and
neither work tree nor index of the host is touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit._base.words import count_text, safe_name
from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.applying.choose import choose
from toolkit_workspace.changes.changes import Change, changes_of
from toolkit_workspace.changes.marks import LEADS_OUT
from toolkit_workspace.delivering.building import Written
from toolkit_workspace.delivering.commits import Packer
from toolkit_workspace.delivering.mailbox import mailbox_of
from toolkit_workspace.delivering.messages import Signature
from toolkit_workspace.delivering.work import RepositoryWork
from toolkit_workspace.git import Origin, find_repository
from toolkit_workspace.quarantine import Quarantine, checked_name, free_place, land, quarantined, refs_of, sweep
from toolkit_workspace.record.content import Hosts
from toolkit_workspace.workspace import Workspace

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What is asked for."""

    name: str
    """Of the branch."""
    message: str
    """For what the agent did not commit itself."""
    agent: Signature
    """Whom the commits name as their author."""
    trailers: Sequence[tuple[str, str]] = ()
    onto: str | None = None
    """The commit to begin at; the one that was checked out when the workspace was prepared if not given."""
    force: bool = False
    """Replace a branch of that name."""
    paths: Sequence[str] | None = None
    """Only these, as for `apply`."""
    mounts: Sequence[str] | None = None
    with_uncommitted: bool = False
    """Put the owner's uncommitted versions of files that the agent changed into a commit of their own, first."""
    squash: bool = False
    """One commit for everything, instead of the agent's own."""
    protected: Sequence[str] = ()
    """Paths that no commit of the agent's may change, relative to the repository or the workspace, or whole."""
    why: str = ""
    """For the log of the branch."""


@dataclass(frozen=True, slots=True)
class DeliveredBranch:
    """A branch that was made."""

    repository: str
    name: str
    commit: str
    onto: str | None
    """The commit it begins at; None in a repository that had none."""
    commits: int
    replaced: str | None = None
    """What the branch had before."""

    def to_json(self) -> dict[str, Any]:
        names = ("repository", "name", "commit", "onto", "commits", "replaced")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of the changes as git."""

    branches: tuple[DeliveredBranch, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    """Paths that are on no branch, with the reason."""
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons to look twice, by path."""
    mailbox: bytes = b""
    """The same as mails, where those were asked for."""

    def __str__(self) -> str:
        lines = [f"{one.name}  {count_text(one.commits, 'commit')}  in {one.repository}" for one in self.branches]
        lines += [f"left out: {safe_name(path)} ({reason})" for path, reason in self.left]
        return "\n".join([*lines, *(f"look twice: {safe_name(path)}" for path in self.marks)])

    def to_json(self) -> dict[str, Any]:
        """The facts as plain values."""
        return {
            "branches": [branch.to_json() for branch in self.branches],
            "left": [{"path": path, "reason": reason} for path, reason in self.left],
            "marks": {path: list(reasons) for path, reasons in self.marks.items()},
        }


def deliver_branch(
    workspace: Workspace, origins: Sequence[Origin], delivery: Delivery, pack: Packer | None
) -> Delivered:
    """Make a branch in each repository that has changes.

    `pack` packs the agent's commits; without it they come as one.

    Raises:
        WorkspaceConflictError: changes do not fit the commit; nothing was written.
        WorkspaceSecurityError: a link leads out, or the agent's commits are not sound.
        WorkspaceError: there is no repository, nothing to deliver, or the branch cannot be made.
    """
    checked_name(delivery.name)
    made: list[DeliveredBranch] = []
    with ExitStack() as stack:
        built, told = _built(workspace, origins, delivery, pack, stack)
        # Every name is looked at before the first branch is made.
        old = [_free(quarantine, delivery) for quarantine, _ in built]
        for (quarantine, written), replaced in zip(built, old, strict=True):
            why = delivery.why or "toolkit: branch"
            land(quarantine, delivery.name, written.tip, replaced, known=written.known, why=why)
            top = str(quarantine.repository.top)
            made.append(DeliveredBranch(top, delivery.name, written.tip, written.onto, written.commits, replaced))
    return Delivered(tuple(made), *told)


def check_branch(hosts: Sequence[Path], origins: Sequence[Origin], name: str) -> None:
    """Look whether a branch could be made of these mounts, before anybody works for it.

    Raises:
        WorkspaceError: as `deliver_branch`.
    """
    checked_name(name)
    try:
        _refuse_no_repository(hosts, origins)
        for top in dict.fromkeys(origin.top for origin in origins):
            repository = find_repository(Path(top))
            if repository is not None:
                free_place(repository, *refs_of(repository), name, force=False)
    except WorkspaceError as error:
        error.as_mistyped()  # nothing has been worked for it yet: it is a matter of what was asked for
        raise


def deliver_mailbox(
    workspace: Workspace, origins: Sequence[Origin], delivery: Delivery, pack: Packer | None
) -> Delivered:
    """Write the same commits as mails that `git am` takes. Nothing is written to the host.

    Raises:
        WorkspaceError: as `deliver_branch`, and where there are several repositories.
    """
    with ExitStack() as stack:
        built, told = _built(workspace, origins, delivery, pack, stack)
        if len(built) > 1:
            raise WorkspaceError(
                "the changes are in several repositories, and a patch is for one",
                where=[str(quarantine.repository.top) for quarantine, _ in built],
                fix="Choose one by its mount: --mount",
            )
        quarantine, written = built[0]
        if written.is_linear:
            return Delivered((), *told, mailbox=mailbox_of(quarantine, written))
    # Mails have no merges: what the agent merged comes as one.
    from dataclasses import replace

    return deliver_mailbox(workspace, origins, replace(delivery, squash=True), None)


def _free(quarantine: Quarantine, delivery: Delivery) -> str | None:
    place = (quarantine.repository, quarantine.named, quarantine.symbolic)
    return free_place(*place, delivery.name, force=delivery.force)


_Told = tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, ...]]]


def _built(
    workspace: Workspace,
    origins: Sequence[Origin],
    delivery: Delivery,
    pack: Packer | None,
    stack: ExitStack,
) -> tuple[list[tuple[Quarantine, Written]], _Told]:
    """The commits for every repository, in quarantine, with what is left out and what is marked."""
    if workspace.has_unfinished_apply:
        raise workspace.unfinished()
    sweep(workspace.state_dir)
    changes = changes_of(workspace)
    chosen, left = choose(workspace, changes, delivery.paths, delivery.mounts)
    _refuse_links_out(chosen)
    _refuse_no_repository([Path(os.fsdecode(mount.host)) for mount in workspace.record.mounts], origins)
    hosts = stack.enter_context(Hosts(workspace.record, workspace.store))
    told, marks = dict(left), dict[str, tuple[str, ...]]()
    built = []
    for top, (parts, inside) in _by_repository(origins, chosen, told).items():
        repository = find_repository(Path(top))
        if repository is None:
            raise WorkspaceError("the repository is gone", where=[safe_name(top)])
        quarantine = stack.enter_context(quarantined(repository, workspace.state_dir))
        work = RepositoryWork(workspace, hosts, quarantine, parts, delivery)
        written = work.written(inside, pack)
        told |= work.left
        marks |= work.marks
        if written is not None:
            built.append((quarantine, written))
    if not built:
        raise _nothing(workspace, told)
    return built, (tuple(told.items()), marks)


def _by_repository(
    origins: Sequence[Origin], chosen: Sequence[Change], left: dict[str, str]
) -> dict[str, tuple[list[Origin], list[Change]]]:
    """The chosen changes by the work tree they belong to, innermost first; those in none are told as left."""
    found: dict[str, tuple[list[Origin], list[Change]]] = {}
    for origin in origins:
        found.setdefault(origin.top, ([], []))[0].append(origin)
    for change in chosen:
        around = [one for one in origins if one.in_repository(change.path) is not None]
        if not around:
            left[change.path] = "its mount lies in no git repository"
            continue
        origin = max(around, key=lambda one: len(one.at))
        if change.old_path is not None and _around(origins, change.old_path) != origin:
            left[change.path] = "it was moved from one repository to another: name both paths to apply it"
            continue
        found[origin.top][1].append(change)
    return found


def _around(origins: Sequence[Origin], path: str) -> Origin | None:
    around = [one for one in origins if one.in_repository(path) is not None]
    return max(around, key=lambda one: len(one.at), default=None)


def _refuse_links_out(chosen: Sequence[Change]) -> None:
    out = [f"{safe_name(one.path)} → {safe_name(one.target or '')}" for one in chosen if LEADS_OUT in one.suspicious]
    if out:
        raise WorkspaceSecurityError(
            "refusing to deliver links that lead out of their mount",
            where=out[:_MOST_SHOWN],
            fix="Nothing was written. Choose the other changes by their paths: --only",
        )


def _refuse_no_repository(hosts: Sequence[Path], origins: Sequence[Origin]) -> None:
    if origins:
        return
    bare = [host for host in hosts if (host / "HEAD").is_file() and (host / "objects").is_dir()]
    what = "a bare repository has no files to make a branch of" if bare else "no mount lies in a git repository"
    raise WorkspaceError(
        what,
        where=[safe_name(str(host)) for host in bare or hosts],
        fix="Mount a work tree of it." if bare else "Take the changes as files: toolkit runs apply",
    )


def _nothing(workspace: Workspace, left: Mapping[str, str]) -> WorkspaceError:
    shown = [f"{safe_name(path)}: {why}" for path, why in list(left.items())[:_MOST_SHOWN]]
    was_applied = (workspace.state_dir / "applied").exists()
    return WorkspaceError(
        "there is nothing to deliver",
        where=shown or (["the changes were applied to the files already"] if was_applied else []),
        fix="To take an apply back first: toolkit workspace apply DIR --undo" if was_applied else "",
    )
