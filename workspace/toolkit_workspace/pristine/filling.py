"""Fill a new workspace: by a copy of its own, or over a copy that is kept for all of its kind.

The first one of a kind is copied, and what was copied is then kept; those after it cost what is different. Where that
cannot be had, or is not worth it, it is a plain copy, and why is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolkit._base.files import is_full
from toolkit._base.handles import remove_folder
from toolkit._base.layered import odd_path, why_no_layers
from toolkit._base.words import count_text, size_text
from toolkit.errors import WorkspaceError
from toolkit_workspace.copying import Progress, fill
from toolkit_workspace.options import Backend
from toolkit_workspace.pristine.comparing import Comparer, start_comparers
from toolkit_workspace.pristine.kept_copy import STAMPS, KeptCopy
from toolkit_workspace.pristine.key import key_of
from toolkit_workspace.pristine.renew import TooDifferent, renew
from toolkit_workspace.pristine.store import MOST_BYTES, KeptCopies, size_of
from toolkit_workspace.record import Record
from toolkit_workspace.selecting import AllowedRoots, Plan, Source, Tally
from toolkit_workspace.workspace import Workspace

_FOLLOWED = "links that lead out of a mount are followed"
ENOUGH_FILES = 5_000
"""With fewer files a copy is as quick, and its folder shows everything."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How a workspace is to be filled."""

    backend: Backend = "copy"
    refused: str = ""
    """Why the caller cannot use an overlay, where it cannot."""
    home: Path | str | None = None
    """The state folder to keep copies in."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How a workspace was filled."""

    tallies: list[Tally]
    used: Literal["copy", "overlay"] = "copy"
    why: str = ""
    """Why it is a plain copy although something else was possible, or what an overlay lies over."""


def filled(
    workspace: Workspace,
    sources: Sequence[Source],
    roots: AllowedRoots,
    wish: Wish,
    *,
    strict: bool,
    progress: Callable[[Progress], None] | None,
) -> Filled:
    """Put every mount into an empty workspace and record it.

    Raises:
        WorkspaceBudgetError: a mount turned out larger than its max_bytes.
        WorkspaceError: an overlay was asked for and cannot be had.
        OSError: the workspace cannot be written.
    """

    def copied() -> list[Tally]:
        return fill(workspace, sources, roots, strict=strict, progress=progress)

    if wish.backend == "copy":
        return Filled(copied())
    copies = KeptCopies(wish.home)
    reason = wish.refused or _unfit(sources) or _misplaced(workspace, copies)
    if reason:
        return Filled(_unless_asked(wish, reason, copied), why=reason)
    key = key_of(sources, roots, strict=strict)
    least = ENOUGH_FILES if wish.backend == "auto" else 0
    if (again := _again(workspace, sources, roots, copies, key, least=least, strict=strict)) is not None:
        return again
    if wish.backend == "overlay" and (refused := why_no_layers(copies.folder)):
        _unless_asked(wish, refused, copied)
    tallies = copied()
    files, size = sum(tally.files for tally in tallies), size_of(workspace)
    if wish.backend == "auto" and files < ENOUGH_FILES:
        return Filled(tallies, why=_as_quick(files))
    reason = why_no_layers(copies.folder) or ""
    if not reason and size > MOST_BYTES:
        reason = _too_large(size)
    if reason:
        return Filled(_unless_asked(wish, reason, lambda: tallies), why=reason)
    kept = copies.keep(workspace, key, sources, tallies)
    _own_folder(workspace)
    workspace.save()
    copies.tidy(besides=[kept.folder.name])
    return Filled(tallies, "overlay", f"over a copy of {count_text(kept.files, 'file')} that is kept from now on")


