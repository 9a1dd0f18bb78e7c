"""Write the tables of docs/marks.md from the product's own: `python -m tests.docs_marks`. A test compares the two."""

from __future__ import annotations

from pathlib import Path

from toolkit_workspace.marking import OBEYED

FILE = Path(__file__).parents[1] / "docs" / "marks.md"
BEGIN, END = "<!-- made by python -m tests.docs_marks -->\n", "<!-- end -->\n"


def table() -> str:
    """A row for each reason, with all names that have it."""
    names: dict[str, list[str]] = {}
    for row in OBEYED:
        names.setdefault(row.reason, []).extend(row.names.split())
    rows = [f"| {' '.join(f'`{name}`' for name in given)} | {reason} |\n" for reason, given in names.items()]
    return "".join(["| files | why |\n|---|---|\n", *rows])


def page(written: str) -> str:
    """The page with its table made anew."""
    before, _, rest = written.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text(encoding="utf-8")), encoding="utf-8")
