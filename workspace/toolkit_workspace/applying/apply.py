"""Take an agent's changes back to the host, as much of them as wanted, all or nothing.

Only the mounts' own places are written, through directory handles; a link that
leads out is refused. What the host changed meanwhile is merged or is a conflict
that stops everything before the first write. A finished apply can be taken back
with `undo`. An apply or undo that was interrupted is unfinished until `resume` has
applied everything or `undo` has taken everything back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.files import is_there
from toolkit._base.locks import take_lock
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.applying.choose import choose
from toolkit_workspace.applying.decide import AppliedChange, Case, Decider
from toolkit_workspace.applying.journal import Journal, discard
from toolkit_workspace.applying.steps import Step, Update
from toolkit_workspace.changes.changes import changes_of
from toolkit_workspace.changes.marks import LEADS_OUT, ONLY_INSIDE, LinkReader, leads_out, links_below
from toolkit_workspace.moments.snapshot import Snapshots
from toolkit_workspace.places import Places
from toolkit_workspace.record.content import Content, ContentGone, Hosts, Node
from toolkit_workspace.record.record import NO_STAMP, Record, Row, Stamp
from toolkit_workspace.record.trouble import in_words, in_words_of, told
from toolkit_workspace.workspace import Workspace

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the changes on the host."""

    changes: tuple[AppliedChange, ...]
    left: tuple[tuple[str, str], ...] = ()
    """Paths that were asked for but not applied, with the reason."""
    dry_run: bool = False
    seen: Places | None = None
    """How an agent in a jail knew the workspace; None where none has seen it."""

    def name_of(self, path: str) -> str:
        """What to call a path of the workspace before people: as its agent did, and as the changes are listed."""
        return path if self.seen is None else self.seen.to_agent(path)

    def to_json(self) -> dict[str, Any]:
        """The facts as plain values."""
        return {
            "dry_run": self.dry_run,
            "applied": [{**self._paths(one.path), "action": one.action} for one in self.changes],
            "left": [{**self._paths(path), "reason": reason} for path, reason in self.left],
        }

    def _paths(self, path: str) -> dict[str, str]:
        return {"path": path} | ({} if self.seen is None else {"agent_path": self.seen.to_agent(path)})


def apply_changes(
    workspace: Workspace,
    *,
    paths: Iterable[str | Path] | None = None,
    mounts: Iterable[str] | None = None,
    dry_run: bool = False,
    conflict_markers: bool = False,
) -> Applied:
    """Apply the changes of a workspace to its mounts: all that are chosen, or none.

    `paths` are files or folders in the workspace, or the same on the host; `mounts` are the mounts' places
    in it. What lies in a `.git` folder is applied only when a path says so. With `conflict_markers`, texts
    that do not merge are written with both versions in them. `dry_run` decides everything, writes nothing.

    Raises:
        WorkspaceConflictError: the host changed in a way that does not merge; nothing was touched.
        WorkspaceSecurityError: a link leads out, or a mount's folder is no longer the same.
        WorkspaceError: an earlier apply was interrupted, or a path or mount matches nothing.
    """
    with _locked(workspace):
        _refuse_unfinished(workspace)
        changes = changes_of(workspace)
        chosen, left = choose(workspace, changes, paths, mounts)
        with Hosts(workspace.record, workspace.store) as hosts:
            cases = [Case.of(one, changes.mounts.index(one.mount), hosts.record) for one in chosen if one.mount]
            _refuse_links_leading_out(cases, hosts)
            decider = Decider(hosts, conflict_markers)
            decider.decide_all(cases)
            if decider.conflicts:
                raise _conflict(decider.conflicts, workspace.seen)
            if not dry_run and decider.updates:
                _carry_out(workspace, hosts, decider)
        outcomes = tuple(sorted(decider.outcomes, key=lambda one: one.path))
        return Applied(outcomes, tuple(left), dry_run, workspace.seen)


def resume(workspace: Workspace) -> bool:
    """Apply the rest of an interrupted apply, or all of it after an interrupted undo; False when there is none."""
    with _locked(workspace):
        journal = Journal.load(_open_journal(workspace))
        if journal is None:
            discard(_open_journal(workspace))
            return False
        with _in_words_of(workspace), Hosts(workspace.record, workspace.store) as hosts:
            journal.sweep(hosts)
            journal.forwards(hosts)
            _finish(workspace, hosts, journal)
        return True


def undo(workspace: Workspace) -> bool:
    """Take back an interrupted apply, or else the last finished one; False when there is none.

    Raises:
        WorkspaceConflictError: a file was changed on the host since; nothing was taken back.
    """
    with _locked(workspace):
        journal = Journal.load(_open_journal(workspace)) or Journal.load(_done_journal(workspace))
        if journal is None:
            discard(_open_journal(workspace))
            discard(_done_journal(workspace))
            return False
        with Hosts(workspace.record, workspace.store) as hosts:
            journal.check_backwards(hosts)
            with _in_words_of(workspace):
                # From its first write on it is unfinished business, like an apply.
                _take_back(workspace, hosts, journal.reopen(_open_journal(workspace)))
        return True


