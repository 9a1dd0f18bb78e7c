"""Run the demo and tell what happens, line by line."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolkit.demo.story import PROMPT, Fix, script
from toolkit.demo.tools import box
from toolkit.report import write_report
from toolkit.runs import Limits, RunResult, start
from toolkit.runs.stored import load_run
from toolkit.sandbox import check, python_environment
from toolkit.workspace import HostMount, WorkspaceSection

Say = Callable[[str], None]
_LONGEST = 78


def demo(say: Say, *, live: bool = False) -> RunResult[Fix] | None:
    """Show the product at work; None where this machine cannot confine a run."""
    report = check(readable=python_environment())
    if not report.ok:
        _without_jail(say, report)
        return None
    with _host() as (project, secret, port):
        say(f"A project with a failing test: {project}")
        workspace = WorkspaceSection([HostMount(project, exclude_glob=("__pycache__/",))], [project.parent])
        plan = workspace.plan()
        say(f"The agent gets a copy: {plan.total_files} files, {plan.total_bytes} bytes; nothing else of the host.")
        say(f"The jail is proven first: {len(report.rows)} checks passed in {report.seconds:.1f} s.")
        say("")
        return asyncio.run(_run(say, workspace, secret, port, live=live))


async def _run(say: Say, workspace: WorkspaceSection, secret: Path, port: int, *, live: bool) -> RunResult[Fix]:
    workspace.keep = True
    with workspace as ws:
        api = None if live else script(ws.temp_dir, secret, port).start()
        try:
            reach = {} if api is None else {"api_url": api.url, "api_key": "not-a-key"}
            options: dict[str, Any] = {**reach, "limits": Limits(seconds=120, tokens=200_000)}
            async with start(
                PROMPT, workspace=ws, tools=[box], output=Fix, readable=python_environment(), **options
            ) as running:
                async for event in running:
                    _narrate(say, event, secret)
                    if event.name == "lifecycle.finished":
                        break
                result = await running.result()
        finally:
            if api is not None:
                api.stop()
        _tell_result(say, result)
    return result


def _narrate(say: Say, event: Any, secret: Path) -> None:
    data = event.data
    if event.name == "assistant.block" and data["type"] == "text":
        say(f"  says     {_line(data['text'])}")
    elif event.name == "tool.ended":
        mark = "refused" if _was_refused(data, secret) else "ok" if data["ok"] else "failed"
        said = data["text"].replace("\n", " ").strip()
        say(f"  {mark:<8} {data['name'].removeprefix('mcp__shop__'):<14} {_line(said, _LONGEST - 26)}")


def _was_refused(data: dict[str, Any], secret: Path) -> bool:
    said = data["text"]
    return data["denied"] or str(secret) in said or "Error" in said.split(":")[0] or "denied" in said


def _tell_result(say: Say, result: RunResult[Fix]) -> None:
    report = write_report(load_run(result.run), Path(tempfile.gettempdir()) / f"{result.run}.html")
    say("")
    say(f"Result   {result.code}: {result.message} {result.ms / 1000:.1f} s")
    say(f"Output   {result.output}")
    calls = f"{len(result.calls)} model calls, {len(result.tools)} tool calls"
    say(f"Usage    {calls}, {result.total.total:,} tokens, ${result.cost:.4f}")
    if result.changes is not None:
        say("Changes  " + result.changes.summary().replace("\n", "\n         "))
    say(f"Look     toolkit runs diff {result.run}")
    say(f"Take     toolkit runs apply {result.run}")
    say(f"Report   {report}")


def _without_jail(say: Say, report: Any) -> None:
    say("This machine cannot confine an agent yet, so none is started:")
    for row in report.failed:
        say(f"  {row.what}: {row.found}")
        if row.fix:
            say(f"    {row.fix}")
    say("")
    say("The tools work all the same:")
    reply = asyncio.run(box.call("keep_decision", {"title": "install bubblewrap", "why": "then run the demo again"}))
    say(f"  toolkit call toolkit.demo.tools keep_decision …  →  {reply.text}")


@contextmanager
def _host() -> Iterator[tuple[Path, Path, int]]:
    """A project to work on, a secret beside it and an open port: the host, as far as the demo is concerned."""
    folder = Path(tempfile.mkdtemp(prefix="toolkit-demo-"))
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        project = folder / "project"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).parent / "project", project, ignore=ignored)
        secret = folder / "secret.txt"
        secret.write_text("the host's secret\n", encoding="utf-8")
        os.chmod(secret, 0o600)
        yield project, secret, listener.getsockname()[1]
    finally:
        listener.close()
        # The project stays: `toolkit runs apply` brings the change back to it.
        (folder / "secret.txt").unlink(missing_ok=True)


def _line(text: str, width: int = _LONGEST - 11) -> str:
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
