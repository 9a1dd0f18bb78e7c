"""The README as somebody reads it who types everything: its code blocks, each with the section it stands in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PARTS = re.compile(r"^## (?P<title>[^\n]+)$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One code block."""

    section: str
    language: str
    text: str

    @property
    def typed(self) -> list[str]:
        """The lines of a console block that somebody types."""
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]

    @property
    def printed(self) -> str:
        """What a console block shows as the answer."""
        return "".join(f"{line}\n" for line in self.text.splitlines() if not line.startswith("$ "))


def blocks() -> list[Block]:
    """All blocks of the README, from the top down; those before the first heading stand in the section ''."""
    found, section = [], ""
    for part in _PARTS.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        if part["title"]:
            section = part["title"]
        else:
            found.append(Block(section, part["language"], part["text"]))
    return found


def of(section: str, language: str) -> list[Block]:
    """The blocks of a section in one language."""
    return [block for block in blocks() if (block.section, block.language) == (section, language)]
