"""`toolkit run`: an agent, unattended and confined, from one command."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_text
from toolkit.cli.starting.agent import model_of, model_options, read_object, tool_options, tools_of
from toolkit.cli.starting.bounds import bounds_of, confinement_options, limit_options
from toolkit.cli.starting.job import job_of, job_options
from toolkit.cli.starting.place import file_options, place_options, surroundings_of, workspace_of
from toolkit.cli.starting.setting_up import setup_of, setup_options
from toolkit.cli.starting.talking import asking_of, asking_options, conversation_of, conversation_options
from toolkit.cli.terminal.command import command, json_option, with_options
from toolkit.cli.terminal.own_words import in_own_words
from toolkit.cli.terminal.project import config_options, person_at, project_of
from toolkit.cli.terminal.results import as_json, take_stdout, write_result
from toolkit.errors import SandboxError, ToolkitError, UnconfinedError

if TYPE_CHECKING:
    from toolkit.runs import ProjectFile, RunResult, RunSpec
    from toolkit.telemetry import Telemetry

_PATIENCE = 300.0
"""Seconds that a run in mode yolo waits for the person at the terminal."""
_LONGEST_NAME = 200
"""A longer prompt is no file's name."""
EXAMPLE = """
$ toolkit run "Make the failing test pass." --mount src --deadline 10m --max-usd 2 --tools notes.py
$ echo "List what is unclear." | toolkit run - --mount docs --mode read-only --json
"""


prompt_options = with_options(
    click.option(
        "--prompt-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Read the prompt from a file.",
    ),
    click.option(
        "--image",
        "images",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A picture that goes with the prompt.",
    ),
    click.option("--system", metavar="TEXT", help="Added to the CLI's system prompt."),
    click.option(
        "--output-schema",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A JSON Schema for the output.",
    ),
    title="Prompt and output",
)
end_options = with_options(
    click.option("--branch", metavar="NAME", help="Make a branch of the work at the end, if it is verified or ok."),
    click.option(
        "--keep-workspace/--drop-workspace", default=True, show_default=True, help="Keep the copy afterwards."
    ),
    click.option("--otel", is_flag=True, help="Send traces and metrics to a collector, by the OTEL_… variables."),
    click.option("--trace", metavar="ID", help="An id of yours that every event carries."),
    click.option("--plan", "wants_plan", is_flag=True, help="Say what the agent would have, and start nothing."),
    json_option("Print the result, or the plan, as JSON."),
    click.option("--stream-json", is_flag=True, help="Print every event as a line of JSON, the result last."),
    title="What comes out",
)


@command(example=EXAMPLE)
@click.argument("prompt", required=False)
@prompt_options
@file_options
@place_options
@setup_options
@job_options
@tool_options
@model_options
@limit_options
@confinement_options
@asking_options
@conversation_options
@config_options
@end_options
def run(**given: Any) -> None:
    """Run an agent on PROMPT, confined, and print what it says.

    PROMPT is text, or - to read it from stdin. The agent works in a copy of what is mounted;
    'toolkit runs apply' takes its changes back. Ctrl-C ends the turn and keeps the result; a second one ends it at
    once. With --plan nothing is copied, started or sent, and no key is needed.
    What a project's toolkit.toml says holds as well, once you have accepted it; options win over it.
    Exit code: 0 done, 1 failed, 2 usage error, 3 a limit was reached, 4 not confined.
    """
    stdout = take_stdout()
    import asyncio

    from toolkit.cli.terminal.following import follow

    project = project_of(given)
    spec = spec_of(given, project)
    print_line = (lambda line: write_result(stdout, line)) if given["stream_json"] else None
    try:
        if given["wants_plan"]:
            write_result(stdout, _plan(spec, wants_json=given["wants_json"]))
            return
        try:
            if spec.telemetry is not None:
                spec.telemetry.become_default()  # so that what --tools make of their own arrives, too
            asked_at = None if given["ask_elsewhere"] else _person_for(spec)
            spec = spec if asked_at is None else _patient(spec)
            result = asyncio.run(
                follow(
                    spec, terminal=asked_at, print_line=print_line, printed_to=stdout.fileno() if print_line else None
                )
            )
        finally:
            if spec.telemetry is not None:
                spec.telemetry.close()
    except ToolkitError as error:
        _forget_refused(spec)
        if _is_mistyped(error):
            raise click.UsageError(in_own_words(error, given)) from None
        raise
    text = _printed(result, given, terminal=stdout.isatty())
    if text:
        write_result(stdout, text)
    from toolkit.cli.runs.clean import tidy_afterwards
    from toolkit.cli.terminal.display import summary

    for line in summary(result, kept=given["keep_workspace"]):
        click.echo(line, err=True)
    if not given["keep_workspace"]:
        from toolkit.runs import load_run

        load_run(result.run).drop_workspace()
    tidy_afterwards()
    sys.exit(_exit_code(result))


def _forget_refused(spec: RunSpec) -> None:
    """Remove what is stored of a run that could not be as asked: nothing of it happened, and all of it was just said.

    So 'last' stays the run before it.
    """
    from toolkit.runs import load_run

    with contextlib.suppress(ToolkitError):  # it has no folder yet, or one that somebody uses
        run = load_run(spec.run_id)
        result = run.result()
        if result.code == "bad_request" and not result.calls:
            run.remove(forgetting=False)


