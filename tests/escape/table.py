"""Write the table of attempts into `sandbox-settings/README.md`.

Run it after a change of attempts.toml: python -m tests.escape.table
The verdicts are what test_escape.py holds every row to.
"""

from __future__ import annotations

from pathlib import Path

from tests.escape.attempts import ATTEMPTS, USEFUL
from toolkit.sandbox import KNOWN_CLI

README = Path(__file__).parents[2] / "sandbox-settings" / "README.md"
BEGIN, END = "<!-- escapes: generated -->", "<!-- /escapes -->"


def with_table() -> str:
    """The README as it has to be."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README} has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{_table()}\n{END}{after}"


def _table() -> str:
    free = sum(not attempt.held_anyway for attempt in ATTEMPTS)
    lines = [
        f"{len(ATTEMPTS)} attempts, played by a scripted model through the real CLI ({KNOWN_CLI}) in every run of the",
        "test suite: started by root and by an ordinary user, with the CLI's sandbox in the jail and with the jail",
        f"alone. None gets out. Without a jail {free} of them do, which is how we know that the suite can fail.",
        f"{len(USEFUL)} pieces of honest work ({', '.join(attempt.about for attempt in USEFUL)}) go on inside.",
        "",
        "| attempt | what it tries | in the jail | jail alone | no jail |",
        "|---|---|---|---|---|",
    ]
    for attempt in ATTEMPTS:
        alone = "changes the workspace" if attempt.needs_sandbox else "held"
        without = "held" if attempt.held_anyway else "**gets out**"
        lines.append(f"| {attempt.name} | {attempt.about} | held | {alone} | {without} |")
    return "\n".join(lines)


if __name__ == "__main__":
    README.write_text(with_table(), encoding="utf-8")
