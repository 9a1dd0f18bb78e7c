"""Make the commits of a branch in quarantine: the owner's uncommitted files if asked for, the agent's own, the rest.

Each commit is a state, not a step: what the agent had then, brought onto the commit that
the branch begins at. So an owner's uncommitted change that the agent committed along with
its own is left out of every one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit._base.words import safe_name, show_hidden
from toolkit.errors import WorkspaceConflictError
from toolkit_workspace.delivering.commits import AgentCommit
from toolkit_workspace.delivering.messages import Signature, message_of
from toolkit_workspace.delivering.threeway import Clash, Ground, overlaid
from toolkit_workspace.quarantine import Entry, Git, GitFailed, Quarantine, Tree

State = Mapping[str, Entry | None]
"""What is different from the commit that the branch begins at."""
_MOST_SHOWN = 10
_MOST_MARKS = 50


@dataclass(frozen=True, slots=True)
class Wording:
    """What stands in the commits."""

    message: str
    """For what the agent did not commit itself."""
    trailers: Sequence[tuple[str, str]]
    agent: Signature
    owner: Signature


@dataclass(frozen=True, slots=True)
class Written:
    """The commits that were made."""

    tip: str
    onto: str | None
    commits: int
    known: tuple[str, ...]
    """Commits of the repository that they stand on."""
    is_linear: bool


@dataclass(frozen=True, slots=True)
class _Made:
    """A commit and its tree; there is none before the first of a repository."""

    commit: str | None
    tree: str


@dataclass(slots=True)
class _Chain:
    """The agent's commits as they were written anew, by the names they had."""

    start: _Made
    made: dict[str, _Made] = field(default_factory=dict)
    merged: list[str] = field(default_factory=list)
    """Commits of the repository that it merged."""
    count: int = 0
    is_linear: bool = True
    tip: _Made = field(init=False)

    def __post_init__(self) -> None:
        self.tip = self.start


