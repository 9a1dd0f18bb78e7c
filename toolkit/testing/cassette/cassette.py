"""Keep a real run as a file and play it again without a CLI.

A cassette is JSON lines: a first line `{"cassette": 1}`, then every frame with
the side it went to, then how the CLI ended. `record` writes one while a run goes
on, without secrets; `replay` is a `FakeCLI` that says what the CLI said then and
waits where it waited. Hooks, approvals and in-process tools run for real again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from toolkit._base.files import write_whole
from toolkit.errors import TestingError
from toolkit.testing.cassette import _tape
from toolkit.testing.fake_cli import FakeCLI, Frame
from toolkit.testing.real_cli import find_cli

_PATIENCE = 5.0


@contextmanager
def record(path: str | os.PathLike[str], options: ClaudeAgentOptions) -> Iterator[ClaudeAgentOptions]:
    """Write the run made with the yielded options to a cassette.

    One run for one cassette. Keys, tokens and the account are taken out before anything is written;
    what the tools read and the model said is kept, so look at a cassette before you publish it.

    Raises:
        TestingError: the folder is missing, the CLI is, or nothing was run.
    """
    cassette = Path(path).absolute()
    if not cassette.parent.is_dir():
        raise TestingError(f"there is no folder {cassette.parent} for the cassette", fix="Make it first.")
    cli = find_cli(options.cli_path)
    folder = Path(tempfile.mkdtemp(prefix="toolkit-tape-"))
    try:
        written = folder / "cassette.jsonl"
        launcher = folder / "claude"
        command = shlex.join([sys.executable, "-I", "-S", str(_tape.__file__), str(written), str(cli)])
        write_whole(launcher, f'#!/bin/sh\nexec {command} "$@"\n', mode=0o700)
        yield replace(options, cli_path=launcher)
        if not written.exists():
            raise TestingError("nothing was recorded", fix="Run a prompt with the options that record() gives.")
        shutil.copyfile(written, cassette)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replay(path: str | os.PathLike[str]) -> FakeCLI:
    """A `FakeCLI` that plays a cassette.

    Raises:
        TestingError: the file is no cassette, or is cut short; `line` says where.
    """
    return _Replay(_read(Path(path)), str(path))


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    to: str
    """`sdk` (the CLI says it), `cli` (the SDK does), `end` (stdin was closed) or `exit`."""
    frame: Frame
    code: int = 0


class _Replay(FakeCLI):
    """Plays the lines of a cassette; ids the SDK makes up anew are put in place of the recorded ones."""

    def __init__(self, lines: list[_Line], path: str) -> None:
        super().__init__(strict=False)
        self._lines = lines
        self._path = path

    async def connect(self) -> None:
        """Begin at the first line."""
        self._heard: list[Frame] = []
        self._spoken = asyncio.Event()
        self._ids: dict[str, str] = {}
        await super().connect()

    def _take(self, frame: Frame) -> None:
        self._heard.append(frame)
        self._spoken.set()

    async def end_input(self) -> None:
        """Stdin is closed."""
        self._take({"type": "end"})

    async def _play(self) -> int:
        for line in self._lines:
            match line.to:
                case "sdk":
                    self.emit(self._with_new_ids(line.frame))
                case "exit":
                    return line.code
                case _:
                    await self._expect(line)
        raise AssertionError("a cassette ends with its exit")

    async def _expect(self, line: _Line) -> None:
        """Wait until the SDK says what it said then."""
        wanted = line.frame
        # The end of input comes when the test is done, however long that takes; everything else is owed now.
        deadline = None if line.to == "end" else asyncio.get_running_loop().time() + _PATIENCE
        while (heard := next((frame for frame in self._heard if _kind(frame) == _kind(wanted)), None)) is None:
            self._spoken.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._spoken.wait()
            except TimeoutError:
                raise self._left(line) from None
        self._heard.remove(heard)
        if wanted["type"] == "control_request":
            self._ids[wanted["request_id"]] = heard["request_id"]

    def _left(self, line: _Line) -> TestingError:
        waiting = [_describe(frame) for frame in self._heard] or ["nothing"]
        return TestingError(
            f"the run left the cassette at line {line.number}: {_describe(line.frame)} did not come",
            where=[self._path, f"instead: {', '.join(waiting)}"],
            fix="Do what was done when it was recorded, or record it again.",
            line=line.number,
        )

    def _with_new_ids(self, frame: Frame) -> Frame:
        if frame["type"] != "control_response":
            return frame
        recorded = frame["response"]["request_id"]
        return {**frame, "response": {**frame["response"], "request_id": self._ids.get(recorded, recorded)}}


def _kind(frame: Frame) -> tuple[Any, ...]:
    """What two frames have in common that mean the same: a request its subtype, an answer the id of its request."""
    return frame["type"], frame.get("request", {}).get("subtype"), frame.get("response", {}).get("request_id")


def _describe(frame: Frame) -> str:
    match frame["type"]:
        case "user":
            return f"the prompt {json.dumps(frame.get('message', {}).get('content'))}"[:120]
        case "control_request":
            return f"the request {frame['request']['subtype']!r}"
        case "control_response":
            return f"the answer to request {frame['response']['request_id']}"
        case "end":
            return "the end of input"
        case kind:
            return f"a frame of type {kind!r}"


def _read(path: Path) -> list[_Line]:
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TestingError(
            f"the cassette {path} cannot be read: {error}", fix="Give a file that record() wrote."
        ) from error
    lines: list[_Line] = []
    asked: set[str] = set()
    for number, row in enumerate(rows, 1):
        try:
            line = _line(number, json.loads(row), asked)
            if line is not None:
                if lines and lines[-1].to == "exit":
                    raise ValueError("nothing may follow the exit")
                lines.append(line)
        except ValueError as error:
            raise _bad(path, number, str(error), row if len(row) <= 120 else row[:117] + "...") from None
    if not lines or lines[-1].to != "exit":
        raise _bad(path, len(rows) + 1, 'it is cut short: there is no last line {"exit": CODE}', "(end of file)")
    return lines


def _line(number: int, row: Any, asked: set[str]) -> _Line | None:
    if not isinstance(row, dict):
        raise ValueError("a line is one JSON object")
    if number == 1:
        if row.get("cassette") != _tape.VERSION:
            raise ValueError(f'the first line has to be {{"cassette": {_tape.VERSION}}}')
        return None
    if "exit" in row:
        if not isinstance(row["exit"], int):
            raise ValueError("the exit code is a number")
        return _Line(number, "exit", {}, row["exit"])
    if row.get("to") not in ("cli", "sdk"):
        raise ValueError('a line says where it goes: "to" is "cli" or "sdk"')
    if row.get("end"):
        return _Line(number, "end", {"type": "end"})
    if "text" in row:
        return None  # something the CLI printed that is no frame: the SDK skips it too
    frame = row.get("frame")
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise ValueError('a line needs a "frame" with a "type"')
    _check_ids(frame, asked)
    return _Line(number, row["to"], frame)


def _check_ids(frame: Frame, asked: set[str]) -> None:
    if frame["type"] == "control_request":
        request = frame.get("request")
        if not isinstance(frame.get("request_id"), str) or not isinstance(request, dict) or "subtype" not in request:
            raise ValueError('a control_request needs a "request_id" and a "request" with a "subtype"')
        asked.add(frame["request_id"])
    if frame["type"] == "control_response":
        response = frame.get("response")
        if not isinstance(response, dict) or response.get("request_id") not in asked:
            raise ValueError("this answers a request that no line before it makes")


def _bad(path: Path, number: int, what: str, row: str) -> TestingError:
    return TestingError(
        f"the cassette cannot be played: line {number}: {what}",
        where=[f"{path}:{number}  {row}"],
        fix="Record it again, or mend the line.",
        line=number,
    )
