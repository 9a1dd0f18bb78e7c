"""`toolkit serve`: the tools of a target as an MCP server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from toolkit.cli._help import CommandWithExample
from toolkit.cli._results import take_stdout, write_result

if TYPE_CHECKING:
    from toolkit_servers import Reload
    from toolkit_servers.target import Target

EXAMPLE = """
$ claude mcp add notes -- toolkit serve /path/to/tools.py
$ toolkit serve --http --port 8080 --reload tools.py
$ toolkit serve files:read_only=true
"""


@click.command(cls=CommandWithExample, example=EXAMPLE)
@click.argument("target")
@click.option("--http", is_flag=True, help="Serve over streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on, with --http.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on, with --http; 0 takes a free one.",
)
@click.option(
    "--allow-host", "allowed_hosts", metavar="NAME", multiple=True, help="Also answer to this host name, with --http."
)
@click.option("--reload", is_flag=True, help="Follow changes of the files, without dropping connections.")
@click.option("--check", is_flag=True, help="Load, report problems, and stop.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Run in this folder.")
@click.pass_context
def serve(
    ctx: click.Context,
    target: str,
    http: bool,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    reload: bool,
    check: bool,
    cwd: str | None,
) -> None:
    """Serve the tools in TARGET over stdio or HTTP.

    TARGET is a file (tools.py), a file and a name (tools.py:box), or a module
    (my_app.tools:box). Over stdio, anything your code prints goes to stderr.

    \b
    Ready-made targets, where no module of yours has the name:
      files[:FOLDER][,read_only=true]  read, search and change the files of a folder
      notes[:DATABASE]                 keep notes, and find them again later
      planning                         plan work in steps and keep track of it
      workspace:FOLDER                 see and undo what was changed in a kept workspace
    """
    _refuse_alone(ctx, http, "host", "port", "allowed_hosts")
    if cwd is not None:
        os.chdir(cwd)
    if check:
        _check(target)
    elif http:
        _serve_http(target, host, port, allowed_hosts, reload)
    else:
        _serve_stdio(target, reload)


def _serve_stdio(spec: str, reload: bool) -> None:
    from toolkit_servers.stdio import claim_stdio, serve_stdio

    if sys.stdin is not None and sys.stdin.isatty():
        click.echo(f"Waiting for an MCP client on stdin. To try a tool: toolkit call {spec} TOOL", err=True)
    wires = claim_stdio()
    from toolkit_servers.stdio import explain_first_print
    from toolkit_servers.target import load_target

    explain_first_print()
    target = load_target(spec)
    serve_stdio(_following(target) if reload else target.toolbox, wires)


def _serve_http(spec: str, host: str, port: int, allowed_hosts: tuple[str, ...], reload: bool) -> None:
    from toolkit_servers import serve_http
    from toolkit_servers.target import load_target

    target = load_target(spec)
    serve_http(
        _following(target) if reload else target.toolbox,
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        on_ready=lambda url: click.echo(f"Serving {target.toolbox.name} at {url}", err=True),
    )


def _check(spec: str) -> None:
    stdout = take_stdout()
    from toolkit_servers.target import load_target

    box = load_target(spec).toolbox
    write_result(stdout, f"{box.name}: {len(box)} {'tool' if len(box) == 1 else 'tools'}, no problems")


def _following(target: Target) -> Reload:
    from toolkit_servers import Reload
    from toolkit_servers.target import load_target

    return Reload(target, lambda: load_target(target.spec))


def _refuse_alone(ctx: click.Context, http: bool, *parameters: str) -> None:
    """Options that mean nothing over stdio are a slip, not to be passed over in silence."""
    given = [name for name in parameters if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if given and not http:
        option = "--allow-host" if given[0] == "allowed_hosts" else f"--{given[0]}"
        raise click.UsageError(f"{option} goes with --http")
