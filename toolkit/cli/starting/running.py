"""`toolkit run`: an agent, unattended and confined, from one command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_text
from toolkit.cli.starting.job import job_of, job_options
from toolkit.cli.starting.place import place_options, servers_of, variables_of, workspace_of
from toolkit.cli.starting.setting_up import setup_of, setup_options
from toolkit.cli.terminal.command import HEADER, MOUNT, Duration, command, json_option
from toolkit.cli.terminal.own_words import in_own_words
from toolkit.cli.terminal.project import config_options, person_at, project_of
from toolkit.cli.terminal.results import as_json, take_stdout, write_result
from toolkit.errors import SandboxError, ToolkitError, UnconfinedError
from toolkit.runs.asking import MODES

if TYPE_CHECKING:
    from toolkit.runs import ProjectFile, RunResult, RunSpec
    from toolkit.telemetry import Telemetry
    from toolkit.tools import Toolbox
    from toolkit.workspace import WorkspaceSection

_LONGEST_NAME = 200
"""A longer prompt is no file's name."""
EFFORTS = ("low", "medium", "high", "xhigh", "max")
EXAMPLE = """
$ toolkit run "Make the failing test pass." --mount src --deadline 10m --max-usd 2 --tools notes.py
$ echo "List what is unclear." | toolkit run - --mount docs --mode read-only --json
"""


@command(example=EXAMPLE)
@click.argument("prompt", required=False)
@click.option(
    "--prompt-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Read the prompt from a file."
)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A picture that goes with the prompt.",
)
@click.option(
    "--mount", "mounts", type=MOUNT, multiple=True, metavar="HOST[:WHERE]", help="Copy this into the workspace."
)
@click.option(
    "--allow-root",
    "roots",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    metavar="DIR",
    help="Where mounts may come from.  [default: .]",
)
@click.option("--exclude", "excludes", multiple=True, metavar="PATTERN", help="Leave behind, as in a .gitignore.")
@click.option("--gitignore/--no-gitignore", default=None, help="Also leave behind what .gitignore files say.")
@click.option(
    "--leave-out-secrets/--with-secrets",
    default=None,
    help="Leave behind what usually holds credentials: .env, keys …",
)
@click.option(
    "--in-place",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Let the agent change this folder itself: no copy, nothing to apply or undo.",
)
@place_options
@setup_options
@job_options
@click.option("--tools", "targets", multiple=True, metavar="TARGET", help="Tools of your own, as for 'serve'.")
@click.option("--ready", multiple=True, metavar="NAME", help="A ready-made server: planning, files, notes, workspace.")
@click.option("--deadline", type=Duration(), metavar="TIME", help="Wall-clock limit: 90s, 10m, 1h.")
@click.option("--max-usd", type=float, help="Cost limit in dollars.")
@click.option("--max-tokens", type=int, help="Limit on all tokens together.")
@click.option("--max-turns", type=int, help="Limit on model calls that ask for tools.")
@click.option("--model", help="The model; the CLI's default if not given.")
@click.option("--fallback-model", help="The model to go on with when there is no room for the first.")
@click.option("--effort", type=click.Choice(EFFORTS), help="How thorough the model is.")
@click.option("--thinking", metavar="TOKENS|off", help="Most tokens for thinking, adaptive, or off.")
@click.option("--beta", "betas", multiple=True, metavar="NAME", help="A beta of the model API.")
@click.option("--plugin", "plugins", multiple=True, metavar="DIR", help="A plugin of the CLI: agents, skills …")
@click.option("--folder", "folders", multiple=True, metavar="DIR", help="A further folder that the agent may read.")
@click.option("--output-schema", type=click.Path(exists=True, dir_okay=False), help="A JSON Schema for the output.")
@click.option(
    "--profile",
    type=click.Choice(["offline", "allowlist", "read-only"]),
    help="Confinement.  [default: offline, or allowlist with domains]",
)
@click.option("--allow-domain", "domains", multiple=True, metavar="DOMAIN", help="A host that commands may reach.")
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings of the CLI that tighten the profile, as JSON.",
)
@click.option(
    "--api-header", "headers", type=HEADER, multiple=True, metavar="NAME=VALUE", help="Sent with each model request."
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    metavar="MODE",
    help="normal asks you before anything is changed; also read-only, or a mode of the CLI.  [default: yolo]",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="TOOL=WORD",
    help="allow, ask, deny, defer or disable a tool; repeatable, the first match decides.",
)
@click.option("--resume", metavar="SESSION|RUN", help="Go on with a conversation: its id, or a run's, or 'last'.")
@click.option("--ask-elsewhere", is_flag=True, help="Wait for 'toolkit approvals answer' instead of asking here.")
@click.option("--branch", metavar="NAME", help="Make a branch of the work at the end, if it is verified or ok.")
@click.option("--keep-workspace/--drop-workspace", default=True, show_default=True, help="Keep the copy afterwards.")
@click.option("--otel", is_flag=True, help="Send traces and metrics to a collector, by the OTEL_… variables.")
@config_options
@click.option("--plan", "wants_plan", is_flag=True, help="Say what the agent would have, and start nothing.")
@json_option("Print the result, or the plan, as JSON.")
@click.option("--stream-json", is_flag=True, help="Print every event as a line of JSON, the result last.")
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

    from toolkit.cli.runs.clean import tidy_afterwards
    from toolkit.cli.terminal.display import summary
    from toolkit.cli.terminal.following import follow
    from toolkit.runs import load_run

    project = project_of(given)
    spec = _spec(given, project)
    print_line = (lambda line: write_result(stdout, line)) if given["stream_json"] else None
    try:
        if given["wants_plan"]:
            write_result(stdout, _plan(spec, wants_json=given["wants_json"]))
            return
        try:
            result = asyncio.run(follow(spec, terminal=_terminal(spec, given), print_line=print_line))
        finally:
            if spec.telemetry is not None:
                spec.telemetry.close()
    except ToolkitError as error:
        if _is_mistyped(error):
            raise click.UsageError(in_own_words(error, given)) from None
        raise
    text = _printed(result, given, terminal=stdout.isatty())
    if text:
        write_result(stdout, text)
    for line in summary(result, kept=given["keep_workspace"]):
        click.echo(line, err=True)
    if not given["keep_workspace"]:
        load_run(result.run).drop_workspace()
    tidy_afterwards()
    sys.exit(_exit_code(result))


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


