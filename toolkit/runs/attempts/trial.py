"""A throw-away copy of the agent's files, to verify: at the same paths, in a jail of its own, without any way out.

Nothing of the agent lives any more when it is made, and nothing that is written in it comes back. What is
protected has the bytes in it that it had before the agent came.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from toolkit._base.words import safe_text
from toolkit.errors import RunError
from toolkit.runs.agents import shown_folders
from toolkit.runs.attempts.ground import Ground, make_ground
from toolkit.runs.attempts.protect import Protected
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place
from toolkit.sandbox import Jail, JailLimits, usable_readable
from toolkit.sandbox.commands import CommandEnd, JailCommand, shell


class TrialError(RunError):
    """The agent's files cannot be copied, so nothing can be said about them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command on a trial ended."""

    exit_code: int
    output: str
    """The end of what it printed, stdout and stderr together."""
    ended_by: str | None = None
    """`deadline`, or the limit of the machine that it was ended for; None where it ended by itself."""

    @property
    def passed(self) -> bool:
        """Whether it ended by itself, with exit code 0."""
        return self.exit_code == 0 and self.ended_by is None


@dataclass(frozen=True, slots=True)
class Trial:
    """What a function that verifies gets: the agent's files, in a copy that is thrown away afterwards.

    It is a path, too: `Path(ws)`, `ws / "src"`. The files are the agent's: never import or run them but with `run`.
    """

    folder: Path
    """The folder on the host behind the agent's working directory."""
    _command: Callable[[str, float | None], JailCommand] = field(repr=False)
    _most: int = field(repr=False)
    _loop: asyncio.AbstractEventLoop = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.folder)

    def __truediv__(self, below: str | os.PathLike[str]) -> Path:
        return self.folder / below

    def run(self, command: str, *, seconds: float | None = None) -> Ran:
        """Run a command on the files, in a jail without network; for functions that are not async.

        Raises:
            RunError: it was called in the event loop: await `arun` there.
            ToolkitError: the jail cannot be made.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(self.arun(command, seconds=seconds), self._loop).result()
        raise RunError("ws.run() blocks, and this is an async function", fix="Write: await ws.arun(…)")

    async def arun(self, command: str, *, seconds: float | None = None) -> Ran:
        """The same for async functions."""
        tail = Tail(self._most)
        asked = self._command(command, seconds)
        end = await JailCommand(asked.command, asked.jail, seconds=asked.seconds, on_output=tail.take).run()
        return Ran(end.exit_code, tail.text(), _ended_by(end))


def _ended_by(end: CommandEnd) -> str | None:
    if end.is_late:
        return "deadline"
    return None if end.exceeded is None else end.exceeded.limit


class Tail:
    """The last characters of an output."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = b""
        self._all = 0

    def take(self, piece: bytes) -> None:
        """The next piece."""
        self._all += len(piece)
        self._kept = (self._kept + piece)[-self._most * 4 :]

    def text(self) -> str:
        """What is kept of it, made safe; it says how much is left out before it."""
        return tail_of(self._kept.decode(errors="replace"), self._most, self._all - len(self._kept))


def tail_of(text: str, most: int, left_out: int = 0) -> str:
    """The end of a text, made safe."""
    safe = "\n".join(safe_text(line.rstrip("\r")) for line in text.split("\n")).strip("\n")
    hidden = max(0, len(safe) - most) + left_out
    return f"… ({hidden:,} characters before this)\n{safe[-most:]}" if hidden else safe


@asynccontextmanager
async def trial_of(spec: RunSpec, place: Place, protected: Protected, home: Path) -> AsyncIterator[Trial]:
    """A copy of what is in the place now, until the block ends.

    Raises:
        TrialError: it cannot be made.
    """
    assert spec.verify is not None
    ground = Ground(home / f"verify-{secrets.token_hex(4)}")
    most, seconds = spec.verify.max_output, spec.verify.deadline
    # A function is given the folder itself, and has to find everything in it.
    needs_all = not isinstance(spec.verify.check, str)
    try:
        making = asyncio.ensure_future(asyncio.to_thread(make_ground, ground, place, protected, needs_all=needs_all))
        try:
            await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait({making})
            raise
        except OSError as error:
            raise TrialError(f"the files cannot be copied to be verified: {error.strerror or error}") from error
        jail = _jail(spec, place, ground)

        def command(line: str, limit: float | None) -> JailCommand:
            return JailCommand(shell(line), jail, seconds=seconds if limit is None else limit)

        below = place.working_folder.relative_to(place.folder)
        yield Trial(ground.folder / below, command, most, asyncio.get_running_loop())
    finally:
        await asyncio.to_thread(ground.remove)


def _jail(spec: RunSpec, place: Place, ground: Ground) -> Jail:
    """The agent's jail, without the CLI, the gate and a credential; the copy stands where the agent's files stood."""
    layout = place.layout
    return Jail(
        workspace=ground.folder,
        below=ground.below,
        work=ground.work if ground.below else None,
        places=place.parts,
        start=place.start,
        readable=tuple(usable_readable(path, place.folder) for path in (*spec.readable, *shown_folders(spec))),
        lent=layout.lent,
        environment={"PATH": ":".join(layout.search_path), **layout.environment, **spec.env},
        limits=JailLimits(**spec.limits.of_the_machine()),
        require=tuple(spec.require),
    )
