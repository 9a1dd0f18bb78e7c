"""Take an agent's changes back to the host, as much of them as wanted, all or nothing.

Only the mounts' own places are written, through directory handles; a link that
leads out is refused. What the host changed meanwhile is merged or is a conflict
that stops everything before the first write. An interrupted apply is finished with
`resume` or taken back with `undo`; a finished one can be taken back, too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.applying.choose import choose
from toolkit_workspace.applying.decide import AppliedChange as AppliedChange
from toolkit_workspace.applying.decide import Decider
from toolkit_workspace.applying.host_state import Seen, look
from toolkit_workspace.applying.journal import Journal, PlannedStep
from toolkit_workspace.changes.changes import Change, changes_of
from toolkit_workspace.changes.marks import LEADS_OUT, LinkReader, leads_out, links_below
from toolkit_workspace.moments.snapshot import Snapshots
from toolkit_workspace.record.bases import Bases
from toolkit_workspace.record.content import ContentGone
from toolkit_workspace.record.hosts import Hosts, host_path_of
from toolkit_workspace.record.record import NO_STAMP, Record, Row, Stamp
from toolkit_workspace.workspace import Workspace

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the changes on the host."""

    changes: tuple[AppliedChange, ...]
    left: tuple[tuple[str, str], ...] = ()
    """Paths that were asked for but not applied, with the reason."""
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """The facts as plain values."""
        return {
            "dry_run": self.dry_run,
            "applied": [{"path": one.path, "action": one.action} for one in self.changes],
            "left": [{"path": path, "reason": reason} for path, reason in self.left],
        }


def apply_changes(
    workspace: Workspace,
    *,
    paths: Iterable[str | Path] | None = None,
    mounts: Iterable[str] | None = None,
    dry_run: bool = False,
    conflict_markers: bool = False,
) -> Applied:
    """Apply the changes of a workspace to its mounts: all that are chosen, or none.

    `paths` are files or folders in the workspace, `mounts` the mounts' places in it. What lies in a
    `.git` folder is applied only when a path says so. With `conflict_markers`, texts that do not merge
    are written with both versions in them. `dry_run` decides everything and writes nothing.

    Raises:
        WorkspaceConflictError: the host changed in a way that does not merge; nothing was touched.
        WorkspaceSecurityError: a link leads out, or a mount's folder is no longer the same.
        WorkspaceError: an earlier apply was interrupted, or a path or mount matches nothing.
    """
    with _locked(workspace):
        _refuse_unfinished(workspace)
        changes = changes_of(workspace)
        chosen, left = choose(changes, paths, mounts)
        with Hosts(workspace.record.mounts) as hosts:
            _refuse_links_leading_out(workspace, hosts, chosen)
            decider = Decider(Bases(workspace.record, workspace.store, hosts), conflict_markers)
            decider.decide_all(chosen, {name: number for number, name in enumerate(changes.mounts)})
            if decider.conflicts:
                raise _conflict(decider.conflicts)
            applied = Applied(tuple(sorted(decider.outcomes, key=lambda one: one.path)), tuple(left), dry_run)
            if not dry_run and decider.notes:
                _carry_out(workspace, hosts, decider)
            return applied


def resume(workspace: Workspace) -> bool:
    """Finish an interrupted apply; False when there is none, or none that had begun to write."""
    with _locked(workspace):
        journal = Journal.load(_open_journal(workspace))
        if journal is None:
            shutil.rmtree(_open_journal(workspace), ignore_errors=True)
            return False
        with _readable_errors(), Hosts(workspace.record.mounts) as hosts:
            journal.sweep(hosts)
            journal.forwards(hosts)
            _settle(workspace, hosts, journal)
        return True


def undo(workspace: Workspace) -> bool:
    """Take back an interrupted apply, or else the last finished one; False when there is none.

    Raises:
        WorkspaceConflictError: a file was changed on the host since; the others are taken back up to there.
    """
    with _locked(workspace):
        for folder in (_open_journal(workspace), _done_journal(workspace)):
            journal = Journal.load(folder)
            if journal is not None:
                with _readable_errors(), Hosts(workspace.record.mounts) as hosts:
                    _take_back(workspace, hosts, journal)
                return True
            shutil.rmtree(folder, ignore_errors=True)
        return False


