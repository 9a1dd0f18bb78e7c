"""`toolkit install`: a target in an MCP client's configuration."""

from __future__ import annotations

import os
from pathlib import Path

import click

from toolkit.cli._help import CommandWithExample
from toolkit.cli._results import take_stdout, write_result

CLIENT_NAMES = ("claude-code", "claude-desktop", "cursor", "vscode")

EXAMPLE = """
$ toolkit install tools.py --client cursor --write
$ toolkit install tools.py --client cursor --write --file ~/.cursor/mcp.json
"""


@click.command(cls=CommandWithExample, example=EXAMPLE)
@click.argument("target")
@click.option(
    "--client",
    "client_name",
    type=click.Choice(CLIENT_NAMES),
    default="claude-code",
    show_default=True,
    help="The program to configure.",
)
@click.option("--name", help="The server's name there.  [default: the Toolbox's name]")
@click.option("--write", is_flag=True, help="Merge it into the configuration file; the old file stays as FILE.bak.")
@click.option("--file", "chosen_file", type=click.Path(path_type=Path), help="Use this configuration file instead.")
def install(target: str, client_name: str, name: str | None, write: bool, chosen_file: Path | None) -> None:
    """Add TARGET to an MCP client's configuration.

    Without --write the entry is only printed. It goes into .mcp.json,
    .cursor/mcp.json or .vscode/mcp.json of the current folder, or into the one
    file that Claude Desktop has.
    """
    stdout = take_stdout()
    from toolkit_servers.clients import CLIENTS, Server, write_server
    from toolkit_servers.target import load_target

    client = CLIENTS[client_name]
    server = Server.of(load_target(target), name)
    file = chosen_file or client.file(Path.cwd(), os.environ)
    if not write:
        write_result(stdout, server.snippet(client))
        click.echo(f"\nPut this into {file}, or let --write do it.", err=True)
        if client_name == "claude-code":
            click.echo(f"For yourself only, in this folder: {server.shell_command()}", err=True)
        return
    written = write_server(server, client, file)
    write_result(stdout, str(written.file))
    if not written.changed:
        click.echo(f"'{server.name}' is already in there; nothing to do.", err=True)
        return
    kept = f" The old file is {written.backup}." if written.backup else ""
    click.echo(f"{client.title} has the server '{server.name}' now.{kept} {client.after}", err=True)
