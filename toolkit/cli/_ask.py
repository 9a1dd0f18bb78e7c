"""Ask the person at the terminal about one tool call, showing what is about to happen.

Whatever was typed before the question is thrown away, so that no stray key answers
it. Reading waits in the event loop and not in a thread: a run that ends meanwhile
takes its question back.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
import termios
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_line, safe_text

if TYPE_CHECKING:
    from toolkit.cli._run_display import Display
    from toolkit.runs import Decision, Question

_KEYS = {"y": "ALLOW_ONCE", "n": "DENY", "s": "ALLOW_SESSION", "p": "ALLOW_PROJECT", "a": "ALLOW_ALWAYS"}
_MOST_LINES = 40
_TRIES = 5


class TerminalApprover:
    """Asks one question after the other on a terminal."""

    def __init__(self, terminal: int, display: Display) -> None:
        self._terminal = terminal
        self._display = display
        self._turn = asyncio.Lock()

    async def __call__(self, question: Question) -> Decision:
        """The person's decision; the run goes on meanwhile."""
        from toolkit.runs import Decision

        async with self._turn:
            self._display.hold()
            try:
                return Decision(await self._ask(question))  # type: ignore[arg-type]
            finally:
                self._display.go_on()

    async def _ask(self, question: Question) -> str:
        lines = about_to_happen(question.tool, question.input)
        _say(f"\n{safe_text(question.tool)} ({safe_text(question.reason)})\n")
        _say("".join(f"  {line}\n" for line in lines[:_MOST_LINES]))
        hidden = len(lines) - _MOST_LINES
        if hidden > 0:
            _say(f"  … {hidden} more line{'' if hidden == 1 else 's'}: v shows all\n")
        about = safe_line(question.subject, 60)
        keys = f"y = once, s = all {about} in this session, p = in this project, a = always, n = no"
        for _ in range(_TRIES):
            self._forget_keys()
            _say(f"Run it? {keys} [n] ")
            answer = await self._line()
            if answer in _KEYS:
                return _KEYS[answer]
            if answer == "v":
                _say("".join(f"  {line}\n" for line in lines))
            elif not answer:
                break
        return "DENY"

    def _forget_keys(self) -> None:
        """Throw away what was typed before the question could be seen."""
        with contextlib.suppress(termios.error):
            termios.tcflush(self._terminal, termios.TCIFLUSH)

    async def _line(self) -> str:
        """The next line that is typed; empty at the end of the input."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[bytes] = loop.create_future()

        def on_input() -> None:
            if not typed.done():
                try:
                    typed.set_result(os.read(self._terminal, 4096))
                except OSError:
                    typed.set_result(b"")

        loop.add_reader(self._terminal, on_input)
        try:
            return (await typed).decode(errors="replace").strip().lower()
        finally:
            loop.remove_reader(self._terminal)


def about_to_happen(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """What a call would do, in lines safe to print: the command, the diff, or the arguments."""
    if tool == "Bash":
        lines = str(arguments.get("command", "")).split("\n")
    elif tool == "Edit":
        old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
        diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:]
        everywhere = " (everywhere in it)" if arguments.get("replace_all") else ""
        lines = [f"{arguments.get('file_path', '')}{everywhere}", *diff]
    elif tool == "Write":
        content = str(arguments.get("content", "")).split("\n")
        lines = [str(arguments.get("file_path", "")), *(f"+{line}" for line in content)]
    else:
        lines = json.dumps(dict(arguments), indent=1, ensure_ascii=False, default=str).split("\n")
    return [safe_text(line).replace("\n", "\\n") for line in lines]


def _say(text: str) -> None:
    click.echo(text, err=True, nl=False)
