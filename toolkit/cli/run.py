"""`toolkit run`: an agent, unattended and confined, from one command."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli._help import CommandWithExample
from toolkit.cli._units import Duration

if TYPE_CHECKING:
    from toolkit.runs import LiveRun, RunResult, RunSpec
    from toolkit.tools import Toolbox

EXAMPLE = """
$ toolkit run "Make the failing test pass." --mount src --deadline 10m --max-usd 2 --tools notes.py
$ echo "List what is unclear." | toolkit run - --mount docs --mode read-only --json
"""


@click.command(cls=CommandWithExample, example=EXAMPLE)
@click.argument("prompt")
@click.option("--mount", "mounts", multiple=True, metavar="PATH[:TARGET]", help="Copy this into the workspace.")
@click.option(
    "--allow-root", "roots", multiple=True, default=(".",), show_default=True, help="Where mounts may come from."
)
@click.option("--exclude", "excludes", multiple=True, metavar="PATTERN", help="Leave behind, as in a .gitignore.")
@click.option("--gitignore", is_flag=True, help="Also leave behind what .gitignore files say.")
@click.option("--tools", "targets", multiple=True, metavar="TARGET", help="Tools of your own, as for 'serve'.")
@click.option(
    "--ready", "ready", multiple=True, metavar="NAME", help="A ready-made server: planning, files, notes, workspace."
)
@click.option("--deadline", type=Duration(), metavar="TIME", help="Wall-clock limit: 90s, 10m, 1h.")
@click.option("--max-usd", type=float, help="Cost limit in dollars.")
@click.option("--max-tokens", type=int, help="Limit on all tokens together.")
@click.option("--max-turns", type=int, help="Limit on model calls that ask for tools.")
@click.option("--model", help="The model; the CLI's default if not given.")
@click.option("--output-schema", type=click.Path(exists=True, dir_okay=False), help="A JSON Schema for the output.")
@click.option("--profile", default="offline", show_default=True, help="Confinement: offline, allowlist, read-only.")
@click.option("--allow-domain", "domains", multiple=True, help="A host that commands may reach, with allowlist.")
@click.option("--mode", default="yolo", show_default=True, help="yolo, normal (asks you), or read-only.")
@click.option("--ask-elsewhere", is_flag=True, help="Wait for 'toolkit approvals answer' instead of asking here.")
@click.option("--keep-workspace/--drop-workspace", default=True, show_default=True, help="Keep the copy afterwards.")
@click.option("--json", "wants_json", is_flag=True, help="Print the result as JSON.")
@click.option("--stream-json", is_flag=True, help="Print every event as a line of JSON, the result last.")
def run(**given: Any) -> None:
    """Run an agent on PROMPT, confined, and print what it says.

    PROMPT is text, or - to read it from stdin. The agent works in a copy; 'toolkit runs apply'
    takes its changes back. Ctrl-C ends the turn and keeps the result; a second one ends it at
    once. Exit code: 0 done, 1 failed, 2 mistyped, 3 a limit was reached, 4 not confined.
    """
    from toolkit.cli._run_display import summary

    result = asyncio.run(_follow(_spec(given), given))
    data = result.to_data()
    if given["wants_json"]:
        click.echo(json.dumps(data, indent=1, ensure_ascii=False, default=str))
    elif given["stream_json"]:
        click.echo(json.dumps({"result": data}, ensure_ascii=False, default=str))
    else:
        click.echo(result.text if result.output is None else json.dumps(data["output"], default=str))
    for line in summary(result):
        click.echo(line, err=True)
    if result.code == "unconfined" and result.debug.get("detail"):
        click.echo(result.debug["detail"], err=True)
    if not given["keep_workspace"]:
        _drop(result)
    sys.exit(exit_code(result))


def exit_code(result: RunResult[Any]) -> int:
    """0 done, 1 failed, 3 a limit was reached, 4 not confined."""
    from toolkit.runs.codes import LIMIT_CODES

    if result.ok:
        return 0
    return 4 if result.code == "unconfined" else 3 if result.code in LIMIT_CODES else 1


def _spec(given: dict[str, Any]) -> RunSpec:
    from toolkit.runs import Limits, RunSpec

    prompt = sys.stdin.read() if given["prompt"] == "-" else given["prompt"]
    schema = given["output_schema"]
    workspace = _workspace(given)
    return RunSpec(
        prompt,
        workspace=workspace,
        tools=[*given["targets"], *(_ready(name, workspace) for name in given["ready"])],
        limits=Limits(
            seconds=given["deadline"], usd=given["max_usd"], tokens=given["max_tokens"], turns=given["max_turns"]
        ),
        output=_schema(Path(schema)) if schema else None,
        model=given["model"],
        profile=given["profile"],
        domains=given["domains"],
        mode=given["mode"],
        approve=_approver(given),
    )


def _ready(spec: str, workspace: Any) -> Toolbox:
    """A ready-made server; files and workspace without a path are about the workspace of this run."""
    from toolkit_servers.ready import load_ready, load_ready_spec

    if spec == "workspace" and workspace is not None:
        return load_ready(spec, section=workspace)
    return load_ready_spec(spec, Path.cwd())


def _workspace(given: dict[str, Any]) -> Any:
    from toolkit.workspace import HostMount, WorkspaceSection

    if not given["mounts"]:
        return None
    mounts = []
    for text in given["mounts"]:
        host, colon, target = text.rpartition(":") if ":" in text else (text, "", "")
        excludes, gitignore = given["excludes"], given["gitignore"]
        mounts.append(HostMount(host, target if colon else None, exclude_glob=excludes, gitignore=gitignore))
    return WorkspaceSection(mounts, allowed_host_roots=given["roots"])


def _schema(path: Path) -> dict[str, Any]:
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(schema, dict):
            raise ValueError("a JSON Schema is an object")
    except ValueError as error:
        raise click.UsageError(f"--output-schema {path}: {error}") from None
    return schema


def _approver(given: dict[str, Any]) -> Any:
    if given["ask_elsewhere"]:
        return "wait"
    if given["mode"] == "yolo" or not sys.stdin.isatty():
        return None
    from toolkit.cli._ask import ask_on_terminal

    return ask_on_terminal


async def _follow(spec: RunSpec, given: dict[str, Any]) -> RunResult[Any]:
    from toolkit.cli._run_display import Display
    from toolkit.runs import start

    display = Display(terminal=sys.stderr.isatty())
    async with start(spec) as live:
        _interrupt_on_ctrl_c(live)
        async for event in live:
            if given["stream_json"]:
                click.echo(event.to_json())
            else:
                display.show(event)
            if event.name == "lifecycle.finished":
                break
        return await live.result()


def _interrupt_on_ctrl_c(live: LiveRun[Any]) -> None:
    """Once: end the turn and keep what it gave. Twice: end the process, and the jail with it."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    pressed: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        if pressed:
            main.cancel()
            return
        click.echo("interrupting; press Ctrl-C again to end it at once", err=True)
        pressed.append(loop.create_task(live.interrupt()))

    loop.add_signal_handler(signal.SIGINT, on_signal)


def _drop(result: RunResult[Any]) -> None:
    from toolkit.runs.stored import load_run

    load_run(result.run).drop_workspace()
