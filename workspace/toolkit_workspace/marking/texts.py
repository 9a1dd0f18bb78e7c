"""Characters in added lines that a reviewer does not see, or sees in another order than a compiler does."""

from __future__ import annotations

from toolkit._base.words import hidden_in
from toolkit_workspace.record.content import ContentGone, Node, is_binary

_LARGEST_SEARCHED = 16 << 20
_MOST_NAMED = 4
_BYTE_ORDER_MARK = "\ufeff"


def marks_for_text(old: Node | None, new: Node) -> list[str]:
    """The mark for hidden characters in the lines of a text that its old version does not have.

    Raises:
        Unreadable: it cannot be looked at.
    """
    if new.content is None:
        return []
    if new.size > _LARGEST_SEARCHED:
        return [] if new.is_binary else ["too large to be searched for invisible characters"]
    after = _lines(new)
    if not after:
        return []
    before = set(_lines(old)) if old is not None else set()
    found: dict[str, int] = {}
    for number, line in enumerate(after, 1):
        if line.isascii() or line in before:
            continue
        text = line.decode("utf-8", "replace")
        for _, char in hidden_in(text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text):
            found.setdefault(char, number)
    if not found:
        return []
    named = [f"U+{ord(char):04X} in line {number}" for char, number in found.items()]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return [f"invisible or misleading characters in added lines: {', '.join(named[:_MOST_NAMED])}{more}"]


def _lines(node: Node) -> list[bytes]:
    """The lines of a text; none of one that has only ASCII in it, is binary, or changed this instant."""
    if node.content is None or node.size > _LARGEST_SEARCHED:
        return []
    try:
        data = node.content.read()
    except ContentGone:
        return []
    return [] if data.isascii() or is_binary(data) else data.split(b"\n")