def spec_of(given: dict[str, Any]) -> RunSpec:
    """The spec that the options of this command, and the project file they find, ask for."""
    return _spec(given, project_of(given))


def _spec(given: dict[str, Any], project: ProjectFile | None) -> RunSpec:
    """What was asked for, by the options and by the project file, all of it checked."""
    from toolkit import Image
    from toolkit.runs import ProjectFileError, RunSpec

    has_none = given["prompt"] is None and given["prompt_file"] is None
    prompt = "(none)" if given["wants_plan"] and has_none else _prompt(given["prompt"], given["prompt_file"])
    try:
        options = _options(given, project)
        if project is not None:
            options = project.options(**options)
        if "profile" not in options:
            options["profile"] = "allowlist" if options.get("domains") else "offline"
        return RunSpec([prompt, *map(Image, given["images"])] if given["images"] else prompt, **options)
    except ProjectFileError:
        raise
    except ToolkitError as error:
        raise click.UsageError(in_own_words(error, given)) from None


def _options(given: dict[str, Any], project: ProjectFile | None) -> dict[str, Any]:
    """The options of the run that were given; what is None or empty was not."""
    from toolkit.runs import Limits
    from toolkit.sandbox import SandboxSettings
    from toolkit.workspace import WorkspaceSection
    from toolkit_servers.target import load_target

    is_plan, schema, settings = given["wants_plan"], given["output_schema"], given["settings_file"]
    workspace = workspace_of(given, project)
    section = workspace if isinstance(workspace, WorkspaceSection) else None
    ready = [_ready(name, section) for name in given["ready"]]
    options = {
        "workspace": workspace,
        "setup": setup_of(given, project),
        "tools": [*(target if is_plan else load_target(target).toolbox for target in given["targets"]), *ready],
        "limits": Limits(
            seconds=given["deadline"],
            usd=given["max_usd"],
            tokens=given["max_tokens"],
            turns=given["max_turns"],
            memory_bytes=given["memory"],
        ),
        **job_of(given, project),
        "output": _schema(Path(schema)) if schema else None,
        "model": given["model"],
        "fallback_model": given["fallback_model"],
        "effort": given["effort"],
        "thinking": _thinking(given["thinking"]),
        "betas": given["betas"],
        "plugins": given["plugins"],
        "folders": given["folders"],
        "profile": given["profile"],
        "domains": given["domains"],
        "toolchain": given["toolchain"],
        "readable": given["readable"],
        "env": variables_of(given),
        "servers": servers_of(given),
        "settings": None if settings is None else SandboxSettings.load(settings),
        "api_headers": dict(given["headers"]),
        "mode": given["mode"],
        "policy": _policy(given["policies"]),
        "approve": "wait" if given["ask_elsewhere"] else None,
        "branch": given["branch"],
        "resume": _session(given["resume"]),
        "telemetry": _telemetry() if given["otel"] and not is_plan else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _ready(spec: str, workspace: WorkspaceSection | None) -> Toolbox:
    """A ready-made server; files and workspace without a path are about the workspace of this run."""
    from toolkit_servers.ready import load_ready, load_ready_spec

    if spec == "workspace" and workspace is not None:
        return load_ready(spec, section=workspace)
    return load_ready_spec(spec, Path.cwd())


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
    if len(words) < _LONGEST_NAME and "\n" not in words and Path(words).is_file():
        raise click.UsageError(f"PROMPT is '{words}', which is a file: did you mean --prompt-file {words}?")
    return sys.stdin.read() if words == "-" else words


def _policy(words: tuple[str, ...]) -> dict[str, str]:
    """The policy that was written as TOOL=WORD; the first of two about one tool counts."""
    policy: dict[str, str] = {}
    for word in words:
        tool, equals, choice = word.rpartition("=")
        if not equals or not tool:
            raise click.UsageError(f"--policy {word}: write TOOL=WORD, for example Bash=ask")
        policy.setdefault(tool, choice)
    return policy


def _session(name: str | None) -> str | None:
    """The session that was named: by its id, or as that of a stored run."""
    from toolkit.errors import RunError
    from toolkit.runs import SessionId, load_run

    if name is None:
        return None
    try:
        return SessionId(name)
    except RunError:
        stored = load_run(name)
    is_running = stored.state == "running"
    if is_running:
        click.echo(f"run {stored.id} is still running: this one waits for its end", err=True)
    # One that was refused, for its workspace was gone, say, is still about the conversation it was to go on with.
    session = (stored.so_far() if is_running else stored.result()).session or stored.facts.get("resume")
    if session is None:
        raise RunError(
            f"run {stored.id} ended before its conversation began", fix="Start a new one: toolkit run PROMPT"
        )
    return session


def _telemetry() -> Telemetry:
    """Traces and metrics that are sent to a collector."""
    from toolkit.telemetry import Telemetry

    return Telemetry.otlp()


def _thinking(written: str | None) -> Any:
    """Tokens as a number, and words as they are."""
    return int(written) if written is not None and written.isdecimal() else written


def _schema(path: Path) -> dict[str, Any]:
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(schema, dict):
            raise ValueError("a JSON Schema is an object")
    except ValueError as error:
        raise click.UsageError(f"--output-schema {path}: {error}") from None
    return schema


def _terminal(spec: RunSpec, given: dict[str, Any]) -> int | None:
    """Where the person can be asked; None where nobody is there, or nothing will be asked."""
    asks = spec.mode != "yolo" or "ask" in spec.policy.values()
    return None if given["ask_elsewhere"] or not asks else person_at()
