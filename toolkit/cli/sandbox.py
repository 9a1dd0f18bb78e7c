"""`toolkit sandbox`: settings that fail closed, and what is wrong with others."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import click

from toolkit.cli import Entry, LazyGroup
from toolkit.cli._help import CommandWithExample
from toolkit.errors import SandboxError

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


class _SandboxGroup(LazyGroup):
    table: ClassVar[dict[str, Entry]] = {
        "check": Entry("toolkit.cli.sandbox_jail:check", "Prove on this machine that the jail holds."),
        "exec": Entry("toolkit.cli.sandbox_jail:exec_command", "Run a command in the jail."),
        "settings": Entry("toolkit.cli.sandbox:settings", "Print settings for the CLI that fail closed."),
        "validate": Entry("toolkit.cli.sandbox:validate", "Explain every problem of a settings file."),
    }


@click.group(cls=_SandboxGroup, epilog="Run 'toolkit sandbox COMMAND --help' for options and an example.")
def sandbox() -> None:
    """Confine an agent, and prove that it is confined."""


@click.command(cls=CommandWithExample, example=SETTINGS_EXAMPLE)
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
    "--allow-control-file", "control_files", multiple=True, metavar="NAME", help="Let CLAUDE.md or the like be changed."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there instead of stdout.")
def settings(
    profile: str | None,
    domains: tuple[str, ...],
    deny_read: tuple[str, ...],
    control_files: tuple[str, ...],
    output: Path | None,
) -> None:
    """Print settings for the CLI that fail closed.

    They confine Bash and keep the file tools in the working directory. Hooks,
    MCP servers and the CLI itself need the jail as well: toolkit sandbox exec.
    """
    from toolkit.sandbox import profile as make

    name = profile or ("allowlist" if domains else "offline")
    text = make(name, domains=domains, deny_read=deny_read, allow_control_files=control_files).as_json(indent=2)
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


@click.command(cls=CommandWithExample, example=VALIDATE_EXAMPLE)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "wants_json", is_flag=True, help="Print the problems as JSON.")
def validate(file: Path, wants_json: bool) -> None:
    """Explain every problem of a settings file.

    Says what the CLI would make of each, and exits 1 if a protection is lost.
    """
    from toolkit.sandbox import explain_file

    problems = explain_file(file)
    errors = sum(problem.level == "error" for problem in problems)
    if wants_json:
        click.echo(json.dumps({"ok": errors == 0, "problems": [asdict(problem) for problem in problems]}, indent=2))
    else:
        for problem in problems:
            click.echo(problem.render(str(file)))
        click.echo(f"{file}: {errors or 'no'} {'error' if errors == 1 else 'errors'}", err=True)
    sys.exit(1 if errors else 0)