def _carry_out(workspace: Workspace, hosts: Hosts, decider: Decider) -> None:
    """Make the steps. Every write has its place in this order, so that a kill between any two can be made good.

    What a snapshot still needs and the record to go back to; the journal, with all bytes; the steps on the
    host; the record as it is now; and only then the journal is put aside.
    """
    journal = _written_down(workspace, hosts, decider)
    try:
        journal.forwards(hosts)
    except BaseException as error:
        _take_back_after(error, workspace, hosts, journal)
        raise
    with in_words(
        "all changes are on the host, but that cannot be written down",
        at=workspace.state_dir,
        fix=f"Remove the cause, then {workspace.ways_to_settle}",
    ):
        _finish(workspace, hosts, journal)


def _written_down(workspace: Workspace, hosts: Hosts, decider: Decider) -> Journal:
    """The journal of what is about to be done, and what a snapshot still needs kept; the host is not touched."""
    try:
        if is_there(workspace.state_dir / "snapshots"):
            rows = [hosts.record.get(step.path) for step in decider.steps.values()]
            Snapshots(workspace).keep_before_apply([row for row in rows if row is not None])
        workspace.save()
        return Journal.begin(_open_journal(workspace), _ordered(decider.steps.values()), decider.updates)
    except (ContentGone, OSError) as error:
        what = "the changes cannot be written down before they are applied"
        with suppress(OSError):
            discard(_open_journal(workspace))
        if isinstance(error, OSError):
            needs = _bytes_needed(decider.steps.values())
            raise in_words_of(
                error, what, at=workspace.state_dir, needs=needs, fix="Nothing was touched: try again."
            ) from error
        raise WorkspaceError(
            f"{what}; nothing was touched", where=[str(error)], fix="If a file changed just now, apply again."
        ) from error


def _bytes_needed(steps: Iterable[Step]) -> int:
    """How many bytes the journal of these steps holds, about."""
    versions = [version for step in steps for version in (step.old, step.new) if version is not None]
    sizes = [one.content.size if isinstance(one.content, Content) else len(one.content or b"") for one in versions]
    return sum(sizes)


def _take_back_after(error: BaseException, workspace: Workspace, hosts: Hosts, journal: Journal) -> None:
    """Undo what was written before an apply failed; if that fails too, the journal stays and says what is left."""
    try:
        _take_back(workspace, hosts, journal)
    except Exception as second:
        raise WorkspaceError(
            "applying failed, and so did taking back what was written",
            where=[told(error), told(second)],
            fix=f"Remove the cause, then {workspace.ways_to_settle}",
        ) from error
    if isinstance(error, OSError):
        what, fix = "the changes cannot be written", "What had been written was taken back: the host is as it was."
        raise in_words_of(
            error, what, at=_place_of(error, hosts, journal), fix=fix, needs=_bytes_needed(journal.steps)
        ) from error


def _place_of(error: OSError, hosts: Hosts, journal: Journal) -> Path | None:
    """The host folder that was written to, which may be another disk than the mount's; else the first mount."""
    if isinstance(error.filename, str):
        return Path(error.filename).parent
    return next((Path(os.fsdecode(hosts.mounts[step.mount].host)) for step in journal.steps), None)


def _finish(workspace: Workspace, hosts: Hosts, journal: Journal) -> None:
    """Bring the record up to date with what was applied, then close the journal."""
    before = journal.folder / "record"
    if not is_there(before):  # a resumed apply may have come this far already
        os.link(workspace.record_file, before)
    for update in journal.updates:
        _rebase(hosts, update, journal.by_place)
    hosts.record.trust_host_stamps()
    workspace.save(durable=True)
    journal.close(_done_journal(workspace))


def _take_back(workspace: Workspace, hosts: Hosts, journal: Journal) -> None:
    journal.sweep(hosts)
    journal.backwards(hosts)
    before = journal.folder / "record"
    if is_there(before):
        before.replace(workspace.record_file)
        workspace.record.become(Record.load(workspace.record_file))
    if _trust_restored(hosts, journal):
        workspace.save(durable=True)
    discard(journal.folder)


def _trust_restored(hosts: Hosts, journal: Journal) -> bool:
    """Record the stamps of what was put back: by the ones it had before, it would look changed."""
    restored = []
    for step in journal.steps:
        row, old = hosts.record.get(step.path), step.old
        if old is None or row is None or (row.mount, row.host_path) != (step.mount, step.host_path):
            continue
        if row.kind != "d" and row.host == old.stamp:
            seen = hosts.look(row.mount, row.host_path)
            if seen is not None and seen.st is not None and old.is_made_in(seen):
                restored.append(row._replace(host=Stamp.of(seen.st)))
    for row in restored:
        hosts.record.put(row)
    if restored:
        hosts.record.trust_host_stamps()
    return bool(restored)