def planned(wish: Wish, plan: Plan, *, follows: bool) -> tuple[str, str]:
    """How a workspace would be filled, and why so, by looking only; the machine itself is not tried."""
    if wish.backend == "copy":
        return "copy", ""
    folder = KeptCopies(wish.home).folder
    reason = wish.refused or (_FOLLOWED if follows else "") or odd_path(folder) or ""
    if not reason and wish.backend == "auto" and plan.files < ENOUGH_FILES:
        reason = _as_quick(plan.files)
    if not reason and plan.size > MOST_BYTES:
        reason = _too_large(plan.size)
    if reason and wish.backend == "overlay":
        raise _refused(reason)
    return ("copy", reason) if reason else ("overlay", "over a kept copy, if this machine can do that")


def _as_quick(files: int) -> str:
    return f"{count_text(files, 'file')}: a copy is as quick"


def _too_large(size: int) -> str:
    return f"{size_text(size)} are more than kept copies may have together ({size_text(MOST_BYTES)})"


def _unless_asked(wish: Wish, reason: str, copied: Callable[[], list[Tally]]) -> list[Tally]:
    if wish.backend == "overlay":
        raise _refused(reason)
    return copied()


def _refused(reason: str) -> WorkspaceError:
    return WorkspaceError(
        "backend 'overlay' cannot be had for this workspace",
        where=[reason],
        fix="Leave the choice to us (auto), or copy: --backend copy",
    )


def _unfit(sources: Sequence[Source]) -> str:
    """Why mounts are no matter for a kept copy."""
    if any(source.mount.follow_symlinks for source in sources):
        return _FOLLOWED
    return "" if sources else "there is nothing to copy"


def _misplaced(workspace: Workspace, copies: KeptCopies) -> str:
    """Why a workspace cannot lie over what is kept."""
    for path in (workspace.folder, copies.folder):
        if odd := odd_path(path):
            return odd
    try:
        copies.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_same = copies.folder.stat().st_dev == workspace.state_dir.stat().st_dev
    except OSError as error:
        return f"{copies.folder}: {error.strerror}"
    return "" if is_same else f"it does not lie on the file system of {copies.folder}"


def _again(
    workspace: Workspace,
    sources: Sequence[Source],
    roots: AllowedRoots,
    copies: KeptCopies,
    key: str,
    *,
    least: int,
    strict: bool,
) -> Filled | None:
    """Lay a workspace over the copy that was kept of its kind; None where there is none that does.

    One with fewer files than `least` is for those who ask for it.
    """
    found = copies.take(key)
    if found is None:
        return None
    kept, lock = found
    with lock:
        if kept.files < least or (not kept.was_tried and why_no_layers(copies.folder)):
            return None
        comparers: list[Comparer] = []
        try:
            comparers = start_comparers(kept.folder / STAMPS, sources)
            workspace.record.become(kept.record())
            tallies = kept.counted()
            copies.lay_below(kept, workspace)
            _own_folder(workspace)
            renew(workspace, sources, roots, tallies, comparers, strict=strict)
            workspace.save()
        except (TooDifferent, WorkspaceError, OSError) as error:
            if isinstance(error, OSError) and is_full(error):
                raise
            _forget(workspace, kept, sources)  # something went this instant, say: whoever copies finds out
            return None
        finally:
            for comparer in comparers:
                comparer.close()
    return Filled(tallies, "overlay", f"over a kept copy of {count_text(kept.files, 'file')}")


def _own_folder(workspace: Workspace) -> None:
    """The folder that was just made is the workspace's own."""
    st = workspace.folder.stat()
    workspace.record.root_stamp = (st.st_ctime_ns, st.st_ino)


def _forget(workspace: Workspace, kept: KeptCopy, sources: Sequence[Source]) -> None:
    """An empty workspace of its own again."""
    remove_folder(workspace.folder)
    workspace.folder.mkdir(mode=0o700)
    workspace.lay_over(None)
    workspace.write_facts(lay_over=None)
    workspace.facts_changed()
    workspace.record.become(Record([source.record for source in sources]))
    kept.remove_user(workspace.folder.name)
