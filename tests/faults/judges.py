"""What has to be true after an operation, whatever went wrong in it; asked in a fresh process, by public doors.

Each judge yields the promises that were broken, with what was seen.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.operations import Facts, Kind, Tree, changes_of, play_run, seen, tree_of
from toolkit.errors import WorkspaceError
from toolkit.runs import Event, list_runs, load_run, remove_older_than
from toolkit.workspace import WorkspaceSection

PROMISES = {
    "words": "what is raised is an error of ours, never a raw one, and nothing hangs",
    "truth": "what is told is so: what could not be looked at is never told as unchanged, or as done",
    "whole": "every path is as it was or as it was to become, and nothing is lost",
    "announced": "what is half done is announced, refused and kept until it is finished or taken back",
    "mends": "what is half done can be finished or taken back",
    "tidy": "nothing is left behind that the next command or 'clean' does not find",
    "goes on": "later operations work as if nothing had happened",
}


@dataclass(frozen=True)
class Broken:
    """A promise that was not kept."""

    promise: str
    seen: str


@dataclass(frozen=True)
class Outcome:
    """How the operation ended."""

    end: str
    """done, raised, killed or hung."""
    told: Any = None
    """What it returned."""
    error: str = ""
    """What it raised."""
    is_ours: bool = True
    """Whether that is an error in words."""
    said: tuple[str, ...] = ()
    """What it had said by then."""


@dataclass(frozen=True)
class Round:
    """Everything a judge knows."""

    top: Path
    facts: Facts
    kind: Kind
    outcome: Outcome
    wanted: Any
    """What an undisturbed operation tells."""
    wanted_host: Tree
    wanted_workspace: Tree
    prefers_undo: bool
    """Whether what is half done is taken back rather than finished."""

    @property
    def is_done(self) -> bool:
        return self.outcome.end == "done"

    def host(self) -> Tree:
        return tree_of(self.top / "host")

    def workspace(self) -> Tree:
        return self.kind.look(Path(self.facts["path"]))


Breaks = Iterator[Broken]
Judge = Callable[[Round], Breaks]


def judged(judge: Judge, played: Round) -> list[Broken]:
    """Every promise that was broken; what the judge itself stumbles over is one, too."""
    broken: list[Broken] = []
    outcome = played.outcome
    if outcome.end == "hung" or not outcome.is_ours:
        broken.append(Broken("words", outcome.error or "it hangs"))
    try:
        broken += judge(played)
    except Exception as error:
        broken.append(Broken("goes on", f"{type(error).__name__}: {error}"))
    return broken


def command(*words: str) -> str:
    """What a toolkit command prints; raises what it would end with a traceback for."""
    from toolkit.cli import main

    out, sys.argv = io.StringIO(), ["toolkit", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{' '.join(words[:2])} ends with {end.code}: {said.getvalue()}") from end
    return out.getvalue()


def statuses(top: Path) -> list[str]:
    """What `toolkit workspace list` says of each workspace."""
    rows = json.loads(command("workspace", "list", "--json", "--parent", str(top / "made")))
    return [row["status"] for row in rows]


def _clean(top: Path, *options: str) -> list[str]:
    """The names that are left after `toolkit workspace clean`."""
    command("workspace", "clean", "--parent", str(top / "made"), *options)
    return _listed(top / "made")


def _listed(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def opened(played: Round) -> WorkspaceSection:
    return WorkspaceSection.open(played.facts["path"])


def difference(found: Tree, wanted: Tree) -> str:
    return ", ".join(sorted(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))[:6])


def ends_clean(played: Round) -> Breaks:
    """Removing all that was meant to stay leaves nothing at all."""
    if left := _clean(played.top, "--kept"):
        yield Broken("tidy", f"clean --kept leaves {_names(left)}")


def _names(names: list[str]) -> str:
    return ", ".join(name[:20] + "…" + name[-6:] for name in names)


def after_prepare(played: Round) -> Breaks:
    top, before = played.top, played.facts["host"]
    if played.host() != before:
        yield Broken("whole", f"the host changed: {difference(played.host(), before)}")
    if played.is_done:
        yield from _is_complete(played)
    elif played.outcome.end == "raised" and (left := _unnamed(_listed(top / "made"), played.outcome.error)):
        yield Broken("tidy", f"it left {_names(left)}, and does not say so")
    if left := _clean(top):
        if set(statuses(top)) != {"kept"}:
            yield Broken("tidy", f"clean leaves {_names(left)}")
        for path in (top / "made").glob("toolkit-workspace-*"):
            with WorkspaceSection.open(path) as section:
                section.changes()
    yield from ends_clean(played)
    yield from later_is_complete(played)


def later_is_complete(played: Round) -> Breaks:
    """A workspace that is prepared now has all of the host."""
    section = played.kind.make(played.top)
    found, before = _copied(section), _without_attributes(played.facts["host"])
    if found != before:
        yield Broken("goes on", f"a later workspace is not complete: {difference(found, before)}")
    if changed := changes_of(section):
        yield Broken("goes on", f"a later workspace is already changed: {', '.join(changed[:6])}")
    section.cleanup()


def _copied(section: WorkspaceSection) -> Tree:
    """What a workspace has of the host."""
    return {path.removeprefix("src/"): node for path, node in seen(section).items() if path.startswith("src/")}


def _unnamed(left: list[str], said: str) -> list[str]:
    """The names, of workspaces and of what is kept about them, whose workspace an error does not speak of."""
    return [name for name in left if name.removeprefix(".").removesuffix(".state") not in said]


def _is_complete(played: Round) -> Breaks:
    told, before = played.outcome.told, _without_attributes(played.facts["host"])
    with WorkspaceSection.open(told["path"]) as section:
        copied = _copied(section)
        differing = {path for path in {*before, *copied} if copied.get(path) != before.get(path)}
        if untold := [path for path in differing if not _is_named(path, told["left_out"])]:
            yield Broken("truth", f"ready, but without a word of {', '.join(sorted(untold)[:6])}")
        if found := changes_of(section):
            yield Broken("truth", f"fresh, and already changed: {', '.join(found[:6])}")


def _is_named(path: str, names: list[str]) -> bool:
    return any(path == name.rstrip("/") or path.startswith(f"{name.rstrip('/')}/") for name in names)


def _without_attributes(tree: Tree) -> Tree:
    return {path: (kind, mode, data, ()) for path, (kind, mode, data, _) in tree.items()}


def _untouched(played: Round) -> Breaks:
    for name, found in (("host", played.host()), ("workspace", played.workspace())):
        if found != played.facts[name]:
            yield Broken("whole", f"the {name} changed: {difference(found, played.facts[name])}")


def told_right(played: Round) -> Breaks:
    if played.is_done and played.outcome.told != played.wanted:
        yield Broken("truth", f"told {played.outcome.told!r} instead of {played.wanted!r}")


def _after_changes(played: Round) -> Breaks:
    yield from told_right(played)
    yield from _untouched(played)
    with opened(played) as section:
        if changes_of(section) != played.wanted:
            yield Broken("goes on", f"the next look sees {changes_of(section)!r}")
    yield from ends_clean(played)


def after_apply(played: Round) -> Breaks:
    yield from _host_is_one_of(played, played.facts["host"], played.wanted_host)
    if "unfinished" in statuses(played.top):
        return
    with opened(played) as section:  # applied or not, applying now ends with everything applied
        section.apply()
        if found := changes_of(section):
            yield Broken("goes on", f"applied, but it still tells {', '.join(found[:6])}")
    if played.host() != played.wanted_host:
        yield Broken("goes on", f"a later apply misses {difference(played.host(), played.wanted_host)}")
    yield from ends_clean(played)


def after_undo(played: Round) -> Breaks:
    yield from _host_is_one_of(played, played.facts["host"], played.wanted_host)
    if "unfinished" in statuses(played.top):
        return
    if played.host() != played.wanted_host:
        with opened(played) as section:
            section.undo_apply()
        if played.host() != played.wanted_host:
            yield Broken("goes on", f"a later undo misses {difference(played.host(), played.wanted_host)}")
    yield from ends_clean(played)


def _host_is_one_of(played: Round, before: Tree, after: Tree) -> Breaks:
    """The host is as before or as after, or announced as unfinished and then finished."""
    yield from told_right(played)
    found = played.host()
    if third := [path for path in {*found, *before, *after} if is_third(path, found, before, after)]:
        yield Broken("whole", f"neither as it was nor as it becomes: {', '.join(sorted(third)[:6])}")
    if played.is_done and found != after:
        yield Broken("truth", f"told as done, but missing: {difference(found, after)}")
    if "unfinished" in statuses(played.top):
        yield from _is_kept_for_finishing(played)
        yield from _finish(played, before, after)
        return
    if found in (before, after):
        return
    rest = {path: node for path, node in found.items() if not _is_ours(path)}
    if rest in (before, after):
        yield Broken("tidy", f"left on the host: {difference(found, rest)}")
    else:
        yield Broken("announced", f"mixed, and nobody says so: {difference(found, after)}")


def is_third(path: str, found: Tree, before: Tree, after: Tree) -> bool:
    if path not in found:  # between two kinds there is a moment with nothing in place
        kinds = {tree[path][0] for tree in (before, after) if path in tree}
        return path in before and path in after and len(kinds) == 1
    return found[path] not in (before.get(path), after.get(path)) and not _is_ours(path)


def _is_ours(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".toolkit-")


def _is_kept_for_finishing(played: Round) -> Breaks:
    _clean(played.top, "--kept")
    if "unfinished" not in statuses(played.top):
        yield Broken("announced", "unfinished, and clean --kept removes it")
    with opened(played) as section:
        try:
            section.apply()
        except WorkspaceError:
            return
        yield Broken("announced", "unfinished, and a second apply is not refused")


def _finish(played: Round, before: Tree, after: Tree) -> Breaks:
    word = "undo" if played.prefers_undo else "resume"
    with opened(played) as section:
        has_ended = section.undo_apply() if played.prefers_undo else section.resume_apply()
    is_undo = "earlier" in played.facts  # of which 'resume' may make a whole undo, or a whole apply again
    wanted = [after] if is_undo == played.prefers_undo else [before, after] if is_undo else [before]
    found = played.host()
    if not has_ended or found not in wanted:
        yield Broken("mends", f"{word} says {has_ended}, and differs in {difference(found, wanted[0])}")
    if "unfinished" in statuses(played.top):
        yield Broken("mends", "finished, and still told as unfinished")


def _after_snapshot(played: Round) -> Breaks:
    yield from told_right(played)
    yield from _untouched(played)
    with opened(played) as section:
        section.snapshot("three")
    last = Path(played.facts["path"], "src/last")
    last.write_bytes(b"last\n")
    with opened(played) as section:
        if "one" in played.facts:
            section.rewind("one")
            if played.workspace() != played.facts["one"]:
                yield Broken(
                    "goes on", f"rewinding to 'one' misses {difference(played.workspace(), played.facts['one'])}"
                )
        section.rewind("two" if played.is_done else "three")
    if played.workspace() != played.facts["workspace"]:
        where = "'two'" if played.is_done else "a later one"
        seen = f"rewinding to {where} misses {difference(played.workspace(), played.facts['workspace'])}"
        yield Broken("truth" if played.is_done else "goes on", seen)
    yield from ends_clean(played)


def after_rewind(played: Round) -> Breaks:
    before, goal = played.facts["workspace"], played.facts["one"]
    if played.host() != played.facts["host"]:
        yield Broken("whole", "the host changed")
    found = played.workspace()
    if played.is_done and found != goal:
        yield Broken("truth", f"rewound, but not {difference(found, goal)}")
    if found != before:
        with opened(played) as section:
            section.rewind("before rewinding to one")
        if played.workspace() != before:
            yield Broken("whole", f"lost by rewinding: {difference(played.workspace(), before)}")
    with opened(played) as section:
        section.rewind("one")
    if played.workspace() != goal:
        yield Broken("goes on", f"rewinding again misses {difference(played.workspace(), goal)}")
    yield from ends_clean(played)


def _after_log(played: Round) -> Breaks:
    home, outcome = played.top / "home", played.outcome
    damaged: list[str] = []
    stored = {run.id: run for run in list_runs(home, on_damaged=lambda damage: damaged.append(str(damage)))}
    if damaged:
        yield Broken("whole", damaged[0])
    shown = [Event.from_json(line) for line in outcome.said]
    if "run-1" not in stored:
        if shown:
            yield Broken("whole", f"{len(shown)} events were shown, and there is no run")
    else:
        run = stored["run-1"]
        events = list(run.events())
        lost = [event.name for event in shown if event not in events]
        if lost:
            yield Broken("whole", f"shown, and not stored: {', '.join(lost[:6])}")
        if run.state == "running":
            yield Broken("truth", "told as running, and its process is gone")
        result = run.result()
        if played.is_done and result.text != outcome.told:
            yield Broken("truth", f"it gave {outcome.told!r}, and {result.text!r} is stored")
    play_run(played.top, "run-2", lambda line: None)
    if load_run("run-2", home).result().text != played.wanted:
        yield Broken("goes on", "a later run does not end well")
    remove_older_than(0, home)
    if left := [name for name in _listed(home / "runs") if name.startswith((".run", "run"))]:
        yield Broken("tidy", f"removing all runs leaves {', '.join(left)}")


JUDGES: dict[str, Judge] = {
    "prepare": after_prepare,
    "changes": _after_changes,
    "apply": after_apply,
    "undo": after_undo,
    "snapshot": _after_snapshot,
    "rewind": after_rewind,
    "log": _after_log,
}
