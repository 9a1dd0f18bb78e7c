"""What stands in the commits: messages that no mailbox, trailer or terminal misreads, and who made them.

A message of the agent is a stranger's text. Lines that `git am` would take for the start
of a patch or of another mail, and lines that look like our own trailers, are indented.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit._base.words import safe_text, show_hidden

_MISREAD = re.compile(r"(?:diff -|index: |---|from |>+from |-+ *>8|-+ *8<|toolkit-[a-z-]+ *:)", re.IGNORECASE)
_NOT_IN_A_NAME = re.compile(r"[<>\x00-\x1f\x7f]|[.,;:'\" ]+$")
_LONGEST_MESSAGE = 20_000
_SUBJECT = 72


@dataclass(frozen=True, slots=True)
class Signature:
    """A name and an address in a commit."""

    name: str
    email: str

    def variables(self, role: str, when: str | None = None) -> dict[str, str]:
        """As git takes it for AUTHOR or COMMITTER."""
        names = {f"GIT_{role}_NAME": _plain(self.name) or "agent", f"GIT_{role}_EMAIL": _plain(self.email)}
        return names | {f"GIT_{role}_DATE": when or f"{int(time.time())} +0000"}


def message_of(text: str, *, body: Sequence[str] = (), trailers: Sequence[tuple[str, str]] = ()) -> str:
    """A message: a text of anybody's, lines of ours, and trailers in a last paragraph of their own."""
    lines = [_harmless(line) for line in safe_text(text[:_LONGEST_MESSAGE]).replace("\t", "    ").splitlines()]
    said = "\n".join(line.rstrip() for line in lines).strip("\n") or "Changes of an agent"
    subject, _, rest = said.partition("\n")
    parts = [subject.strip() or "Changes of an agent", rest.strip("\n"), "\n".join(map(_harmless, body))]
    parts.append("\n".join(f"{key}: {' '.join(show_hidden(value).split())}" for key, value in trailers))
    return "\n\n".join(part for part in parts if part) + "\n"


def subject_of(text: str) -> str:
    """The first line of a text, short enough for a subject."""
    line = next((" ".join(one.split()) for one in safe_text(text).splitlines() if one.strip()), "")
    return line if len(line) <= _SUBJECT else line[: _SUBJECT - 1] + "…"


def _harmless(line: str) -> str:
    return f"    {line}" if _MISREAD.match(line) else line


def _plain(text: str) -> str:
    return _NOT_IN_A_NAME.sub("", safe_text(text).replace("\n", " ")).strip()[:200]