@dataclass(slots=True)
class Building:
    """Makes the commits on one ground."""

    quarantine: Quarantine
    ground: Ground
    onto: str | None
    wording: Wording
    clashes: dict[str, str] = field(default_factory=dict)
    _index: Git | None = None
    _start: Tree = field(default_factory=dict)
    _shown: dict[str, Entry | None] = field(default_factory=dict)

    def brought(self, new: Mapping[str, Entry | None], moved: Mapping[str, str]) -> dict[str, Entry | None]:
        """The agent's versions brought onto the ground; `moved` says where renamed files were. Clashes are noted."""
        state: dict[str, Entry | None] = {}
        for path, entry in new.items():
            if entry is None and path in moved.values():  # it went along with its new name
                state[path] = None
                continue
            try:
                state[path] = self.ground.bring(path, entry, from_path=moved.get(path))
            except Clash as clash:
                self.clashes.setdefault(path, str(clash))
        return {path: entry for path, entry in state.items() if entry != self.ground.onto.get(path)}

    def uncommitted(self, paths: Iterable[str]) -> dict[str, Entry | None]:
        """The owner's uncommitted versions of these paths, which the ground has from now on."""
        ground = self.ground
        wanted = [path for path in paths if ground.is_uncommitted(path)]
        earlier = Ground(self.quarantine, ground.base, ground.onto, {}, ground.onto_is_base)
        state: dict[str, Entry | None] = {}
        for path in wanted:
            try:
                state[path] = earlier.bring(path, ground.given[path])
            except Clash as clash:
                self.clashes.setdefault(path, str(clash))
        ground.onto = overlaid(ground.onto, state)
        return state

    def demand_no_clash(self) -> None:
        """
        Raises:
            WorkspaceConflictError: something cannot be brought onto the commit.
        """
        if not self.clashes:
            return
        shown = [f"{safe_name(path)}: {why}" for path, why in list(self.clashes.items())[:_MOST_SHOWN]]
        raise WorkspaceConflictError(
            f"{len(self.clashes)} of the changes cannot be put on the commit as the agent's alone",
            conflicts=list(self.clashes.items()),
            where=shown,
            fix="Nothing was written. To have your uncommitted versions of these files as a commit before the agent's:"
            " --with-uncommitted. To leave them out: --only with the other paths. Or name another commit: --onto",
        )

    def write(
        self, own: State, commits: Sequence[tuple[AgentCommit, State]], final: State, marks: Sequence[str]
    ) -> Written | None:
        """Write the commits; None where there is nothing to say."""
        start = _Made(self.onto, self._tree({}))
        if own:
            start = self._own(own, start)
        trees = [self._tree({**own, **state}) for _, state in commits]
        last = self._tree({**own, **final})
        is_rest = last != (trees[-1] if trees else start.tree)
        chain = _Chain(start)
        for place, (commit, _) in enumerate(commits):
            is_tip = place == len(commits) - 1 and not is_rest
            self._add(chain, commit, trees[place], marks if is_tip else ())
        tip = chain.tip
        if is_rest:
            message = message_of(self.wording.message, body=marks, trailers=self.wording.trailers)
            tip = _Made(self._commit(last, [tip.commit], self.wording.agent, None, message), last)
        count = chain.count + bool(own) + is_rest
        if tip.commit is None or not chain.count + is_rest:
            return None
        known = tuple(one for one in (self.onto, *chain.merged) if one is not None)
        return Written(tip.commit, self.onto, count, known, chain.is_linear)

    def _own(self, own: State, start: _Made) -> _Made:
        """The commit with what the owner had not committed."""
        tree = self._tree(own)
        what = "Uncommitted changes of the owner\n\nThey were there when the agent began, in files that it changed."
        owner = self.wording.owner
        return _Made(self._commit(tree, [start.commit], owner, None, message_of(what)), tree)

    def _add(self, chain: _Chain, commit: AgentCommit, tree: str, marks: Sequence[str]) -> None:
        """Write one of the agent's commits anew; one of which nothing comes along is left out."""
        above = [chain.made[one] for one in commit.parents if one in chain.made] or [chain.start]
        others = self._others(commit, chain.made)
        if tree == above[0].tree and len(above) == 1 and not others:
            chain.tip = chain.made[commit.oid] = above[0]
            return
        message = message_of(commit.message, body=marks, trailers=self.wording.trailers)
        parents = list(dict.fromkeys([*(one.commit for one in above), *others]))
        oid = self._commit(tree, parents, self.wording.agent, commit.when, message)
        chain.tip = chain.made[commit.oid] = _Made(oid, tree)
        chain.count += 1
        chain.merged += others
        chain.is_linear = chain.is_linear and len(parents) == 1

    def _others(self, commit: AgentCommit, made: Mapping[str, object]) -> list[str]:
        """Commits of the repository that the agent merged."""
        if len(commit.parents) < 2:
            return []
        return [one for one in commit.parents if one not in made and not self._is_below(one)]

    def _is_below(self, commit: str) -> bool:
        """Whether a commit is part of what the branch begins at."""
        if self.onto is None:
            return False
        try:
            self.quarantine.git("merge-base", "--is-ancestor", commit, self.onto)
        except GitFailed:
            return False
        return True

    def _tree(self, state: State) -> str:
        """The tree of a state."""
        if self._index is None:
            self._index = self.quarantine.index_of(self.onto)
            self._start = self.quarantine.tree(self.onto)
        entries = {path: state.get(path, self._start.get(path)) for path in {**self._shown, **state}}
        nothing = "0" * (64 if self.quarantine.repository.object_format == "sha256" else 40)
        going = [f"0 {nothing}\t{path}\0" for path, entry in entries.items() if entry is None]
        coming = [f"{entry.mode} {entry.oid}\t{path}\0" for path, entry in entries.items() if entry is not None]
        given = "".join([*going, *coming]).encode("utf-8", "surrogateescape")
        self._index("update-index", "-z", "--index-info", given=given)
        self._shown = dict(state)
        return self._index.line("write-tree", "--missing-ok")

    def _commit(
        self, tree: str, parents: Sequence[str | None], author: Signature, when: str | None, message: str
    ) -> str:
        who = author.variables("AUTHOR", when) | self.wording.owner.variables("COMMITTER")
        above = [word for parent in parents if parent is not None for word in ("-p", parent)]
        return self.quarantine.git.at(**who).line("commit-tree", tree, *above, given=message.encode())


def marks_lines(marks: Mapping[str, Sequence[str]]) -> list[str]:
    """Marks as lines of a message; nothing where there are none."""
    rows = [
        f"  {safe_name(path)}: {show_hidden('; '.join(reasons))}" for path, reasons in sorted(marks.items()) if reasons
    ]
    more = [f"  … and {len(rows) - _MOST_MARKS} more"] if len(rows) > _MOST_MARKS else []
    return ["Look twice at:", *rows[:_MOST_MARKS], *more] if rows else []
