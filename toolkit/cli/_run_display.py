"""What a person sees of a run: a line for each tool call as it ends, then the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli._units import shown_duration

if TYPE_CHECKING:
    from toolkit.runs import Event, RunResult

_WIDTH = 64


class Display:
    """Prints to stderr; on a terminal the tool under way has a line of its own that is replaced."""

    def __init__(self, *, terminal: bool, say: Callable[..., None] = click.echo) -> None:
        self._terminal = terminal
        self._say = say
        self._tokens = 0

    def show(self, event: Event) -> None:
        """One event, as far as it is worth a line."""
        data = event.data
        if event.name == "lifecycle.started":
            self._line(f"{event.run}  {data.get('model')}  confined to {data.get('cwd')}")
        elif event.name == "usage.call":
            self._tokens += sum(data[name] for name in ("input", "output", "cache_read", "cache_write"))
        elif event.name == "tool.started" and self._terminal:
            self._say(_fit(f"… {_call(data)}"), err=True, nl=False)
        elif event.name == "tool.ended":
            self._tool(data)
        elif event.name == "lifecycle.warning":
            self._line(f"warning: {data['what']}")
        elif event.name == "lifecycle.retry":
            self._line(f"the model API did not answer ({data.get('status')}); trying again")

    def _tool(self, data: dict[str, Any]) -> None:
        mark = "ok" if data["ok"] else "refused" if data["denied"] else "failed"
        line = f"{mark:<8}{data['name']:<28} {shown_duration(data['ms']):>9}  {self._tokens:>9,} tokens"
        self._line(click.style(line, fg=None if data["ok"] else "red") if self._terminal else line)

    def _line(self, text: str) -> None:
        self._say(("\r\x1b[K" if self._terminal else "") + text, err=True)


def summary(result: RunResult[Any]) -> list[str]:
    """The lines that end a run."""
    counts = f"{len(result.calls)} model calls, {len(result.tools)} tool calls"
    used = f"{result.total.total:,} tokens, ${result.cost:.4f}"
    lines = [f"{result.code}: {result.message}", f"{shown_duration(result.ms)}, {counts}, {used}"]
    lines += [f"refused: {denied.name}: {denied.reason}" for denied in result.denied]
    lines += [f"not enforced here: {name}" for name in result.unenforced]
    if result.changes is not None and result.changes:
        lines += ["", result.changes.summary(), "", f"Look: toolkit runs diff {result.run}"]
        lines += [f"Take: toolkit runs apply {result.run}"]
    return lines


def _call(data: dict[str, Any]) -> str:
    arguments = data.get("arguments") or {}
    first = next((str(value) for value in arguments.values()), "")
    return f"{data['name']} {first}"


def _fit(text: str) -> str:
    """One line of visible characters: a tool's arguments are the model's words, and may hold anything."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"
