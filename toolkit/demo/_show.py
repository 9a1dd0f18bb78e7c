"""Run the demo and tell what happens, line by line."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from toolkit._base.files import state_home
from toolkit._base.words import cost_text, safe_line
from toolkit.demo._story import CONNECTED, PROMPT, SECRET, Fix, script
from toolkit.demo.tools import box
from toolkit.report import write_report
from toolkit.runs import Event, Limits, RunResult, load_run, start
from toolkit.sandbox import check, python_environment
from toolkit.workspace import HostMount, WorkspaceSection

Say = Callable[[str], None]
_LONGEST = 78


def demo(say: Say, *, live: bool = False, command: str = "toolkit") -> RunResult[Fix] | None:
    """Show the product at work; None where this machine cannot confine a run.

    `command` is what the reader types to get at the toolkit.
    """
    report = check(readable=python_environment())
    if not report.ok:
        _without_jail(say, report)
        return None
    with _host() as (project, secret, port):
        say(f"A project with a failing test: {project}")
        workspace = WorkspaceSection([HostMount(project, exclude_glob=("__pycache__/",))], [project.parent])
        plan = workspace.plan()
        say(f"The agent gets a copy: {plan.files} files, {plan.size} bytes; nothing else of the host.")
        say(f"The jail is proven first: {len(report.rows)} checks passed in {report.seconds:.1f} s.")
        say("")
        result = asyncio.run(_run(say, workspace, secret, port, live=live))
        _tell_result(say, result, command)
        return result


async def _run(say: Say, workspace: WorkspaceSection, secret: Path, port: int, *, live: bool) -> RunResult[Fix]:
    project = Path(workspace.places.start)
    with nullcontext() if live else script(project, secret, port) as api:
        reach: dict[str, Any] = {} if api is None else {"api_url": api.url, "api_key": "not-a-key"}
        limits = Limits(seconds=120, tokens=200_000)
        async with start(
            PROMPT, workspace=workspace, tools=[box], output=Fix, limits=limits, readable=python_environment(), **reach
        ) as running:
            narrator = _Narrator(say, secret, port)
            async for event in running:
                narrator.tell(event)
    return await running.result()


class _Narrator:
    """Tells the events of the run; what reaches for the host is marked by what came of it."""

    def __init__(self, say: Say, secret: Path, port: int) -> None:
        self._say = say
        self._bait = (str(secret), f"127.0.0.1', {port}")
        self._attempts: set[str] = set()

    def tell(self, event: Event) -> None:
        """One event, if it is worth a line."""
        data = event.data
        if event.name == "assistant.block" and data["type"] == "text":
            self._say(f"  says     {safe_line(data['text'], _LONGEST - 11)}")
        elif event.name == "tool.started":
            if any(bait in str(argument) for bait in self._bait for argument in data["arguments"].values()):
                self._attempts.add(event.id)
        elif event.name == "tool.ended":
            name = data["name"].removeprefix("mcp__shop__")
            self._say(f"  {self._mark(event):<8} {name:<17}{safe_line(data['text'], _LONGEST - 28)}")

    def _mark(self, event: Event) -> str:
        if event.id not in self._attempts:
            return "ok" if event.data["ok"] else "failed"
        text = event.data["text"]
        return "LEAKED" if SECRET in text or CONNECTED in text else "refused"


def _tell_result(say: Say, result: RunResult[Fix], command: str) -> None:
    report = write_report(load_run(result.run))
    say("")
    say(f"Result   {result.code}: {result.message} {result.ms / 1000:.1f} s")
    say(f"Output   {result.output}")
    calls = f"{len(result.calls)} model calls, {len(result.tools)} tool calls"
    say(f"Usage    {calls}, {result.total.total:,} tokens, {cost_text(result.cost, result.known_cost)}")
    if result.changes is not None:
        say("Changes  " + result.changes.summary().replace("\n", "\n         "))
    say(f"Look     {command} runs diff {result.run}")
    say(f"Take     {command} runs apply {result.run}")
    say(f"Report   {report}")
    say("")
    say("Now with a project of your own, and a key in ANTHROPIC_API_KEY:")
    say(f'         cd YOUR-PROJECT && {_from_elsewhere(command)} run "Make the failing test pass." --mount .')


def _from_elsewhere(command: str) -> str:
    """The same command for somebody in another folder."""
    return str(Path(command.split()[0]).absolute().parent / ".venv/bin/toolkit") if "/" in command else command


def _without_jail(say: Say, report: Any) -> None:
    say("This machine cannot confine an agent yet, so none is started:")
    for row in report.failed:
        say(f"  {row.rule}: {row.detail}")
        if row.fix:
            say(f"    {row.fix}")
    say("")
    say("The tools work all the same:")
    reply = asyncio.run(box.call("keep_decision", {"title": "install bubblewrap", "why": "then run the demo again"}))
    say(f"  toolkit call toolkit.demo.tools keep_decision …  →  {reply.text}")


@contextmanager
def _host() -> Iterator[tuple[Path, Path, int]]:
    """A project to work on, a secret beside it and an open port: the host, as far as the demo is concerned."""
    # The project stays, `toolkit runs apply` brings the change back to it, so it is kept where the runs are.
    project = state_home() / "demo" / "shop"
    if project.exists():
        shutil.rmtree(project)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(__file__).parent / "project", project, ignore=ignored)
    with (
        tempfile.TemporaryDirectory(prefix="toolkit-demo-") as elsewhere,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        secret = Path(elsewhere) / "secret.txt"
        secret.write_text(SECRET, encoding="utf-8")
        secret.chmod(0o600)
        yield project, secret, listener.getsockname()[1]
