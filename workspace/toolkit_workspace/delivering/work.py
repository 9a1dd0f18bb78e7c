"""The work of an agent in one repository, from changed files and its own commits to commits on the owner's."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.changes import Change
from toolkit_workspace.changes.patch import TOO_LONG, is_too_long, why_not_in_patch
from toolkit_workspace.delivering.building import Building, State, Wording, Written, marks_lines
from toolkit_workspace.delivering.commits import AgentCommit, Packer, take_commits, tip_of
from toolkit_workspace.delivering.messages import Signature
from toolkit_workspace.delivering.threeway import Ground
from toolkit_workspace.delivering.vetting import SUBMODULE, Vetting
from toolkit_workspace.git import Origin
from toolkit_workspace.quarantine import Entry, Quarantine, Tree
from toolkit_workspace.record.content import Hosts, Node
from toolkit_workspace.workspace import Workspace

if TYPE_CHECKING:
    from toolkit_workspace.delivering.deliver import Delivery

_POINTER = re.compile(rb"version https://git-lfs\S*\noid sha256:([0-9a-f]{64})\nsize (\d+)\n?")
_LARGEST_POINTER = 1024


@dataclass(slots=True)
class RepositoryWork:
    """What an agent did in one repository."""

    workspace: Workspace
    hosts: Hosts
    quarantine: Quarantine
    origins: Sequence[Origin]
    """The parts of the workspace that come from it."""
    delivery: Delivery
    left: dict[str, str] = field(default_factory=dict)
    """Paths of the workspace that do not come along, with the reason."""
    marks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def written(self, changes: Sequence[Change], pack: Packer | None) -> Written | None:
        """The commits; None where there are none to make.

        Raises:
            WorkspaceConflictError: something does not fit the commit.
            WorkspaceError: a commit is not there, or the agent's commits are refused.
        """
        base = self._base()
        onto = base if self.delivery.onto is None else self.quarantine.resolve(self.delivery.onto)
        base_tree = self.quarantine.tree(base)
        onto_tree = base_tree if onto == base else self.quarantine.tree(onto)
        ground = Ground(self.quarantine, base_tree, onto_tree, onto_is_base=onto == base)
        building = Building(self.quarantine, ground, onto, self._wording())
        cases = self._cases(changes, base_tree, onto_tree)
        new, moved = self._versions(cases, building, base, onto)
        commits = self._commits(pack, base_tree)
        self._given_for(building, [path for _, state in commits for path in state], base)
        own: dict[str, Entry | None] = {}
        if self.delivery.with_uncommitted:
            own = building.uncommitted({*new, *moved.values(), *(path for _, state in commits for path in state)})
        final = building.brought(new, moved)
        states = [(commit, building.brought(state, {})) for commit, state in commits]
        building.demand_no_clash()
        return building.write(own, states, final, marks_lines(self.marks))

    def _base(self) -> str | None:
        """The commit that was checked out when the workspace was prepared."""
        recorded = self.origins[0].commit
        if recorded is None:
            return None
        try:
            return self.quarantine.resolve(recorded)
        except WorkspaceError as error:
            raise WorkspaceError(
                f"the commit that the run began with is no longer in the repository: {recorded}",
                where=error.where,
                fix="Fetch it again. The changes can still be taken as files: toolkit runs apply",
            ) from error

    def _wording(self) -> Wording:
        repository, agent = self.quarantine.repository, self.delivery.agent
        name, email = repository.setting("user.name"), repository.setting("user.email")
        owner = Signature(name, email or "") if name else agent
        return Wording(self.delivery.message, self.delivery.trailers, agent, owner)

    def _cases(self, changes: Sequence[Change], base: Tree, onto: Tree) -> list[tuple[str, str | None, Change]]:
        """The changes that git keeps, each with its path in the repository and the one it had before."""
        cases = []
        submodules = tuple(f"{path}/" for path, entry in {**base, **onto}.items() if entry.mode == SUBMODULE)
        for change in changes:
            if change.type == "folder":
                continue
            path, old = self._in_repository(change.path), None
            if change.old_path is not None:
                old = self._in_repository(change.old_path)
            named = change.planted is not None or change.ignored  # `choose` took it, so somebody named it
            if not named and (reason := why_not_in_patch(change)):
                self.left[change.path] = reason
            elif is_too_long(path):
                self.left[change.path] = TOO_LONG
            elif f"{path}/".startswith(submodules):
                self.left[change.path] = "in a submodule that is no part of the workspace"
            else:
                cases.append((path, old, change))
        return self._without_ignored(cases, base, onto)

    def _without_ignored(
        self, cases: list[tuple[str, str | None, Change]], base: Tree, onto: Tree
    ) -> list[tuple[str, str | None, Change]]:
        """Leave out what git neither tracks nor would add, unless it was named."""
        named = set(self.delivery.paths or ())
        unknown = [path for path, _, change in cases if path not in base and path not in onto]
        ignored = self.quarantine.ignored(unknown)
        kept = []
        for path, old, change in cases:
            if path in ignored and change.path not in named and not change.ignored:
                self.left[change.path] = "the project ignores it, or it is a cache"
            else:
                kept.append((path, old, change))
                if change.suspicious:
                    self.marks[change.path] = change.suspicious
        return kept

    def _in_repository(self, path: str) -> str:
        around = [origin for origin in self.origins if origin.in_repository(path) is not None]
        found = max(around, key=lambda one: len(one.at)).in_repository(path)
        assert found is not None
        return found

    def _in_workspace(self, path: str) -> str:
        places = [place for origin in self.origins if (place := origin.in_workspace(path)) is not None]
        return max(places, key=len, default=path)

    def _versions(
        self, cases: Sequence[tuple[str, str | None, Change]], building: Building, base: str | None, onto: str | None
    ) -> tuple[dict[str, Entry | None], dict[str, str]]:
        """What the agent has at each path, and where renamed files were; the ground learns what it was given."""
        ground, before, after = building.ground, dict[str, Node](), dict[str, Node]()
        new: dict[str, Entry | None] = {}
        moved: dict[str, str] = {}
        for path, old, change in cases:
            was = old or path
            ground.given.setdefault(was, None)
            if change.before is not None:
                if change.before.kind == "f" and change.before.content is None:
                    building.clashes[path] = "the host changed and the bytes it was prepared from were not kept"
                    continue
                before[was] = change.before
            if change.after is not None:
                after[path] = change.after
            new.setdefault(path, None)
            if old is not None:
                moved[path] = old
                new.setdefault(old, None)
        ground.given.update(self.quarantine.added(base, before.items()))
        new.update(self.quarantine.added(onto, after.items()))
        self._without_filter(ground, new, moved, before)
        return new, moved

    def _without_filter(
        self, ground: Ground, new: dict[str, Entry | None], moved: Mapping[str, str], before: Mapping[str, Node]
    ) -> None:
        """Files that a filter program belongs to: the commit has what that makes of them, and it is not run here."""
        commit = self.delivery.onto or self.origins[0].commit
        filtered = self.quarantine.filtered(commit, new)
        own = {path: entry for path, entry in new.items() if entry is not None and _has_attributes(path)}
        for path, name in self.quarantine.filtered(commit, new, attributes=own).items() if own else ():
            if path not in filtered and new[path] is not None:  # by attributes that the agent wrote
                self._mark_unfiltered(path, name)
        for path, name in filtered.items():
            was = moved.get(path, path)
            raw, kept, entry = ground.given.get(was), ground.base.get(was), new[path]
            if entry is None:
                ground.given[was] = kept if raw is not None and self._is_of(kept, before.get(was)) else raw
                continue
            if raw is not None and kept is not None and self._is_of(kept, before.get(was)):
                ground.given[was] = kept
                if raw.oid == entry.oid:  # only renamed, or made executable
                    new[path] = Entry(entry.mode, kept.oid)
                    continue
            self._mark_unfiltered(path, name)

    def _mark_unfiltered(self, path: str, name: str) -> None:
        place = self._in_workspace(path)
        reason = f"stored as it is, without its filter '{name}': run git add --renormalize on the branch"
        self.marks[place] = (*self.marks.get(place, ()), reason)

    def _is_of(self, kept: Entry | None, node: Node | None) -> bool:
        """Whether the commit's blob can be what a filter made of a file: told for Git LFS, believed of others."""
        if kept is None or node is None or node.content is None:
            return False
        if int(self.quarantine.git.line("cat-file", "-s", kept.oid)) > _LARGEST_POINTER:
            return True
        found = _POINTER.match(self.quarantine.read(kept.oid))
        if found is None:
            return True
        digest = hashlib.sha256()
        for piece in node.content.chunks():
            digest.update(piece)
        return found[1].decode() == digest.hexdigest()

    def _commits(self, pack: Packer | None, base: Tree) -> list[tuple[AgentCommit, State]]:
        """The agent's own commits, with what of each comes along."""
        delivery, found = self.delivery, list[tuple[AgentCommit, State]]()
        was_applied = (self.workspace.state_dir / "applied").exists()
        if pack is None or delivery.squash or delivery.paths is not None or was_applied:
            return found
        for origin in self.origins:
            tip = tip_of(self.workspace, origin) if origin.git is not None else None
            if tip is None or tip == origin.commit:
                continue
            aside = map(os.fsdecode, self.workspace.aside)
            vetting = Vetting(self.quarantine, origin, base, aside, self.delivery.protected)
            for commit in take_commits(self.quarantine, origin, tip, pack):
                found.append((commit, vetting.wanted(commit)))
            for path, reason in vetting.left.items():
                self.left.setdefault(self._in_workspace(path), reason)
            for path, marks in vetting.marks.items():
                if marks:
                    self.marks.setdefault(self._in_workspace(path), marks)
        return found

    def _given_for(self, building: Building, paths: Iterable[str], base: str | None) -> None:
        """Learn what the agent was given at paths that only its commits changed."""
        ground, nodes = building.ground, dict[str, Node]()
        for path in dict.fromkeys(paths):
            row = None if path in ground.given else self.hosts.record.get(os.fsencode(self._in_workspace(path)))
            if row is None or row.kind == "d":
                continue
            node = self.hosts.recorded(row)
            if node.kind == "f" and node.content is None:
                building.clashes[path] = "the host changed and the bytes it was prepared from were not kept"
            else:
                nodes[path] = node
        added = self.quarantine.added(base, nodes.items())
        filtered = self.quarantine.filtered(base, added)
        ground.given |= {path: entry for path, entry in added.items() if path not in filtered}


def _has_attributes(path: str) -> bool:
    """Whether git reads attributes of files there."""
    return path.rpartition("/")[2] == ".gitattributes"
