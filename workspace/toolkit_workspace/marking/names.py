"""Names that are made to be misread."""

from __future__ import annotations

import unicodedata

from toolkit._base.words import hidden_in


def marks_for_spelling(name: str) -> list[str]:
    """The reasons that lie in a file's own name."""
    marks = []
    categories = {unicodedata.category(char) for char in name}
    if "Cs" in categories:
        marks.append("name is not UTF-8")
    if "Cc" in categories:
        marks.append("control characters in the name")
    if "Cf" in categories or hidden_in(name):
        marks.append("invisible characters in the name")
    if name != name.strip() or name.endswith("."):
        marks.append("name starts or ends with a space or dot")
    return marks