def _rebase(hosts: Hosts, update: Update, steps: Mapping[tuple[int, bytes], Step]) -> None:
    """Make the workspace's version of a path the one further changes are told from."""
    row = update.row
    if row is None:
        hosts.record.discard(update.path)
        return
    seen = hosts.look(row.mount, row.host_path)
    base = hosts.store.append(update.content.chunks()) if update.content is not None else -1
    is_base = row.kind != "f" or _is_base(row, seen, steps.get((row.mount, row.host_path)))
    host = Stamp.of(seen.st) if seen and seen.st else NO_STAMP
    hosts.record.put(row._replace(host=host, base=base, host_is_base=is_base))


def _is_base(row: Row, seen: Node | None, step: Step | None) -> bool:
    """Whether the host file holds the very bytes the workspace has."""
    if not row.host_is_base or seen is None or seen.content is None or seen.st is None:
        return False
    if step is None:  # nothing to write: it held them when it was decided
        return row.host == Stamp.of(seen.st)
    return step.new is not None and step.new.is_made_in(seen)


def _ordered(steps: Iterable[Step]) -> list[Step]:
    """What stands in the way first, then all that comes from the top down, then the rest that goes from below."""
    coming = [step for step in steps if step.new is not None]
    going = [step for step in steps if step.new is None]
    replaced = {(step.mount, step.host_path) for step in coming if step.new and step.new.kind != "d"}

    def is_in_the_way(step: Step) -> bool:
        parts = step.host_path.split(b"/")
        return any((step.mount, b"/".join(parts[:depth])) in replaced for depth in range(1, len(parts)))

    def depth(step: Step) -> int:
        return step.host_path.count(b"/")

    going.sort(key=depth, reverse=True)
    return [
        *(step for step in going if is_in_the_way(step)),
        *sorted(coming, key=depth),
        *(step for step in going if not is_in_the_way(step)),
    ]


def _refuse_links_leading_out(cases: Sequence[Case], hosts: Hosts) -> None:
    """Follow each new link, in the workspace and on the host as it will be."""
    targets = {(case.mount, case.host_path): case.change.after.target for case in cases if case.change.after}

    def reader(mount: int) -> LinkReader:
        on_host = links_below(hosts.folder(mount))
        return lambda path: targets[mount, path] if (mount, path) in targets else on_host(path)

    out = []
    for case in cases:
        target = case.change.after.target if case.change.after else None
        if target is None:
            continue
        mount = hosts.mounts[case.mount]
        top = mount.host if mount.name is None else None
        if LEADS_OUT in case.change.suspicious or leads_out(reader(case.mount), case.host_path, target, top):
            why = f" ({ONLY_INSIDE})" if ONLY_INSIDE in case.change.suspicious else ""
            out.append(f"{safe_name(case.path)} → {safe_name(target)}{why}")
    if out:
        raise WorkspaceSecurityError(
            "refusing to apply links that lead out of their mount",
            where=out[:_MOST_SHOWN],
            fix="Nothing was written. Choose the other changes by their paths",
        )


def _conflict(conflicts: list[tuple[str, str]], seen: Places | None) -> WorkspaceConflictError:
    named = [(path if seen is None else seen.to_agent(path), reason) for path, reason in conflicts[:_MOST_SHOWN]]
    first = [f"{safe_name(path)}: {reason}" for path, reason in named]
    more = [f"… and {len(conflicts) - _MOST_SHOWN} more"] if len(conflicts) > _MOST_SHOWN else []
    return WorkspaceConflictError(
        f"the host changed since the workspace was prepared: {len(conflicts)} of the changes cannot be applied",
        conflicts=conflicts,
        where=[*first, *more],
        fix="Nothing was written. Choose the others by their paths, or have both versions written"
        " (conflict_markers=True, --conflict-markers).",
    )


def _refuse_unfinished(workspace: Workspace) -> None:
    if workspace.has_unfinished_apply:
        raise workspace.unfinished()


def _open_journal(workspace: Workspace) -> Path:
    return workspace.state_dir / "apply"


def _done_journal(workspace: Workspace) -> Path:
    return workspace.state_dir / "applied"


def _in_words_of(workspace: Workspace) -> AbstractContextManager[None]:
    return in_words("the host cannot be written", fix=f"Remove the cause, then {workspace.ways_to_settle}")


@contextmanager
def _locked(workspace: Workspace) -> Iterator[None]:
    """One apply at a time for a workspace, whoever makes it; the lock goes with its process."""
    lock = take_lock(workspace.state_dir / "apply.lock")
    if lock is None:
        raise WorkspaceError(
            "another process is applying changes of this workspace", where=[str(workspace.folder)], fix="Wait for it."
        )
    with lock:
        yield
