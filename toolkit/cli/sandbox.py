"""`toolkit sandbox`: settings that fail closed, what is wrong with others, and the jail itself."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from toolkit.cli.quick.jails import check_table, run_command
from toolkit.cli.terminal.command import Group, json_option, mistyped_if_refused
from toolkit.cli.terminal.results import echo_json
from toolkit.errors import SandboxError
from toolkit.sandbox import limit_names

SETTINGS_EXAMPLE = """
$ toolkit sandbox settings -o settings.json
$ claude --settings settings.json --setting-sources "" -p "run the tests"
"""

VALIDATE_EXAMPLE = """
$ toolkit sandbox validate settings.json
error: settings.json:3  sandbox.enabld: is an unknown key
  The CLI ignores it in silence: the sandbox would be off.
  Did you mean 'sandbox.enabled'?
"""

CHECK_EXAMPLE = """
$ toolkit sandbox check
$ toolkit sandbox check --workspace ./copy --json
"""

EXEC_EXAMPLE = """
$ toolkit sandbox exec -- bash
$ toolkit sandbox exec --workspace ./copy -- make test
"""


@click.group(cls=Group, epilog="Run 'toolkit sandbox COMMAND --help' for options and an example.")
def sandbox() -> None:
    """Confine an agent, and prove that it is confined."""


@sandbox.command(example=SETTINGS_EXAMPLE)
@click.option(
    "--profile", help="offline, allowlist, read-only or minimal.  [default: offline, or allowlist with domains]"
)
@click.option(
    "--allow-domain", "domains", multiple=True, metavar="DOMAIN", help="A host commands may reach; repeatable."
)
@click.option(
    "--deny-read", multiple=True, metavar="PATH", help="A path nothing may read, absolute or ~/…; repeatable."
)
@click.option(
    "--allow-control-file",
    "allow_control_files",
    multiple=True,
    metavar="NAME",
    help="Let CLAUDE.md or the like be changed.",
)
@click.option(
    "--set",
    "words",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other key, such as sandbox.excludedCommands=docker; repeatable.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there instead of stdout.")
def settings(
    profile: str | None, domains: tuple[str, ...], words: tuple[str, ...], output: Path | None, **paths: Any
) -> None:
    """Print settings for the CLI that fail closed.

    They confine Bash and keep the file tools in the working directory. Hooks,
    MCP servers and the CLI itself need the jail as well: toolkit sandbox exec.
    """
    from toolkit.sandbox import SandboxSettings, explain_text, profile as make

    name = profile or ("allowlist" if domains else "offline")
    with mistyped_if_refused():
        made = make(name, domains=domains, **paths)
        more = SandboxSettings.from_words(words)
    text = made.as_json(indent=2)
    if words:
        known = explain_text(text)
        text = made.with_more(more).as_json(indent=2)
        for problem in explain_text(text):
            if (problem.key, problem.what) not in {(one.key, one.what) for one in known}:
                click.echo(replace(problem, line=None).render("--set"), err=True)
    if name == "minimal":
        click.echo(
            "note: 'minimal' leaves WebFetch and other tools that reach the network; 'offline' does not", err=True
        )
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as wrong:
        raise SandboxError(
            f"the settings cannot be written to {output}", where=[str(wrong.strerror)], fix="Name a file you may write"
        ) from None
    click.echo(f'wrote {output}; use it with: claude --settings {output} --setting-sources ""', err=True)


@sandbox.command(example=VALIDATE_EXAMPLE)
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@json_option("Print the problems as JSON.")
def validate(file: Path, wants_json: bool) -> None:
    """Explain every problem of a settings file.

    Says what the CLI would make of each, and exits 1 if a protection is lost.
    """
    from toolkit.sandbox import explain_file

    problems = explain_file(file)
    errors = sum(problem.level == "error" for problem in problems)
    if wants_json:
        echo_json({"ok": errors == 0, "problems": [asdict(problem) for problem in problems]})
    else:
        for problem in problems:
            click.echo(problem.render(str(file)))
        click.echo(f"{file}: {errors or 'no'} {'error' if errors == 1 else 'errors'}", err=True)
    sys.exit(1 if errors else 0)


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_READABLE = click.option(
    "--readable",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Also show this host path, read-only; repeatable.",
)
_REQUIRE = click.option(
    "--require", multiple=True, type=click.Choice(limit_names()), help="Refuse unless this limit holds; repeatable."
)


@sandbox.command(example=CHECK_EXAMPLE)
@click.option("--workspace", type=_FOLDER, help="Check for this folder  [default: one of its own]")
@click.option("--cli", "cli_path", type=_FILE, help="Check with this claude binary.")
@_READABLE
@_REQUIRE
@json_option("Print the report as JSON.")
def check(workspace: Path | None, wants_json: bool, **options: Any) -> None:
    """Prove on this machine that the jail holds.

    A program inside the jail tries to get out in every way it knows; each must
    fail. Exits 1 if one does not, or could not be tried.
    """
    from toolkit.sandbox import check as run_check

    report = run_check(workspace, **options)
    if wants_json:
        echo_json(report.as_dict())
    else:
        click.echo(check_table(report))
    sys.exit(not report.ok)


@sandbox.command(
    "exec",
    example=EXEC_EXAMPLE,
    context_settings={"allow_interspersed_args": False},  # options behind the command are the command's
)
@click.option("--workspace", type=_FOLDER, default=Path(), help="Work here  [default: this folder]")
@_READABLE
@_REQUIRE
@click.option("--read-only", is_flag=True, help="Show the workspace without letting it change.")
@click.option("--memory-mb", type=click.IntRange(min=64), help="Most memory, in MiB  [default: 4096]")
@click.option("--processes", type=click.IntRange(min=16), help="Most processes and threads  [default: 512]")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End the command after this time.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_command(command: tuple[str, ...], workspace: Path, **options: Any) -> None:
    """Run a command in the jail.

    It sees this folder and the system's programs: no network, nothing to steal.

    Exits as the command does, or with 4 if the jail cannot be proven to hold.
    """
    sys.exit(run_command(command, workspace, **options))
