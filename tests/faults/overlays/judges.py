"""What has to be true after an operation on a workspace over a kept copy, of that copy as well."""

from __future__ import annotations

from tests.faults.judges import (
    Breaks,
    Broken,
    Judge,
    Round,
    after_apply,
    after_prepare,
    after_rewind,
    after_undo,
    difference,
    ends_clean,
    is_third,
    later_is_complete,
    opened,
    told_right,
)
from tests.faults.operations import Tree, changes_of
from tests.faults.overlays.operations import AGAIN, copies_of
from toolkit_workspace.pristine import KeptCopies


def _with_copies(judge: Judge) -> Judge:
    """The same, and that kept copies stay as they are until nobody uses them, and can be removed then."""

    def judged(played: Round) -> Breaks:
        yield from judge(played)
        yield from _copies_are_as_before(played)
        if not list((played.top / "made").iterdir()):
            yield from _copies_can_go(played)

    return judged


def _copies_are_as_before(played: Round) -> Breaks:
    found = copies_of(played.top)
    for name, tree in played.facts["copies"].items():
        if name not in found:
            if "path" in played.facts:  # else nobody lies over it, and a newer one may have come in its place
                yield Broken("whole", "the kept copy below is gone")
        elif found[name] != tree:
            yield Broken("whole", f"a kept copy changed: {difference(found[name], tree)}")


def _copies_can_go(played: Round) -> Breaks:
    copies = KeptCopies(played.top / "home")
    copies.tidy(most_bytes=0, most_seconds=0)
    left = sorted(one.name for one in copies.folder.iterdir()) if copies.folder.exists() else []
    if left:
        yield Broken("tidy", f"copies that nobody uses stay: {', '.join(left)}")


def _after_first(played: Round) -> Breaks:
    assert not played.wanted["over"].startswith(AGAIN)
    yield from after_prepare(played)
    yield from later_is_complete(played)  # over the copy that the one before has kept at the latest


def _after_again(played: Round) -> Breaks:
    assert played.wanted["over"].startswith(AGAIN)
    yield from after_prepare(played)


def _after_whole(played: Round) -> Breaks:
    yield from told_right(played)
    yield from _still_the_same(played)
    with opened(played) as section:
        if played.is_done and section.layers is not None:
            yield Broken("truth", "told as done, and it is an overlay")
        section.make_whole()
    yield from _still_the_same(played)
    with opened(played) as section:
        section.apply()
        if found := changes_of(section):
            yield Broken("goes on", f"applied, but it still tells {', '.join(found[:6])}")
    yield from ends_clean(played)


def _still_the_same(played: Round) -> Breaks:
    """Host and workspace are as they were, and so is what is told of them."""
    for name, found in (("host", played.host()), ("workspace", played.workspace())):
        if found != played.facts[name]:
            yield Broken("whole", f"the {name} changed: {difference(found, played.facts[name])}")
    with opened(played) as section:
        if (told := changes_of(section)) != played.facts["changes"]:
            yield Broken("truth", f"told as changed: {told!r}")


def _after_update(played: Round) -> Breaks:
    before, after = played.facts["workspace"], played.wanted_workspace
    if played.host() != played.facts["host"]:
        yield Broken("whole", f"the host changed: {difference(played.host(), played.facts['host'])}")
    found = played.workspace()
    if third := [path for path in {*found, *before, *after} if is_third(path, found, before, after)]:
        yield Broken("whole", f"neither as it was nor as it becomes: {', '.join(sorted(third)[:6])}")
    if played.is_done:
        yield from _update_is_told_right(played, found)
    with opened(played) as section:
        section.update_from_host()
    if played.workspace() != after:
        yield Broken("goes on", f"a later update misses {difference(played.workspace(), after)}")
    yield from ends_clean(played)


def _update_is_told_right(played: Round, found: Tree) -> Breaks:
    """What cannot be read to be merged is a conflict, and stays as the agent has it."""
    told, wanted = played.outcome.told, played.wanted
    stayed = [path for path, kind in wanted.items() if kind == "merged" and told.get(path) == "conflict"]
    if told != wanted | dict.fromkeys(stayed, "conflict"):
        yield Broken("truth", f"told {told!r} instead of {wanted!r}")
    reached = played.wanted_workspace | {path: played.facts["workspace"][path] for path in stayed}
    if found != reached:
        yield Broken("truth", f"told as done, but missing: {difference(found, reached)}")


JUDGES: dict[str, Judge] = {
    "overlay-first": _with_copies(_after_first),
    "overlay-again": _with_copies(_after_again),
    "overlay-whole": _with_copies(_after_whole),
    "overlay-apply": _with_copies(after_apply),
    "overlay-undo": _with_copies(after_undo),
    "overlay-rewind": _with_copies(after_rewind),
    "overlay-update": _with_copies(_after_update),
}
