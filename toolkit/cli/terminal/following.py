"""Follow a run at a terminal: show it, ask about its calls, and end it when somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import termios
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import click

from toolkit._base.words import count_text, safe_line, safe_text
from toolkit.cli.terminal.display import Display
from toolkit.cli.terminal.questions import about_to_happen
from toolkit.runs import Decision, Event, LiveRun, Question, RunResult, RunSpec, load_run, start

_SECOND = 1.0
_ANSWERS = {
    "yes": "ALLOW_ONCE",
    "no": "DENY",
    "session": "ALLOW_SESSION",
    "project": "ALLOW_PROJECT",
    "always": "ALLOW_ALWAYS",
}
_KEYS = {**_ANSWERS, **{word[0]: decision for word, decision in _ANSWERS.items()}, "once": "ALLOW_ONCE"}
"""What may be typed: a word, or its first letter."""
_MOST_LINES = 40
_TRIES = 5


async def follow(
    spec: RunSpec,
    *,
    terminal: int | None,
    print_line: Callable[[str], bool] | None = None,
    printed_to: int | None = None,
) -> RunResult[Any]:
    """See a run through: its tool calls on stderr, or every event to `print_line`.

    `terminal` is where a person can be asked. `print_line` says False when nobody reads any more; of `printed_to`, the
    pipe it writes to, that is noticed at once, also while there is nothing to print.

    Raises:
        ToolkitError: the run cannot be as asked.
    """
    display = Display(terminal=sys.stderr.isatty(), asks_here=terminal is not None)
    if terminal is not None:
        spec = replace(spec, approve=TerminalApprover(terminal, display))
    live = start(spec)
    keys = _Keys(live)
    is_heard = True

    def nobody_reads() -> None:
        nonlocal is_heard
        if is_heard:
            is_heard = False
            keys.press("nobody reads the events any more: interrupting")

    def tell(event: Event) -> None:
        if event.name == "lifecycle.started" and not keys.has_begun:
            keys.has_begun = True
            if print_line is None:
                display.show_lent(load_run(live.id, spec.home).facts)
        if print_line is None:
            display.show(event)
        elif is_heard and not print_line(event.to_json()):
            nobody_reads()

    ticking = asyncio.create_task(_tick(display))
    try:
        with _noticing(printed_to, nobody_reads):
            async with live:
                async for event in live:
                    tell(event)
                    if event.name == "lifecycle.finished":
                        break
            async for event in live:  # what is known only once the jail is gone: warnings, the branch
                tell(event)
    except asyncio.CancelledError:
        if not keys.ended_it:
            raise
    finally:
        ticking.cancel()
        display.close()
    return await live.result()


class _Keys:
    """Ctrl-C once ends the turn and keeps what it gave; twice ends the run; a third time, the process."""

    def __init__(self, live: LiveRun[Any]) -> None:
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._interrupting: asyncio.Task[None] | None = None
        self.has_begun = False
        self.ended_it = False
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self.press)

    def press(self, why: str = "interrupting; Ctrl-C again ends it at once") -> None:
        """One more Ctrl-C."""
        assert self._main is not None
        if self.ended_it:
            os._exit(130)  # the jail dies with this process, and the stored run shows as crashed
        if self._interrupting is None and self.has_begun:
            click.echo(f"\r{why}", err=True)
            self._interrupting = self._loop.create_task(self._interrupt())
            return
        self.ended_it = True
        self._main.cancel()

    async def _interrupt(self) -> None:
        with contextlib.suppress(Exception):  # it has ended by itself meanwhile
            await self._live.interrupt()


@contextlib.contextmanager
def _noticing(pipe: int | None, on_gone: Callable[[], None]) -> Iterator[None]:
    """Call `on_gone` as soon as nobody reads from a pipe any more; nothing else tells."""
    if pipe is None or not stat.S_ISFIFO(os.fstat(pipe).st_mode):
        yield
        return
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(pipe)
        on_gone()

    loop.add_reader(pipe, gone)  # nothing can be read where one writes: only its breaking is told
    try:
        yield
    finally:
        loop.remove_reader(pipe)


async def _tick(display: Display) -> None:
    while True:
        await asyncio.sleep(_SECOND)
        display.tick()


class TerminalApprover:
    """Asks the person at a terminal, one question after the other, showing what is about to happen.

    Whatever was typed before the question is thrown away, so that no stray key answers
    it. Reading waits in the event loop and not in a thread: a run that ends meanwhile
    takes its question back.
    """

    def __init__(self, terminal: int, display: Display) -> None:
        self._terminal = terminal
        self._display = display
        self._turn = asyncio.Lock()

    async def __call__(self, question: Question) -> Decision:
        """The person's decision; the run goes on meanwhile."""
        async with self._turn:
            self._display.hold()
            try:
                if question.form is not None:
                    from toolkit.cli.terminal.forms import fill_in

                    _say(f"\n{safe_text(question.title)}\n")
                    return await fill_in(question.form, self._say_afresh, self._typed)
                return Decision(await self._ask(question))  # type: ignore[arg-type]
            finally:
                self._display.go_on()

    async def _ask(self, question: Question) -> str:
        lines = about_to_happen(question.tool, question.input)
        _say(f"\n{safe_text(question.tool)} ({safe_text(question.reason)})\n")
        _say("".join(f"  {line}\n" for line in lines[:_MOST_LINES]))
        hidden = len(lines) - _MOST_LINES
        if hidden > 0:
            _say(f"  … {count_text(hidden, 'more line')}: v shows all\n")
        what = safe_line(question.remembers, 80)
        keys = f"y = once; n = no; to remember {what}: s = in this session, p = in this project, a = always"
        for _ in range(_TRIES):
            self._say_afresh(f"Run it? {keys} [n] ")
            answer = (await self._typed() or "").strip().lower()
            if answer in _KEYS:
                return _KEYS[answer]
            if answer == "v":
                _say("".join(f"  {line}\n" for line in lines))
            elif not answer:
                break
        return "DENY"

    def _say_afresh(self, text: str) -> None:
        """Ask, and forget what was typed before the question could be seen."""
        with contextlib.suppress(termios.error):
            termios.tcflush(self._terminal, termios.TCIFLUSH)
        _say(text)

    async def _typed(self) -> str | None:
        """The next line that is typed, without its end; None at the end of the input."""
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
            line = await typed
            return line.decode(errors="replace").rstrip("\r\n") if line else None
        finally:
            loop.remove_reader(self._terminal)


def _say(text: str) -> None:
    click.echo(text, err=True, nl=False)
