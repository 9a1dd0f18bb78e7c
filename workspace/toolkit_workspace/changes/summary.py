"""Show changes as a short table: one row a file, marks beside it, the counts at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolkit._base.words import safe_name, size_text
from toolkit_workspace.changes.lines import matching_blocks, split_lines
from toolkit_workspace.record.content import ContentGone

if TYPE_CHECKING:
    from toolkit_workspace.changes.changes import Change, Changes

_LETTERS = {"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "mode": "P", "link": "L"}
_WORDS = {"mode": "mode changed", "link": "link changed"}
_LARGEST_COUNTED = 1 << 20
_WIDEST = 60
_MOST_TOPS = 5


def summary_table(changes: Changes, *, max_rows: int) -> str:
    """The table; `No changes.` when there are none."""
    telling = changes.counted
    ignored = ignored_line(changes)
    if not telling:
        return ignored or "No changes."
    # What is suspicious must not be lost among the rows that are cut off.
    ranked = sorted(telling, key=lambda change: not change.suspicious)[:max_rows]
    rows = sorted(ranked, key=lambda change: change.path)
    names = [_name(change) for change in rows]
    width = min(_WIDEST, max(len(name) for name in names))
    lines = [_row(change, name, width) for change, name in zip(rows, names, strict=True)]
    if len(telling) > len(rows):
        lines.append(f"… and {len(telling) - len(rows)} more")
    lines.append(_counts(telling))
    return "\n".join([*lines, ignored] if ignored else lines)


def ignored_line(changes: Iterable[Change]) -> str:
    """One line for caches and what the project's own rules ignore: how much, and where; empty where there is none."""
    quiet = [change for change in changes if change.ignored and not change.suspicious]
    if not quiet:
        return ""
    files = sum(change.type != "folder" for change in quiet)
    names = {change.path for change in quiet}
    tops = [change for change in quiet if change.path.rpartition("/")[0] not in names]
    shown = ", ".join(_name(change) for change in tops[:_MOST_TOPS])
    more = f", … {len(tops) - _MOST_TOPS} more" if len(tops) > _MOST_TOPS else ""
    return f"caches, or ignored by the project: {files} file{'s' if files != 1 else ''} in {shown}{more}"


def counted(changes: Sequence[Change]) -> list[Change]:
    """The changes that everybody is told about and that are counted, the same everywhere.

    Not what is only ignored, and not a folder whose files are in the list.
    """
    told = _folders_told(changes)
    return [one for one in changes if not (one.ignored and not one.suspicious) and not _is_implied(one, told)]


def _folders_told(changes: Iterable[Change]) -> set[str]:
    """Every folder that some row lies below."""
    told: set[str] = set()
    for change in changes:
        for path in (change.path, change.old_path or ""):
            parent = path.rpartition("/")[0]
            while parent and parent not in told:
                told.add(parent)
                parent = parent.rpartition("/")[0]
    return told


def _is_implied(change: Change, told: set[str]) -> bool:
    """Whether the rows of the files below already tell this folder's story."""
    is_plain = change.type == "folder" and not change.suspicious and change.kind in ("added", "deleted")
    return is_plain and change.path in told


def _name(change: Change) -> str:
    name = safe_name(change.agent_path or change.path)
    if change.old_path is not None:
        name = f"{safe_name(change.agent_old_path or change.old_path)} → {name}"
    if change.type == "folder":
        return name + "/"
    return f"{name} → {safe_name(change.target)}" if change.target is not None else name


def _row(change: Change, name: str, width: int) -> str:
    facts = "  ".join(fact for fact in (_extent(change), _permissions(change)) if fact)
    marks = "  ! " + "; ".join(change.suspicious) if change.suspicious else ""
    return f"{_LETTERS[change.kind]}  {name:<{width}}  {facts}{marks}".rstrip()


def _extent(change: Change) -> str:
    if change.type != "file" or not change.content_changed:
        return ""
    if change.binary:
        return f"binary, {size_text(change.size if change.size is not None else change.old_size or 0)}"
    counted = _line_counts(change)
    return "" if counted is None else f"+{counted[0]} −{counted[1]}"


def _line_counts(change: Change) -> tuple[int, int] | None:
    if change.before is None and change.after is None:  # told by another process, without the contents
        return None
    sides = []
    for node in (change.before, change.after):
        if node is not None and (node.content is None or node.size > _LARGEST_COUNTED):
            return None
        try:
            sides.append(split_lines(node.content.read()) if node is not None and node.content else [])
        except ContentGone:
            return None
    same = sum(length for _, _, length in matching_blocks(sides[0], sides[1]))
    return len(sides[1]) - same, len(sides[0]) - same


def _permissions(change: Change) -> str:
    if change.old_mode is None or change.mode is None or change.old_mode == change.mode:
        return ""
    return f"mode {change.old_mode & 0o7777:o} → {change.mode & 0o7777:o}"


def _counts(changes: Changes) -> str:
    kinds: Counter[str] = Counter(change.kind for change in changes)
    parts = [f"{kinds[kind]} {_WORDS.get(kind, kind)}" for kind in _LETTERS if kinds[kind]]
    marked = sum(bool(change.suspicious) for change in changes)
    total = f"{len(changes)} change{'s' if len(changes) != 1 else ''}: {', '.join(parts)}"
    return total + (f"; {marked} to look at twice (!)" if marked else "")