def _carry_out(workspace: Workspace, hosts: Hosts, decider: Decider) -> None:
    folder = _open_journal(workspace)
    known = [workspace.record.get(one.step.path) for one in decider.steps.values()]
    Snapshots(workspace).keep_before_apply([entry for entry in known if entry is not None])
    workspace.save()  # what an undo goes back to
    try:
        journal = Journal.begin(folder, _ordered(decider.steps.values()), {"record": decider.notes}, decider.extra)
    except (ContentGone, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise WorkspaceError(
            "the changes cannot be written down before they are applied; nothing was touched",
            where=[str(error)],
            fix="If a file changed just now, apply again.",
        ) from error
    try:
        journal.forwards(hosts)
    except BaseException as error:
        _take_back_after(error, workspace, hosts, journal)
        raise
    _settle(workspace, hosts, journal)


def _take_back_after(error: BaseException, workspace: Workspace, hosts: Hosts, journal: Journal) -> None:
    """Undo what was written before an apply failed; if that fails too, the journal stays and says what is left."""
    try:
        _take_back(workspace, hosts, journal)
    except Exception as second:
        raise WorkspaceError(
            "applying failed, and so did taking back what was written",
            where=[str(error), str(second)],
            fix=f"Remove the cause, then: toolkit workspace apply {workspace.folder} --undo (or --resume)",
        ) from error
    if isinstance(error, OSError):
        raise WorkspaceError(
            f"the changes cannot be written: {error.strerror}",
            where=[str(error.filename)] if error.filename else [],
            fix="What had been written was taken back: the host is as it was.",
        ) from error


def _settle(workspace: Workspace, hosts: Hosts, journal: Journal) -> None:
    """Bring the record up to date with what was applied, then close the journal."""
    before = journal.folder / "record"
    if not before.exists():  # a resumed apply may have come this far already
        os.link(workspace.record_file, before)
    for note in journal.notes["record"]:
        _rebase(workspace, hosts, journal, note)
    workspace.record.trust_host_stamps()
    workspace.save(durable=True)
    journal.close(_done_journal(workspace))


def _take_back(workspace: Workspace, hosts: Hosts, journal: Journal) -> None:
    journal.sweep(hosts)
    journal.backwards(hosts)
    before = journal.folder / "record"
    if before.exists():
        before.replace(workspace.record_file)
        workspace.record.become(Record.load(workspace.record_file))
    shutil.rmtree(journal.folder)


def _rebase(workspace: Workspace, hosts: Hosts, journal: Journal, note: dict[str, Any]) -> None:
    """Make the workspace's version of a path the one further changes are told from."""
    path, facts = os.fsencode(note["path"]), note["entry"]
    if facts is None:
        workspace.record.discard(path)
        return
    mount, host_path = facts["mount"], os.fsencode(facts["host_path"])
    mode, size, mtime_ns, ctime_ns, inode = facts["numbers"]
    target = None if facts["target"] is None else os.fsencode(facts["target"])
    seen = look(hosts, mount, host_path)
    there = Stamp.of(seen.st) if seen else NO_STAMP
    offset, is_base = -1, True
    if facts["kind"] == "f":
        is_base = seen is not None and _is_base(seen, facts, journal)
        kept = journal.content(facts["bytes"]) if facts["bytes"] else None
        if kept is not None:
            (offset,) = workspace.store.append([kept.read()])
    copy = Stamp(size, mtime_ns, ctime_ns, inode)
    workspace.record.put(Row(path, host_path, target, facts["kind"], mount, mode, copy, there, offset, is_base))


def _is_base(seen: Seen, facts: dict[str, Any], journal: Journal) -> bool:
    """Whether the host file holds the very bytes the workspace has."""
    if facts["is_merged"] or seen.content is None:
        return False
    number = journal.number_of(facts["mount"], os.fsencode(facts["host_path"]))
    if number is None:  # nothing to write: it held them when it was decided
        return bool(facts["on_host"] == [seen.st.st_ino, seen.st.st_ctime_ns])
    written = journal.content(f"new-{number}")
    try:
        return written is not None and seen.content.equals(written)
    except ContentGone:  # somebody was quick to change it again
        return False


def _ordered(steps: Iterable[PlannedStep]) -> list[PlannedStep]:
    """What stands in the way first, then all that comes from the top down, then the rest that goes from below."""
    coming = [one for one in steps if one.step.new is not None]
    going = [one for one in steps if one.step.new is None]
    replaced = {(one.step.mount, one.step.host_path) for one in coming if one.step.new and one.step.new.kind != "d"}

    def is_in_the_way(one: PlannedStep) -> bool:
        parts = one.step.host_path.split(b"/")
        return any((one.step.mount, b"/".join(parts[:depth])) in replaced for depth in range(1, len(parts)))

    def depth(one: PlannedStep) -> int:
        return one.step.host_path.count(b"/")

    going.sort(key=depth, reverse=True)
    return [
        *(one for one in going if is_in_the_way(one)),
        *sorted(coming, key=depth),
        *(one for one in going if not is_in_the_way(one)),
    ]


def _refuse_links_leading_out(workspace: Workspace, hosts: Hosts, chosen: Sequence[Change]) -> None:
    """Follow each new link, in the workspace and on the host as it will be."""
    numbers = {mount.landing: number for number, mount in enumerate(workspace.record.mounts)}
    places: dict[tuple[int, bytes], Change] = {}
    targets: dict[tuple[int, bytes], bytes | None] = {}
    for change in chosen:
        if change.mount is not None and change.after is not None:
            mount = numbers[change.mount]
            place = (mount, host_path_of(workspace.record, mount, os.fsencode(change.path)))
            places[place], targets[place] = change, change.after.target

    def reader(mount: int) -> LinkReader:
        on_host = links_below(hosts.folder(mount))
        return lambda path: targets[mount, path] if (mount, path) in targets else on_host(path)

    out = []
    for (mount, host_path), change in places.items():
        target = targets[mount, host_path]
        if target is not None and (LEADS_OUT in change.suspicious or leads_out(reader(mount), host_path, target)):
            out.append(f"{safe_name(change.path)} → {safe_name(target)}")
    if out:
        raise WorkspaceSecurityError(
            "refusing to apply links that lead out of their mount",
            where=out[:_MOST_SHOWN],
            fix="Nothing was written. Choose the other changes: paths=[…], --path",
        )


def _conflict(conflicts: list[tuple[str, str]]) -> WorkspaceConflictError:
    first = [f"{safe_name(path)}: {reason}" for path, reason in conflicts[:_MOST_SHOWN]]
    more = [f"… and {len(conflicts) - _MOST_SHOWN} more"] if len(conflicts) > _MOST_SHOWN else []
    return WorkspaceConflictError(
        f"the host changed since the workspace was prepared: {len(conflicts)} of the changes cannot be applied",
        conflicts=conflicts,
        where=[*first, *more],
        fix="Nothing was written. Choose the others (paths=[…], --path), or have both versions written"
        " (conflict_markers=True, --conflict-markers).",
    )


def _refuse_unfinished(workspace: Workspace) -> None:
    if workspace.has_unfinished_apply:
        raise WorkspaceError(
            "an earlier apply was interrupted",
            where=[str(_open_journal(workspace))],
            fix=f"Finish it or take it back: toolkit workspace apply {workspace.folder} --resume (or --undo)",
        )


def _open_journal(workspace: Workspace) -> Path:
    return workspace.state_dir / "apply"


def _done_journal(workspace: Workspace) -> Path:
    return workspace.state_dir / "applied"


@contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceError(
            f"the host cannot be written: {error.strerror}",
            where=[str(error.filename)] if error.filename else [],
            fix="Remove the cause and try again: the journal is kept.",
        ) from error


@contextmanager
def _locked(workspace: Workspace) -> Iterator[None]:
    """One apply at a time for a workspace, whoever makes it; the lock goes with its process."""
    fd = os.open(workspace.state_dir / "apply.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkspaceError(
                "another process is applying changes of this workspace",
                where=[str(workspace.folder)],
                fix="Wait for it.",
            ) from None
        yield
    finally:
        with suppress(OSError):
            os.close(fd)