def _is_mistyped(error: ToolkitError) -> bool:
    """Whether a run was refused for what it was given, and not for the machine it would be on."""
    return error.exit_code == 2 or (isinstance(error, SandboxError) and not isinstance(error, UnconfinedError))


def _plan(spec: RunSpec, *, wants_json: bool) -> str:
    """What the agent would have."""
    from toolkit.cli.terminal.planned import plan_lines
    from toolkit.runs import plan_run

    plan = plan_run(spec)
    return as_json(plan.to_json()) if wants_json else "\n".join(plan_lines(plan))


def _exit_code(result: RunResult[Any]) -> int:
    """0 done, 1 failed, 3 a limit was reached, 4 not confined."""
    from toolkit.runs.outcome import LIMIT_CODES

    if result.ok:
        return 1 if result.delivery is not None and not result.delivery["branches"] else 0
    return 4 if result.code == "unconfined" else 3 if result.code in LIMIT_CODES else 1


def _printed(result: RunResult[Any], given: dict[str, Any], *, terminal: bool) -> str:
    """What goes to stdout at the end."""
    from toolkit.runs.outcome import as_line

    data = {**result.to_data(), "changes": None if result.changes is None else result.changes.to_json()}
    if given["stream_json"]:
        return as_line({"result": data})
    if given["wants_json"]:
        return as_json(json.loads(as_line(data)))
    if result.output is not None:
        return as_line(data["output"])
    return safe_text(result.text) if terminal else result.text


def spec_of(given: dict[str, Any], project: ProjectFile | None = None, prompt: str | None = None) -> RunSpec:
    """What was asked for, by the options and by the project file, all of it checked; `prompt` in place of theirs."""
    from toolkit import Image
    from toolkit.runs import ProjectFileError, RunSpec

    has_none = given["prompt"] is None and given["prompt_file"] is None
    if prompt is None:
        prompt = "(none)" if given["wants_plan"] and has_none else _prompt(given["prompt"], given["prompt_file"])
    try:
        options = _options(given, project)
        if project is not None:
            options = project.options(**options)
        return RunSpec([prompt, *map(Image, given["images"])] if given["images"] else prompt, **options)
    except ProjectFileError:
        raise
    except ToolkitError as error:
        raise click.UsageError(in_own_words(error, given)) from None


def _options(given: dict[str, Any], project: ProjectFile | None) -> dict[str, Any]:
    """The options of the run that were given; what is None or empty was not."""
    from toolkit.workspace import WorkspaceSection

    workspace, schema = workspace_of(given, project), given["output_schema"]
    options = {
        "workspace": workspace,
        "setup": setup_of(given, project),
        "output": None if schema is None else read_object("--output-schema", schema, "a JSON Schema"),
        "system": given["system"],
        **tools_of(given, workspace if isinstance(workspace, WorkspaceSection) else None),
        **model_of(given),
        **bounds_of(given),
        **job_of(given, project),
        **surroundings_of(given),
        **asking_of(given),
        **conversation_of(given),
        "branch": given["branch"],
        "trace": given["trace"],
        "telemetry": telemetry_of(given),
    }
    return {name: value for name, value in options.items() if value is not None}


def _prompt(words: str | None, file: str | None) -> str:
    """The prompt, from wherever it comes."""
    if (words is None) == (file is None):
        what = "there is no prompt" if words is None else "PROMPT and --prompt-file are both given"
        raise click.UsageError(f"{what}: write PROMPT, - for stdin, or --prompt-file FILE")
    if file is not None:
        try:
            return Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise click.UsageError(f"--prompt-file {file}: it is no UTF-8 text") from None
    assert words is not None
    if _is_file(words):
        raise click.UsageError(f"PROMPT is '{words}', which is a file: did you mean --prompt-file {quote(words)}?")
    try:
        prompt = sys.stdin.read() if words == "-" else words
        prompt.encode()  # how bytes that are no text are read depends on the locale
    except UnicodeError:
        raise click.UsageError(f"{'stdin' if words == '-' else 'PROMPT'}: it is no UTF-8 text") from None
    return prompt


def _is_file(words: str) -> bool:
    """Whether a file is called so; what is too long for a name, or behind a folder that is closed, is a prompt."""
    try:
        return len(words) < _LONGEST_NAME and "\n" not in words and Path(words).is_file()
    except OSError:
        return False


def telemetry_of(given: Mapping[str, Any]) -> Telemetry | None:
    """Where traces and metrics go; None where nobody wants them."""
    if not given["otel"] or given["wants_plan"]:
        return None
    from toolkit.telemetry import Telemetry

    return Telemetry.otlp()


def _is_attended(spec: RunSpec) -> bool:
    """Whether somebody said that there will be questions."""
    return spec.mode != "yolo" or "ask" in spec.policy.values()


def _person_for(spec: RunSpec) -> int | None:
    """Where the person can be asked; None where nobody is there.

    Also where nobody said that there will be questions: a tool that a server changed needs approval whatever the
    mode, and a tool may ask by itself. A job in the background would be stopped by a question, so it asks none then.
    """
    terminal = person_at()
    if terminal is None or _is_attended(spec):
        return terminal
    try:
        return terminal if os.tcgetpgrp(terminal) == os.getpgrp() else None
    except OSError:
        return None


def _patient(spec: RunSpec) -> RunSpec:
    """The same run; one that was not said to ask waits a while for an answer, and not for ever."""
    if _is_attended(spec) or spec.approval_timeout is not None:
        return spec
    return dataclasses.replace(spec, approval_timeout=_PATIENCE)
