"""What a run changed in its workspace, file by file, as plain values.

Names come from the changes themselves and contents from one patch for each file, so
that no name, however odd, is ever read out of a patch. What is too long for a page
is left out and said to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.runs import StoredRun
    from toolkit_workspace.changes import Changes

_FILE_BYTES = 1 << 20
"""The longest patch of one file that is shown."""
_ALL_BYTES = 16 << 20
"""What all patches of a page may have together."""


def changes_data(run: StoredRun, state: str) -> dict[str, Any]:
    """The changed files, each with its hunks, and a note where they are not all there is to say."""
    if state == "running":
        return {"files": [], "note": "The changes are shown when the run has ended."}
    kept = run.changed_files() or []
    try:
        files, note, gone = _files(run.changes()), None, "it was applied since"
    except ToolkitError as error:
        files, note, gone = [], f"{error.what[:1].upper()}{error.what[1:]}.", "its contents are no longer there"
    shown = {file["path"] for file in files}
    files += [{**facts, "patch": None, "why": gone} for facts in kept if facts.get("path") not in shown]
    return {"files": sorted(files, key=lambda file: str(file["path"])), "note": note}


def _files(changes: Changes) -> list[dict[str, Any]]:
    left = _ALL_BYTES
    files = []
    for place, change in enumerate(changes):
        patch, why = _patch(changes[place : place + 1]) if left > 0 else (None, "the page is long enough")
        left -= len(patch or "")
        files.append({**change.to_json(), "patch": patch, "why": why})
    return files


def _patch(change: Changes) -> tuple[str | None, str | None]:
    """The hunks of one change, or why there are none."""
    [one] = change
    if one.binary:
        return None, "binary contents"
    refused = change.not_in_patch()
    if refused:
        return None, refused[0][1]
    if one.type == "folder" or (not one.content_changed and one.type == "file" and one.kind in ("mode", "renamed")):
        return None, None
    if max(one.size or 0, one.old_size or 0) > 8 * _FILE_BYTES:
        return None, "too long to be shown here"
    try:
        patch = change.patch()
    except ToolkitError as error:
        return None, error.what
    start = 0 if patch.startswith(b"@@ ") else patch.find(b"\n@@ ") + 1
    if not patch[start:].startswith(b"@@ "):
        return None, None
    if len(patch) > _FILE_BYTES:
        return None, "too long to be shown here"
    return patch[start:].decode("utf-8", "backslashreplace"), None
