"""docs/troubleshooting.md has every code a run can end with, and the messages it names are still those of the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.runs.outcome.codes import MESSAGES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
SOURCE = "".join(
    file.read_text(encoding="utf-8")
    for room in ("toolkit", "servers", "workspace")
    for file in sorted((ROOT / room).rglob("*.py"))
)


def rows(title: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_every_code_has_a_row_with_its_sentence() -> None:
    assert {row[0].strip("` "): row[1] for row in rows("The code of a run")} == MESSAGES


def test_every_code_but_ok_says_why_and_what_to_do() -> None:
    assert [row[0] for row in rows("The code of a run")[1:] if len(row) != 4 or not all(row)] == []


@pytest.mark.parametrize("message", [row[0].strip('| "') for row in rows("A message")])
def test_a_message_on_the_page_is_one_of_the_source(message: str) -> None:
    """Names stand in capitals; the words around them are the source's, in one piece."""
    pieces = [piece.strip(" '") for piece in re.split(r"\bNAME\b", message)]
    assert [piece for piece in pieces if piece and piece not in SOURCE] == []
