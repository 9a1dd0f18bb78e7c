"""A workspace as its agent sees it: what is mounted, what was changed so far, and the way back.

Works on a `WorkspaceSection` at hand, or on the folder of one that was kept. The
host's files are never touched: a file is restored from what was copied at first.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.words import count_text, safe_name, size_text
from toolkit.errors import TargetError, ToolError, WorkspaceError
from toolkit.tools import Toolbox, tool
from toolkit_servers.ready.given import refuse_misfit
from toolkit_workspace import Change, Changes, WorkspaceSection
from toolkit_workspace.changes import Pair
from toolkit_workspace.moments import rewrite

_MOST_ROWS = 200
_MOST_NAMED = 20


class WorkspaceTools:
    """The tools on one workspace."""

    def __init__(self, section: WorkspaceSection, max_chars: int) -> None:
        self._section = section
        self._room = max_chars
        self._lock = threading.Lock()

    @tool(read_only=True, open_world=False)
    def show_mounts(self) -> str:
        """Tell what was copied into the workspace, and what was left out."""
        with self._ready():
            return self._section.render()

    @tool(read_only=True, timeout=120, open_world=False)
    def list_changes(self) -> str:
        """List the files that were added, changed, renamed or deleted since the workspace was prepared."""
        with self._ready():
            changes = self._section.changes()
            return changes.summary(max_rows=_MOST_ROWS) if changes else "Nothing was changed."

    @tool(read_only=True, timeout=120, open_world=False)
    def show_diff(self, path: str = ".") -> str:
        """Show what was changed since the workspace was prepared, as a diff.

        Args:
            path: Only this file, or what lies in this folder.
        """
        with self._ready():
            inside = self._inside(path)
            changes = self._section.changes()
            chosen = [at for at, change in enumerate(changes) if _lies_in(change, inside)]
            if changes and not chosen:
                raise ToolError(f"nothing was changed in {safe_name(path)}; list_changes shows where something was")
            return self._diff(changes, chosen)

    @tool(destructive=True, idempotent=True, timeout=120, open_world=False)
    def restore(self, path: str) -> str:
        """Put a file, or all files of a folder, back to what they were when the workspace was prepared.

        What was added since is left alone.

        Args:
            path: The file or folder.
        """
        with self._ready():
            inside = self._inside(path)
            changes = self._section.changes()
            pairs = _back(changes, inside)
            restored = sorted(path for path in pairs if _is_below(path, inside))
            if not restored:
                raise ToolError(_why_nothing(changes, inside))
            handle = os.open(self._section.temp_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                rewrite(handle, list(pairs.values()))
            except OSError as error:
                raise ToolError(f"{safe_name(inside)} cannot be put back: {error.strerror}") from error
            finally:
                os.close(handle)
            more = f" and {len(restored) - _MOST_NAMED} more" if len(restored) > _MOST_NAMED else ""
            return f"Restored {', '.join(safe_name(path) for path in restored[:_MOST_NAMED])}{more}."

    @contextlib.contextmanager
    def _ready(self) -> Iterator[None]:
        """One call at a time, and the workspace's errors as the model should read them."""
        with self._lock:
            try:
                yield
            except WorkspaceError as error:
                raise ToolError(error.what, where=error.where) from error

    def _inside(self, path: str) -> str:
        """The path relative to the workspace, empty for all of it."""
        clean = posixpath.normpath(path or ".")
        if posixpath.isabs(clean):
            seen = self._section.places.to_host(self._section.temp_dir, clean)
            clean = posixpath.relpath(seen or clean, self._section.temp_dir)
        if clean == ".." or clean.startswith("../"):
            raise ToolError(f"{safe_name(path)} is outside the workspace; write the path from its top on")
        return "" if clean == "." else clean

    def _diff(self, changes: Changes, chosen: list[int]) -> str:
        """The changes as a patch, one piece a file, then what is not among them."""
        pieces, remarks, room = list[str](), list[str](), self._room
        unshown = 0
        for at in chosen:
            change = changes[at]
            if change.binary:
                remarks.append(f"{change.kind}: {safe_name(change.path)} is binary, {size_text(change.size or 0)}")
                continue
            piece = changes[at : at + 1].patch().decode("utf-8", "replace").rstrip("\n")
            if len(piece) > room and not pieces:
                pieces.append(piece[:room])
                remarks.append(f"{len(piece) - room:,} more characters of {safe_name(change.path)} are not shown")
            elif len(piece) > room:
                unshown += 1
            elif piece:
                pieces.append(piece)
            room = max(room - len(piece), 0)
        if len(remarks) > _MOST_ROWS:
            remarks[_MOST_ROWS:] = [f"{len(remarks) - _MOST_ROWS:,} more binary files"]
        if unshown:
            remarks.append(f"{count_text(unshown, 'file')} not shown: too long; ask for one path at a time")
        return "\n".join([*pieces, *(f"[{remark}]" for remark in remarks)]) or "Nothing was changed."


def workspace(section: WorkspaceSection | Path | None = None, *, max_chars: int = 50_000) -> Toolbox:
    """A toolbox over a prepared `WorkspaceSection`, or over the folder of one that was kept.

    Raises:
        TargetError: no workspace is given, there is none in that folder, or an option is not what is declared here.
    """
    refuse_misfit(workspace, section=section, max_chars=max_chars)
    if section is None:
        raise TargetError(
            "the ready-made 'workspace' needs to know which workspace",
            target="workspace",
            fix="Name its folder: workspace:FOLDER; toolkit workspace list shows those that were kept",
            is_mistyped=True,
        )
    if not isinstance(section, WorkspaceSection):
        try:
            section = WorkspaceSection.open(section)
        except WorkspaceError as error:
            told = TargetError(error.what, target="workspace", where=error.where, fix=error.fix)
            told.exit_code = error.exit_code
            raise told from error
    tools = WorkspaceTools(section, max_chars)
    return Toolbox(
        "workspace",
        [tools.show_mounts, tools.list_changes, tools.show_diff, tools.restore],
        instructions="The workspace is a copy of host files: see what you changed in it, and undo it file by file.",
    )


def _lies_in(change: Change, inside: str) -> bool:
    return any(path is not None and _is_below(path, inside) for path in (change.path, change.old_path))


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _back(changes: Changes, inside: str) -> dict[str, Pair]:
    """What has to be rewritten so that everything inside that was there at first is there again."""
    pairs: dict[str, Pair] = {}
    now = {change.path: change.after for change in changes if change.after is not None}
    for change in changes:
        before_at = change.old_path if change.old_path is not None else change.path
        if change.before is None:
            continue
        # A folder above that was deleted has to be there again first.
        is_above = change.type == "folder" and change.after is None and _is_below(inside, before_at)
        if not is_above and not _is_below(before_at, inside):
            continue
        there = now.get(before_at)
        if there is not None and there.kind == "d" != change.before.kind:
            raise ToolError(f"{safe_name(before_at)} is a folder now; move or remove it first")
        pairs[before_at] = Pair(os.fsencode(before_at), there, change.before)
    return pairs


def _why_nothing(changes: Changes, inside: str) -> str:
    for change in changes:
        if change.path == inside and change.old_path is not None:
            return f"{safe_name(inside)} was {safe_name(change.old_path)} at first: restore that"
        if change.path == inside and change.kind == "added":
            return f"{safe_name(inside)} was not there when the workspace was prepared; remove it if it is not wanted"
    return f"nothing to restore in {safe_name(inside or '.')}: nothing that was there at first has changed"
